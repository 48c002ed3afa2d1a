# SPDX-License-Identifier: Apache-2.0
"""Freeze today's ABI: headers, a plugin built with them, the table of offsets, checksums. README.md says when."""
import hashlib
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
HEADERS = {"kvstore.h": "core/include", "abi.h": "sdk/include", "plugin.h": "sdk/include"}
TABLE = os.path.join(HERE, "offsets.h")


def members(body):
    """The names declared in the body of a struct without comments."""
    while re.search(r"\{[^{}]*\}", body):  # unions within
        body = re.sub(r"(union|struct)\s*\{[^{}]*\}", "int", body)
    for declaration in body.split(";"):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", declaration)
        if pointer:
            yield pointer.group(1)
        elif declaration.strip():
            for part in declaration.split(","):
                yield re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", part).group(1)


def structs(text):
    """(type, its members) of each struct that is defined there."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"KVS_PRINTF\([^)]*\)", "", text)
    for match in re.finditer(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, flags=re.S):
        yield match.group(2), list(members(match.group(1)))


def write_table():
    """Let the compiler say where each member lies."""
    lines = []
    for name in ("kvstore.h", "abi.h"):
        with open(os.path.join(HERE, "kvstore", name), encoding="utf-8") as file:
            for struct, names in structs(file.read()):
                sized = "SIZED" if names[0] == "size" else "FIXED"
                lines.append(f'printf("{sized}({struct}, %zu)\\n", sizeof({struct}));')
                for member in names:
                    place = f"offsetof({struct}, {member}), sizeof((({struct} *)0)->{member})"
                    lines.append(f'printf("MEMBER({struct}, {member}, %zu, %zu)\\n", {place});')
    program = "#include <kvstore/abi.h>\n#include <stdio.h>\nint main(void)\n{\n" + \
        "\n".join(lines) + "\nreturn 0;\n}\n"
    binary = os.path.join(HERE, "offsets.tmp")
    subprocess.run(["gcc", "-std=c11", "-I", HERE, "-x", "c", "-", "-o", binary], input=program,
                   text=True, check=True)
    printed = subprocess.run([binary], stdout=subprocess.PIPE, text=True, check=True).stdout
    os.unlink(binary)
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("/* SPDX-License-Identifier: Apache-2.0 */\n"
                   "/* offsets.h - where each member of the headers beside this lies, on 64-bit machines: "
                   "offset, size.\n * Written by renew.py. SIZED structs may grow at their end, FIXED "
                   "ones may not. */\n" + printed)


def build():
    subprocess.run(["gcc", "-std=c11", "-O1", "-s", "-fPIC", "-shared", "-fvisibility=hidden",
                    "-fno-builtin", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
                    "-fcf-protection=none", "-ffile-prefix-map=" + HERE + "=.", "-nostdlib",
                    "-Wl,-z,now", "-Wl,-z,defs", "-Wl,-z,noseparate-code", "-Wl,--build-id=none",
                    "-I", HERE, os.path.join(HERE, "frozen.c"), "-o",
                    os.path.join(HERE, "kvs_frozen.so")], check=True)


def write_sums():
    names = [f"kvstore/{name}" for name in sorted(HEADERS)] + ["kvs_frozen.so"]
    with open(os.path.join(HERE, "SHA256SUMS"), "w", encoding="utf-8") as sums:
        for name in names:
            with open(os.path.join(HERE, name), "rb") as file:
                sums.write(f"{hashlib.sha256(file.read()).hexdigest()}  {name}\n")


os.makedirs(os.path.join(HERE, "kvstore"), exist_ok=True)
for header, where in HEADERS.items():
    shutil.copyfile(os.path.join(ROOT, where, "kvstore", header),
                    os.path.join(HERE, "kvstore", header))
build()
write_table()
write_sums()
