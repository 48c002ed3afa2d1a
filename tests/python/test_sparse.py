# SPDX-License-Identifier: Apache-2.0
"""Row-sparse values, and pulls of rows."""
import kvstore
from kvstore import RowSparse, Status
from support import Case, array, main, np


def rows(shape, indices, first=1):
    """Row i of the value is first + i, everywhere."""
    data = np.stack([np.full(shape[1:], first + i, "f4") for i in range(len(indices))]) if indices else \
        np.zeros((0,) + shape[1:], "f4")
    return RowSparse(data, indices, shape)


class Values(Case):
    def test_a_value_says_what_it_is(self):
        value = rows((5, 2), [4, 1])
        self.assertEqual((value.shape, value.dtype, value.indices.dtype), ((5, 2), np.float32, np.int64))
        self.assert_same(value.todense(), [[0, 0], [2, 2], [0, 0], [0, 0], [1, 1]])
        self.assertIn("2 rows", repr(value))
        self.assertEqual(RowSparse.zeros((3, 2), "f8").dtype, np.float64)

    def test_members_may_be_replaced(self):
        kv = self.create()
        kv.init("w", rows((3, 1), [0, 1]))
        value = rows((3, 1), [0, 1])
        value.data, value.indices = [[5], [6]], [2, 0]
        value.data = np.array(value.data, "f4")
        kv.push("w", value)
        self.assert_same(self.pulled(kv, "w", (3, 1)).ravel(), [6, 0, 5])
        value.indices = np.array([2, 9, 0])[::2]
        kv.push("w", value)
        self.assert_same(self.pulled(kv, "w", (3, 1)).ravel(), [6, 0, 5])
        value.indices = [1]
        self.assert_fails(ValueError, "data has the shape", Status.ERR_SHAPE, kv.push, "w", value)

    def test_what_is_no_value(self):
        self.assert_fails(ValueError, "data has the shape", Status.ERR_SHAPE, RowSparse, np.ones((2, 2)), [0], (3, 2))
        self.assert_fails(ValueError, "dimension", Status.ERR_SHAPE, RowSparse, np.ones(0), [], ())
        self.assert_fails(TypeError, "row ids", Status.ERR_DTYPE, RowSparse, np.ones((1, 2)), ["a"], (3, 2))


