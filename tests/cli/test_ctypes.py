# SPDX-License-Identifier: Apache-2.0
"""A host that opens libkvstore privately, as Python does: plugins must not need its symbols."""
import ctypes
import os
import unittest

LIBRARY = ctypes.CDLL(os.environ["KVSTORE_LIBRARY"], mode=os.RTLD_LOCAL | os.RTLD_NOW)
LIBRARY.kvs_last_error.restype = ctypes.c_char_p
LIBRARY.kvs_store_type.restype = ctypes.c_char_p


class Local(unittest.TestCase):
    def create(self, name):
        """Create a store; return (status, store)."""
        store = ctypes.c_void_p()
        status = LIBRARY.kvs_store_create(name, None, ctypes.c_size_t(0), ctypes.byref(store))
        return status, store

    def test_a_plugin_loads_and_works(self):
        status, store = self.create(b"Local")
        self.assertEqual(status, 0, LIBRARY.kvs_last_error())
        self.assertEqual(LIBRARY.kvs_store_type(store), b"local")
        self.assertEqual(LIBRARY.kvs_store_close(store), 0)

    def test_errors_reach_the_host(self):
        status, _ = self.create(b"locla")
        self.assertEqual(status, -3)
        self.assertIn(b'did you mean "local"?', LIBRARY.kvs_last_error())


if __name__ == "__main__":
    unittest.main()
