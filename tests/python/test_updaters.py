# SPDX-License-Identifier: Apache-2.0
"""Updaters in Python."""
import gc
import traceback

import kvstore
from kvstore import RowSparse, Status
from support import Case, array, main, np


class Updaters(Case):
    def test_an_updater_changes_what_is_stored(self):
        kv = self.create()
        kv.init(3, array(1, 2))
        seen = []

        def update(key, value, stored):
            seen.append((key, value.copy(), stored.copy()))
            stored += 2 * value

        kv.set_updater(update)
        kv.push(3, [array(1, 1), array(0, 1)])
        self.assertEqual(seen[0][0], 3)
        self.assertIs(type(seen[0][0]), int)
        self.assert_same(seen[0][1], [1, 2])
        self.assert_same(seen[0][2], [1, 2])
        self.assert_same(self.pulled(kv, 3, 2), [3, 6])

    def test_keys_are_given_as_the_user_gave_them_in_their_order(self):
        kv = self.create()
        kv.init(["b", "ä", ""], [array(0)] * 3)
        keys = []
        kv._set_updater(lambda key, value, stored: keys.append(key))
        kv.push(["", "ä", "b"], [array(1)] * 3)
        self.assertEqual(keys, ["b", "ä", ""])
        numbered = self.create()
        numbered.init([5, -1], [array(0)] * 2)
        numbered.set_updater(lambda key, value, stored: keys.append(key))
        numbered.push([5, -1], [array(1)] * 2)
        self.assertEqual(keys[3:], [-1, 5])

    def test_the_value_is_read_only_and_the_stored_one_the_stores_memory(self):
        kv = self.create()
        kv.init(1, np.zeros((2, 2), "f4"))
        flags = []

        def update(key, value, stored):
            flags.append((value.flags.writeable, stored.flags.writeable, stored.flags.owndata, stored.shape))
            value += 1

        kv.set_updater(update)
        with self.assertRaises(ValueError):
            kv.push(1, np.ones((2, 2), "f4"))
        self.assertEqual(flags, [(False, True, False, (2, 2))])

    def test_all_dtypes_reach_an_updater(self):
        kv = self.create()
        for i, dtype in enumerate(("f4", "f8", "f2", "i1", "u1", "i4", "i8")):
            kv.init(i, np.zeros((3,), dtype))
            kv.init(100 + i, np.zeros((), dtype))
            kv.init(200 + i, np.zeros((0, 2), dtype))
        kv.set_updater(lambda key, value, stored: np.copyto(stored, value + value))
        for i, dtype in enumerate(("f4", "f8", "f2", "i1", "u1", "i4", "i8")):
            kv.push([i, 100 + i, 200 + i], [np.ones(3, dtype), np.ones((), dtype), np.ones((0, 2), dtype)])
            self.assert_same(self.pulled(kv, i, 3, dtype), [2, 2, 2])
            self.assert_same(self.pulled(kv, 100 + i, (), dtype), 2)

    def test_none_lets_pushes_replace_again(self):
        kv = self.create()
        kv.init(1, array(1))
        kv.set_updater(lambda key, value, stored: None)
        kv.push(1, array(5))
        self.assert_same(self.pulled(kv, 1, 1), [1])
        kv.set_updater(None)
        kv.push(1, array(5))
        self.assert_same(self.pulled(kv, 1, 1), [5])

    def test_an_optimizer_takes_the_place_of_an_updater(self):
        kv = self.create()
        kv.init(1, array(1))
        kv.set_updater(lambda key, value, stored: self.fail("called"))
        kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=1))
        kv.push(1, array(1))
        self.assert_same(self.pulled(kv, 1, 1), [0])

    def test_an_updater_lives_as_long_as_its_store(self):
        kv = self.create()
        kv.init(1, array(0))
        kv.set_updater(lambda key, value, stored: np.add(stored, value, out=stored))
        gc.collect()
        kv.push(1, array(3))
        self.assert_same(self.pulled(kv, 1, 1), [3])

    def test_an_updater_may_be_a_method_or_an_optimizer_of_the_worker(self):
        kv = self.create()
        kv.init("w", array(1, 1))
        kv.set_updater(kvstore.optimizer.get_updater(kvstore.optimizer.SGD(learning_rate=0.5)))
        kv.push("w", array(1, 2))
        self.assert_same(self.pulled(kv, "w", 2), [0.5, 0])


