# SPDX-License-Identifier: Apache-2.0
"""Which architectures the kernels in a shared object are compiled for.

usage: fatbins.py FILE ARCHITECTURE…: every fatbin in it has machine code for exactly these, and PTX of the last."""
import os
import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)
PTX, CODE = 1, 2


def fatbins(data):
    """What each fatbin of a file holds: a set of (PTX or CODE, architecture)."""
    at = data.find(MAGIC)
    while at >= 0:
        _, _, header_bytes, n_bytes = struct.unpack_from("<IHHQ", data, at)
        entry, end, found = at + header_bytes, at + header_bytes + n_bytes, set()
        while entry < end:
            kind, _, entry_header, entry_bytes = struct.unpack_from("<HHIQ", data, entry)
            found.add((kind, struct.unpack_from("<I", data, entry + 28)[0]))
            entry += entry_header + entry_bytes
        yield found
        at = data.find(MAGIC, end)


if not os.path.exists(sys.argv[1]):
    print(f"skipped: no {sys.argv[1]}; make the packages: cmake --build BUILD --target packages")
    sys.exit(77)
with open(sys.argv[1], "rb") as file:
    FOUND = list(fatbins(file.read()))
WANTED = [int(text) for text in sys.argv[2:]]
for holds in FOUND:
    want = {(CODE, architecture) for architecture in WANTED} | {(PTX, WANTED[-1])}
    if holds != want:
        sys.exit(f"{sys.argv[1]}: holds {sorted(holds)}, want {sorted(want)}")
if not FOUND:
    sys.exit(f"{sys.argv[1]}: holds no kernels")
print(f"{len(FOUND)} fatbins for {', '.join(sys.argv[2:])} and PTX")
