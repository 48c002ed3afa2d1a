# SPDX-License-Identifier: Apache-2.0
"""Stores written in Python."""
import warnings

import kvstore
from kvstore import KVStoreBase, Status
from support import Case, array, main


@KVStoreBase.register
class CountingStore(KVStoreBase):
    """Counts, and says no to the rest."""

    def __init__(self, step=1):
        self.step = step
        self.n = 0

    def pushpull(self, key, value, out=None, priority=0):
        if value is None:
            raise ZeroDivisionError("own")
        self.n += self.step

    @staticmethod
    def is_capable(capability):
        return capability == "optimizer"


class Custom(Case):
    def test_a_class_is_found_by_its_name_and_made_with_the_options(self):
        for name in ("countingstore", "CountingStore"):
            kv = kvstore.create(name, step=3)
            self.assertIs(type(kv), CountingStore)
            self.assertIsInstance(kv, KVStoreBase)
            kv.pushpull(1, array(1))
            self.assertEqual((kv.n, kv.type, kv.is_capable("optimizer")), (3, "countingstore", True))
        self.assertRaises(TypeError, kvstore.create, "countingstore", stride=3)

    def test_every_store_is_a_base(self):
        self.assertIsInstance(self.create(), KVStoreBase)

    def test_what_is_not_overridden_is_not_implemented(self):
        kv = kvstore.create("countingstore")
        for call in (lambda: kv.init(1, 2), lambda: kv.push(1, 2), lambda: kv.pull(1, 2),
                     lambda: kv.broadcast(1, 2, 3), lambda: kv.row_sparse_pull(1), lambda: kv.set_optimizer(None),
                     lambda: kv.set_updater(None), lambda: kv._set_updater(None), lambda: kv.barrier(),
                     lambda: kv.rank, lambda: kv.num_workers, lambda: kv.save_optimizer_states("x"),
                     lambda: kv.set_gradient_compression({}), lambda: kv.num_dead_nodes()):
            self.assert_fails(NotImplementedError, "countingstore", Status.ERR_NOT_IMPLEMENTED, call)

    def test_its_exceptions_are_raised_as_themselves(self):
        with kvstore.create("countingstore") as kv:
            self.assertRaisesRegex(ZeroDivisionError, "own", kv.pushpull, 1, None)

    def test_a_second_class_of_one_name_replaces_the_first_and_warns(self):
        def make(value):
            class Replaced(KVStoreBase):
                number = value
            return Replaced

        first, second = make(1), make(2)
        KVStoreBase.register(first)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            KVStoreBase.register(first)
        with self.assertWarnsRegex(UserWarning, "replaced"):
            self.assertIs(KVStoreBase.register(second), second)
        self.assertEqual(kvstore.create("replaced").number, 2)

    def test_a_class_comes_before_what_is_installed(self):
        class TestStore(KVStoreBase):
            pass

        KVStoreBase.register(TestStore)
        try:
            self.assertIs(type(kvstore.create("teststore")), TestStore)
        finally:
            del kvstore.base._classes["teststore"]
        self.assertIsNot(type(self.create("teststore")), TestStore)

    def test_what_can_not_be_registered(self):
        for wrong in (3, "name", object, lambda: None, kvstore.KVStoreServer):
            self.assert_fails(TypeError, "register", Status.ERR_ARGUMENT, KVStoreBase.register, wrong)


if __name__ == "__main__":
    main()
