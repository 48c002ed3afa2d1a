# SPDX-License-Identifier: Apache-2.0
"""The structs and numbers of the package against the C headers, by the C compiler."""
import os
import re
import subprocess
import tempfile

import kvstore
from kvstore import _library
from support import Case, main

INCLUDE = os.path.join(os.environ["KVS_SOURCE"], "core", "include")
SDK = os.path.join(os.environ["KVS_SOURCE"], "sdk", "include")
STRUCTS = {
    "Device": "kvs_device_t", "DType": "kvs_dtype_t", "Rows": "kvs_rows_t", "Tensor": "kvs_tensor_t",
    "Key": "kvs_key_t", "Arrays": "kvs_arrays_t", "Call": "kvs_call_t", "Option": "kvs_option_t",
    "Param": "kvs_param_t", "Multiplier": "kvs_multiplier_t", "ParamName": "kvs_param_name_t",
    "OptimizerSpec": "kvs_optimizer_spec_t", "Stats": "kvs_stats_t", "PluginInfo": "kvs_plugin_info_t",
    "DeviceInfo": "kvs_device_info_t", "AllreduceOps": "kvs_allreduce_ops_t",
}
# Functions that a program in Python has no use for, and what it has instead.
ELSEWHERE = {
    "kvs_status_name": "Status", "kvs_status_text": "Status", "kvs_dtype": "DTYPES", "kvs_dtype_index": "DTYPES",
    "kvs_dtype_name": "DTYPES", "kvs_store_join": "kvs_store_join_last", "kvs_event_wait": "Future",
    "kvs_dlpack_give": "arrays of frameworks", "kvs_device_reaches": "frameworks of its own",
    "kvs_device_alloc": "arrays of frameworks", "kvs_device_free": "arrays of frameworks",
    "kvs_device_copy": "arrays of frameworks", "kvs_register_backend": "KVStoreBase.register",
    "kvs_plugin_register": "KVStoreBase.register",
}
MEMBERS = {"device_type": "device.type", "device_id": "device.id", "code": "dtype.code", "bits": "dtype.bits",
           "lanes": "dtype.lanes"}


def lines():
    for name, c_name in STRUCTS.items():
        struct = getattr(_library, name)
        for field, *_ in struct._fields_:
            member = MEMBERS.get(field, field) if name == "Tensor" else field
            offset, size = getattr(struct, field).offset, getattr(struct, field).size
            yield (f"{name}.{field} {offset} {size}",
                   f'printf("{name}.{field} %zu %zu\\n", offsetof({c_name}, {member}), '
                   f"sizeof((({c_name} *)0)->{member}));")
        if name != "PluginInfo":  # whose later members the package does not look at
            yield (f"{name} {_library.ctypes.sizeof(struct)}", f'printf("{name} %zu\\n", sizeof({c_name}));')
    for status in kvstore.Status:
        yield f"{status.name} {int(status)}", f'printf("{status.name} %d\\n", KVS_{status.name});'
    for name in ("NULL", "BOOL", "INT", "FLOAT", "TEXT", "INTS"):
        yield f"PARAM_{name} {getattr(_library, 'PARAM_' + name)}", \
            f'printf("PARAM_{name} %d\\n", KVS_PARAM_{name});'


class Layout(Case):
    def test_structs_and_numbers_are_those_of_the_headers(self):
        want, code = zip(*lines())
        program = "#include <kvstore/allreduce.h>\n#include <kvstore/plugins.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n" + \
            "\n".join(code) + "\nreturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
            with open(source, "w", encoding="utf-8") as file:
                file.write(program)
            subprocess.run([os.environ["CC"], "-I", INCLUDE, "-I", SDK, "-o", binary, source], check=True)
            said = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.splitlines(), list(want))

    def test_every_function_is_called_or_has_its_like(self):
        with open(os.path.join(INCLUDE, "kvstore", "kvstore.h"), encoding="utf-8") as file:
            header = file.read()
        declared = set(re.findall(r"^KVS_API [^(;]*?\b(kvs_\w+)\(", header, re.M))
        folder = os.path.dirname(kvstore.__file__)
        sources = ""
        for name in os.listdir(folder):
            if name.endswith(".py") and name != "_library.py":
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    sources += file.read()
        self.assertGreater(len(declared), 60)
        self.assertEqual({name for name in declared if not re.search(rf"\b{name}\b", sources)}, set(ELSEWHERE))

    def test_all_statuses_are_there(self):
        with open(os.path.join(INCLUDE, "kvstore", "kvstore.h"), encoding="utf-8") as file:
            names = re.findall(r"^    X\((OK|ERR_\w+),", file.read(), re.M)
        self.assertEqual([status.name for status in kvstore.Status], names)

    def test_dtypes_are_those_of_the_header(self):
        with open(os.path.join(INCLUDE, "kvstore", "kvstore.h"), encoding="utf-8") as file:
            found = re.findall(r"X\((\w+), KVS_CODE_(\w+), (\d+)\)", file.read())
        codes = {"INT": 0, "UINT": 1, "FLOAT": 2, "BFLOAT": 4}
        self.assertEqual(kvstore._arrays.DTYPES, {name: (codes[code], int(bits)) for name, code, bits in found})


if __name__ == "__main__":
    main()