class Stores(Case):
    def setUp(self):
        self.kv = self.create()
        self.kv.init("w", rows((6, 2), [1, 3, 4]))

    def pull(self, row_ids, out=None):
        out = RowSparse.zeros((6, 2)) if out is None else out
        self.kv.row_sparse_pull("w", out=out, row_ids=row_ids)
        return out

    def test_rows_come_sorted_and_once_absent_ones_zero(self):
        out = self.pull([3, 0, 3])
        self.assert_same(out.indices, [0, 3])
        self.assert_same(out.data, [[0, 0], [2, 2]])

    def test_ids_may_have_any_shape_and_integer_dtype_and_be_whole_floats(self):
        for ids in (np.array([[4, 1], [1, 4]], "u1"), np.array([4, 1], "i2"), (4, 1), [np.int64(4), 1],
                    np.array([4.0, 1.0], "f4"), [1.0, 4.0], np.array([4, 1, 9], "i8")[:2], range(1, 5, 3)):
            self.assert_same(self.pull(ids).indices, [1, 4])
        self.assert_same(self.pull(np.array(4)).indices, [4])
        self.assert_same(self.pull(4).data, [[3, 3]])

    def test_ids_that_are_none(self):
        fails = self.assert_fails
        fails(ValueError, "1.7", Status.ERR_DTYPE, self.pull, [1.7])
        fails(TypeError, "integers", Status.ERR_DTYPE, self.pull, np.array([True]))
        fails(ValueError, "6", Status.ERR_RANGE, self.pull, [6])
        fails(ValueError, "-1", Status.ERR_RANGE, self.pull, [-1])
        fails(ValueError, "out of range", Status.ERR_RANGE, self.pull, np.array([2**63], "u8"))
        self.assert_same(self.pull([4]).data, [[3, 3]])

    def test_no_ids_give_no_rows(self):
        out = self.pull([], rows((6, 2), [0, 1]))
        self.assertEqual((out.data.shape, out.indices.shape), ((0, 2), (0,)))

    def test_an_out_is_filled_in_place_where_the_number_of_rows_is_the_same(self):
        out = rows((6, 2), [0, 1])
        data, ids = out.data, out.indices
        self.pull([4, 3], out)
        self.assertIs(out.data, data)
        self.assertIs(out.indices, ids)
        self.assert_same(ids, [3, 4])
        self.assert_same(data, [[2, 2], [3, 3]])
        self.pull([4], out)
        self.assertIsNot(out.data, data)
        self.assert_same(out.data, [[3, 3]])

    def test_several_outs_share_ids_or_have_their_own(self):
        outs = [RowSparse.zeros((6, 2)), RowSparse.zeros((6, 2))]
        self.kv.row_sparse_pull("w", out=outs, row_ids=[3])
        self.assert_same([out.indices for out in outs], [[3], [3]])
        self.kv.row_sparse_pull("w", out=outs, row_ids=[array(3, 4), array(1)])
        self.assert_same(outs[0].indices, [3, 4])
        self.assert_same(outs[1].indices, [1])

    def test_lists_of_keys_and_of_devices(self):
        self.kv.init("v", rows((3, 1), [0, 1, 2], first=10))
        outs = [RowSparse.zeros((6, 2)), RowSparse.zeros((3, 1))]
        self.kv.row_sparse_pull(["w", "v"], out=outs, row_ids=[array(1), array(2, 0)])
        self.assert_same(outs[0].data, [[1, 1]])
        self.assert_same(outs[1].data, [[10], [12]])
        self.kv.row_sparse_pull(["w", "v"], out=outs, row_ids=[1, 2])
        self.assert_same(outs[0].indices, [1, 2])
        self.assert_same(outs[1].indices, [1, 2])
        nested = [[RowSparse.zeros((6, 2)), RowSparse.zeros((6, 2))], [RowSparse.zeros((3, 1))]]
        self.kv.row_sparse_pull(["w", "v"], out=nested, row_ids=[[array(1), array(3, 4)], [array(2)]])
        self.assert_same(nested[0][1].indices, [3, 4])
        self.assert_same(nested[1][0].data, [[12]])
        self.kv.row_sparse_pull(["w", "v"], out=nested, row_ids=[array(1), array(2)])
        self.assert_same(nested[0][1].indices, [1])

    def test_wrong_numbers_and_kinds(self):
        outs = [RowSparse.zeros((6, 2))] * 3
        fails = self.assert_fails
        fails(ValueError, "", Status.ERR_ARGUMENT, self.kv.row_sparse_pull, "w", out=outs,
              row_ids=[array(1), array(2)])
        fails(ValueError, "3 row_ids for 2 keys", Status.ERR_ARGUMENT, self.kv.row_sparse_pull, ["w", "w"],
              out=outs[:2], row_ids=[array(1), array(2), array(3)])
        fails(TypeError, "", Status.ERR_STORAGE, self.kv.row_sparse_pull, "w", out=np.zeros((6, 2), "f4"),
              row_ids=[1])
        fails(ValueError, "", Status.ERR_SHAPE, self.kv.row_sparse_pull, "w", out=RowSparse.zeros((5, 2)),
              row_ids=[1])
        self.kv.init("d", np.zeros((6, 2), "f4"))
        fails(TypeError, "", Status.ERR_STORAGE, self.kv.row_sparse_pull, "d", out=RowSparse.zeros((6, 2)),
              row_ids=[1])

    def test_a_failed_pull_leaves_its_out(self):
        out = rows((6, 2), [0])
        data = out.data
        self.assert_fails(ValueError, "", Status.ERR_RANGE, self.pull, [1, 77], out)
        self.assertIs(out.data, data)
        self.assert_same(out.indices, [0])

    def test_pushes_may_be_unsorted_and_repeat_rows(self):
        self.kv.push("w", [RowSparse(array([1, 1], [2, 2], [4, 4]), [5, 0, 5], (6, 2)), rows((6, 2), [0])])
        out = self.pull(range(6))
        self.assert_same(out.data[:, 0], [3, 0, 0, 0, 0, 5])
        self.assert_fails(ValueError, "6", Status.ERR_RANGE, self.kv.push, "w", rows((6, 2), [6]))
        self.assert_fails(TypeError, "", Status.ERR_STORAGE, self.kv.push, "w", np.zeros((6, 2), "f4"))
        self.assert_fails(TypeError, "", Status.ERR_STORAGE, self.kv.push, "w",
                          [np.zeros((6, 2), "f4"), rows((6, 2), [1])])

    def test_a_plain_pull_gives_the_dense_form_or_all_rows_when_asked(self):
        self.assert_same(self.pulled(self.kv, "w", (6, 2))[:, 0], [0, 1, 0, 2, 3, 0])
        out = RowSparse.zeros((6, 2))
        self.assert_fails(TypeError, "row_sparse_pull", Status.ERR_STORAGE, self.kv.pull, "w", out=out)
        self.kv.pull("w", out=out, ignore_sparse=False)
        self.assert_same(out.indices, [1, 3, 4])
        self.assert_same(out.data[:, 1], [1, 2, 3])

    def test_another_floating_dtype_of_an_out(self):
        out = self.pull([3], RowSparse.zeros((6, 2), "f8"))
        self.assertEqual(out.data.dtype, np.float64)
        self.assert_same(out.data, [[2, 2]])

    def test_rows_can_be_pulled_in_the_background(self):
        out = RowSparse.zeros((6, 2))
        self.kv.row_sparse_pull("w", out=out, row_ids=[4, 1], async_=True).result(10)
        self.assert_same(out.indices, [1, 4])

    def test_an_optimizer_updates_listed_rows(self):
        self.kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=1, wd=0.5, lazy_update=True))
        self.kv.push("w", rows((6, 2), [3]))
        self.assert_same(self.pulled(self.kv, "w", (6, 2))[:, 0], [0, 1, 0, 0, 3, 0])  # 2 - (1 + 0.5 * 2)


if __name__ == "__main__":
    main()
