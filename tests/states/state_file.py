# SPDX-License-Identifier: Apache-2.0
"""A reader of optimizer state files by what numerics say of them, with the standard library only."""
import json
import struct

SIZES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2}
FORMATS = {"F32": "f", "F64": "d", "F16": "e"}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class StateFile:
    """The tensors, {name: (dtype, shape, bytes)}, and notes, {name: value}, of a file; a ValueError
    where it breaks a rule."""

    def __init__(self, path):
        with open(path, "rb") as file:
            content = file.read()
        (length,) = struct.unpack("<Q", content[:8])
        header, self.data = content[8:8 + length], content[8 + length:]
        self.check(length % 8 == 0 and length <= 100_000_000, "the header's length")
        self.check(header.startswith(b"{"), "the header's first byte")
        text = header.decode("utf-8")
        self.header = json.loads(text, object_pairs_hook=self.without_repeats)
        self.check(set(text[text.rindex("}") + 1:]) <= {" "}, "the padding")
        metadata = self.header.pop("__metadata__")
        self.notes = {name: json.loads(value) for name, value in metadata.items()}
        digits = f'"checksum":"\\"{self.notes["checksum"]}\\""'.encode()
        self.check(header.count(digits) == 1, "the place of the checksum")
        blank = header.replace(digits, b'"checksum":"\\"00000000\\""')
        self.check(f"{crc32c(content[:8] + blank):08x}" == self.notes["checksum"], "the checksum")
        self.read_tensors()

    @staticmethod
    def check(holds, what):
        if not holds:
            raise ValueError(what)

    @staticmethod
    def without_repeats(pairs):
        StateFile.check(len(dict(pairs)) == len(pairs), "a name that stands twice")
        return dict(pairs)

    def read_tensors(self):
        self.tensors = {}
        end = 0
        self.check(list(self.header) == sorted(self.header, key=str.encode), "the order of names")
        for name, entry in self.header.items():
            begin, old_end = entry["data_offsets"][0], end
            end = entry["data_offsets"][1]
            self.check(begin == old_end, f"where {name} begins")
            size = SIZES[entry["dtype"]]
            for dim in entry["shape"]:
                size *= dim
            self.check(end - begin == size, f"the size of {name}")
            data = self.data[begin:end]
            self.check(crc32c(data) == self.notes["checksums"][name], f"the checksum of {name}")
            self.tensors[name] = (entry["dtype"], entry["shape"], data)
        self.check(end == len(self.data), "the end")
        self.check(set(self.notes["checksums"]) == set(self.header), "the list of checksums")

    def values(self, name):
        dtype, _, data = self.tensors[name]
        return list(struct.unpack(f"<{len(data) // SIZES[dtype]}{FORMATS[dtype]}", data))