class Failing(Case):
    def setUp(self):
        self.kv = self.create()
        self.kv.init(["a", "b"], [array(1, 2)] * 2)

    def raise_from(self, error, **options):
        def update(key, value, stored):
            raise error

        self.kv.set_updater(update)
        return self.kv.push("a", array(1, 1), **options)

    def check_usable(self):
        self.kv.set_updater(None)
        self.kv.push("a", array(3, 4))
        self.assert_same(self.pulled(self.kv, "a", 2), [3, 4])

    def test_an_exception_is_raised_from_the_push_as_itself(self):
        class Own(Exception):
            pass

        error = Own("it rains")
        try:
            self.raise_from(error)
        except Own as caught:
            self.assertIs(caught, error)
            names = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
            self.assertEqual((names[0], names[-1]), ("test_an_exception_is_raised_from_the_push_as_itself", "update"))
        else:
            self.fail("nothing was raised")
        self.check_usable()

    def test_exceptions_of_any_text_are_found_again(self):
        for text in ("", "100 %s %d", "ä" * 3000, "a\nb", "back\\slash", "\ud800"):
            with self.assertRaises(ArithmeticError) as caught:
                self.raise_from(ArithmeticError(text))
            self.assertEqual(str(caught.exception), text)
        with self.assertRaises(KeyboardInterrupt):
            self.raise_from(KeyboardInterrupt())
        self.check_usable()

    def test_an_exception_comes_out_of_the_future(self):
        future = self.raise_from(ZeroDivisionError("so"), async_=True)
        with self.assertRaisesRegex(ZeroDivisionError, "so"):
            future.result(10)
        self.check_usable()

    def test_the_value_is_what_the_updater_left(self):
        def update(key, value, stored):
            stored[0] = 9
            raise RuntimeError("half way")

        self.kv.set_updater(update)
        self.assertRaisesRegex(RuntimeError, "half way", self.kv.push, "a", array(1, 1))
        self.assert_same(self.pulled(self.kv, "a", 2), [9, 2])

    def test_an_updater_may_not_close_its_store(self):
        self.kv.set_updater(lambda key, value, stored: self.kv.close())
        with self.assertRaises(RuntimeError) as raised:
            self.kv.push("a", array(1, 1))
        self.assertIn("not allowed in an updater", str(raised.exception))
        self.kv.set_updater(None)
        self.kv.push("a", array(3, 4))
        self.assert_same(self.pulled(self.kv, "a", 2), [3, 4])

    def test_an_updater_may_not_use_its_store(self):
        calls = []

        def update(key, value, stored):
            calls.append((self.kv.type, self.kv.rank, self.kv.num_workers, self.kv.is_capable("sparse")))
            self.kv.push("b", array(1, 1))

        self.kv.set_updater(update)
        self.assert_fails(RuntimeError, "callback", Status.ERR_STATE, self.kv.push, "a", array(1, 1))
        self.assertEqual(calls, [("local", 0, 1, True)])
        self.check_usable()

    def test_a_function_of_other_arguments_is_a_type_error(self):
        self.kv.set_updater(lambda key: None)
        self.assertRaises(TypeError, self.kv.push, "a", array(1, 1))
        self.check_usable()


class Sparse(Case):
    def test_a_row_sparse_push_reaches_the_updater_as_one(self):
        kv = self.create()
        kv.init("w", np.ones((4, 2), "f4"))
        kinds = []

        def update(key, value, stored):
            kinds.append((type(value), value.indices.tolist(), value.shape, value.indices.flags.writeable,
                          value.data.flags.writeable))
            stored += value
            stored -= value * 0.5

        kv.set_updater(update)
        kv.push("w", RowSparse(np.ones((3, 2), "f4"), [3, 1, 3], (4, 2)))
        self.assertEqual(kinds, [(RowSparse, [1, 3], (4, 2), False, False)])
        self.assert_same(self.pulled(kv, "w", (4, 2)), [[1, 1], [1.5, 1.5], [1, 1], [2, 2]])

    def test_a_row_sparse_key_can_be_updated(self):
        kv = self.create()
        kv.init("w", RowSparse(np.ones((1, 2), "f4"), [2], (4, 2)))

        def update(key, value, stored):
            stored += value

        kv.set_updater(update)
        kv.push("w", RowSparse(np.full((1, 2), 5, "f4"), [0], (4, 2)))
        self.assert_same(self.pulled(kv, "w", (4, 2)), [[5, 5], [0, 0], [1, 1], [0, 0]])

    def test_the_kinds_can_be_added_in_any_mix(self):
        def sparse():
            return RowSparse(np.full((2, 1), 2, "f4"), [0, 2], (3, 1))

        dense = np.ones((3, 1), "f4")
        dense += sparse()
        self.assert_same(dense.ravel(), [3, 1, 3])
        dense -= sparse()
        self.assert_same(dense.ravel(), [1, 1, 1])
        both = sparse()
        both += RowSparse(np.ones((2, 1), "f4"), [1, 2], (3, 1))
        self.assert_same(both.indices, [0, 1, 2])
        self.assert_same(both.data.ravel(), [2, 1, 3])
        same = sparse()
        data = same.data
        same += sparse()
        self.assertIs(same.data, data)
        self.assert_same(data.ravel(), [4, 4])
        filled = sparse()
        filled += np.ones((3, 1), "f4")
        self.assert_same(filled.todense().ravel(), [3, 1, 3])
        filled -= sparse()
        self.assert_same(filled.todense().ravel(), [1, 1, 1])
        self.assert_same((np.float32(3) * -sparse() / 2).todense().ravel(), [-3, 0, -3])

    def test_what_can_not_be_added(self):
        sparse = RowSparse(np.ones((1, 1), "f4"), [0], (3, 1))
        dense = np.ones((2, 1), "f4")
        with self.assertRaises(ValueError):
            dense += sparse
        with self.assertRaises(ValueError):
            sparse += RowSparse.zeros((2, 1))
        with self.assertRaises(TypeError):
            np.asarray(sparse)
        frozen = np.ones((3, 1), "f4")
        frozen.flags.writeable = False
        with self.assertRaises(ValueError):
            frozen += sparse


if __name__ == "__main__":
    main()
