# SPDX-License-Identifier: Apache-2.0
"""Which architectures the kernels in a shared object are compiled for.

usage: fatbins.py FILE ARCHITECTURE…: there is a fatbin for each .cu file of the plugin, and every one has machine code
for exactly these, and PTX of the last."""
import glob
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
SOURCES = glob.glob(os.path.join(os.path.dirname(__file__), "../../plugins/device/cuda/*.cu"))
if len(FOUND) != len(SOURCES):
    sys.exit(f"{sys.argv[1]}: holds {len(FOUND)} fatbins, want {len(SOURCES)}")
print(f"{len(FOUND)} fatbins for {', '.join(sys.argv[2:])} and PTX")
