# SPDX-License-Identifier: Apache-2.0
"""Operations that go on: futures, what they keep alive, and threads."""
import asyncio
import concurrent.futures
import gc
import sys
import threading
import time

import kvstore
from kvstore import Status
from support import PRELUDE, Case, array, main, np, run_python


class Futures(Case):
    def test_every_operation_on_data_gives_a_future(self):
        kv = self.create()
        out = np.empty(2, "f4")
        for future in (kv.init(1, array(1, 2), async_=True), kv.push(1, array(3, 4), async_=True),
                       kv.pull(1, out=out, async_=True), kv.pushpull(1, array(5, 6), out=out, async_=True),
                       kv.broadcast(2, array(5, 6), out, async_=True), kv.push([], [], async_=True)):
            self.assertIsInstance(future, kvstore.Future)
            self.assertIsNone(future.result(10))
            self.assertTrue(future.done())
            self.assertFalse(future.cancel())
        self.assert_same(out, [5, 6])

    def test_they_take_effect_in_the_order_issued(self):
        kv = self.create()
        kv.init(1, np.zeros(100000, "f4"))
        outs = [np.empty(100000, "f4") for _ in range(20)]
        futures = []
        for i, out in enumerate(outs):
            futures.append(kv.push(1, np.full(100000, i, "f4"), priority=i, async_=True))
            futures.append(kv.pull(1, out=out, async_=True))
        concurrent.futures.wait(futures, 30)
        for i, out in enumerate(outs):
            self.assert_same(out[::9999], np.full(11, i))

    def test_arrays_freed_in_flight_are_kept(self):
        kv = self.create()
        kv.init(1, np.zeros(1 << 20, "f4"))
        futures = [kv.push(1, [np.full(1 << 20, n, "f4")[:], np.ones(1 << 20, "f4")], async_=True) for n in range(8)]
        gc.collect()
        for future in futures:
            future.result(30)
        self.assert_same(self.pulled(kv, 1, 1 << 20)[:3], [8, 8, 8])
        self.assertFalse(kv._flying)

    def test_references_are_given_back(self):
        kv = self.create()
        value = np.zeros(10, "f4")
        kv.init(1, value)
        before = sys.getrefcount(value)
        for _ in range(5):
            kv.push(1, value)
            kv.push(1, [value, value])
            kv.push(1, value, async_=True).result(10)
        kv.wait_all()
        gc.collect()
        self.assertEqual(sys.getrefcount(value), before)

    def test_whoever_is_told_of_the_end_has_the_arrays_again(self):
        kv = self.create()
        kv.init(1, array(1))
        go_on, told, counts = threading.Event(), threading.Event(), []

        def tell(_future):
            counts.append(sys.getrefcount(value))
            told.set()

        kv.set_updater(lambda *_: go_on.wait(30))
        value = array(1)
        before = sys.getrefcount(value)
        kv.push(1, value, async_=True).add_done_callback(tell)
        go_on.set()
        self.assertTrue(told.wait(30))
        self.assertEqual(counts, [before])

    def test_an_array_in_flight_can_not_be_resized(self):
        kv = self.create()
        kv.init(1, np.zeros(1 << 20, "f4"))
        started, go_on = threading.Event(), threading.Event()

        def update(key, value, stored):
            started.set()
            go_on.wait(30)

        kv.set_updater(update)
        value = np.ones(1 << 20, "f4")
        future = kv.push(1, value, async_=True)
        started.wait(30)
        try:
            with self.assertRaises((ValueError, BufferError)):
                value.resize(10)
        finally:
            go_on.set()
        future.result(30)

    def test_errors_of_arguments_are_raised_at_once_others_by_the_future(self):
        kv = self.create()
        kv.init(1, np.ones(2, "f4"))
        self.assert_fails(KeyError, "7", Status.ERR_NOT_FOUND, kv.push, 7, array(1, 2), async_=True)
        self.assert_fails(ValueError, "", Status.ERR_SHAPE, kv.push, 1, array(1), async_=True)
        self.assertFalse(kv._flying)

    def test_callbacks_are_called_and_may_not_use_a_store(self):
        kv = self.create()
        kv.init(1, np.zeros(1 << 20, "f4"))
        told = []
        done = threading.Event()

        def tell(future):
            told.append(future.exception())
            done.set()

        kv.push(1, np.ones(1 << 20, "f4"), async_=True).add_done_callback(tell)
        self.assertTrue(done.wait(30))
        self.assertEqual(told, [None])

    def test_wait_all_waits_for_all_of_them(self):
        kv = self.create()
        kv.init(list(range(10)), [np.zeros(100000, "f4")] * 10)
        futures = [kv.push(key, np.ones(100000, "f4"), async_=True) for key in range(10)]
        kv.wait_all()
        self.assertTrue(all(future.done() for future in futures))

    def test_close_waits_for_all_of_them(self):
        kv = kvstore.create()
        kv.init(1, np.zeros(1 << 20, "f4"))
        future = kv.push(1, np.ones(1 << 20, "f4"), async_=True)
        kv.close()
        self.assertIsNone(future.result(10))


class Dropped(Case):
    """Errors of futures that nobody asked are told as the C library tells those of events."""

    def fail_in_flight(self, kv, key, words):
        """Give the future of a push that fails, after it has failed."""
        def update(*_):
            raise ZeroDivisionError(words)

        kv.set_updater(update)
        future = kv.push(key, array(1), async_=True)
        concurrent.futures.wait([future])
        while sys.getrefcount(future) > 2:  # the thread that told its end may still have it
            time.sleep(0.001)
        return future

    def store(self):
        kv = kvstore.create()
        kv.init([1, 2], [array(1), array(1)])
        return kv

    def test_the_next_operation_on_the_key_raises_it_once(self):
        kv = self.store()
        self.fail_in_flight(kv, 1, "lost")
        self.assert_same(self.pulled(kv, 2, 1), [1])
        self.assert_fails(RuntimeError, "pull: an earlier push failed: key 1: updater returned KVS_ERR_CALLBACK: "
                          "ZeroDivisionError: lost", Status.ERR_CALLBACK,
                          self.pulled, kv, 1, 1)
        self.assert_same(self.pulled(kv, 1, 1), [1])
        kv.close()

    def test_wait_all_and_close_raise_it(self):
        kv = self.store()
        self.fail_in_flight(kv, 1, "lost")
        self.assert_fails(RuntimeError, "wait_all: an earlier push failed", Status.ERR_CALLBACK, kv.wait_all)
        self.fail_in_flight(kv, 1, "lost too")
        self.assert_fails(RuntimeError, "close: an earlier push failed", Status.ERR_CALLBACK, kv.close)

    def test_of_one_that_is_dropped_in_flight_wait_all_raises_it(self):
        kv = self.store()
        entered, leave = threading.Event(), threading.Event()

        def update(*_):
            entered.set()
            leave.wait(30)
            raise ZeroDivisionError("lost")

        kv.set_updater(update)
        kv.push(1, array(1), async_=True)
        entered.wait(30)
        threading.Timer(0.05, leave.set).start()
        self.assert_fails(RuntimeError, "ZeroDivisionError: lost", Status.ERR_CALLBACK, kv.wait_all)
        kv.close()

    def test_not_of_one_that_somebody_has_or_asked(self):
        kv = self.store()
        kept = self.fail_in_flight(kv, 1, "kept")
        for ask in (lambda future: future.exception(), lambda future: self.assertRaises(ZeroDivisionError, future.result),
                    lambda future: future.add_done_callback(lambda done: done.exception())):
            future = self.fail_in_flight(kv, 1, "asked")
            ask(future)
            del future
        self.assert_same(self.pulled(kv, 1, 1), [1])
        kv.close()
        self.assertIsInstance(kept.exception(), ZeroDivisionError)

    def test_of_one_that_is_dropped_after_the_store_it_is_logged_once(self):
        done = run_python(PRELUDE + """
kv = kvstore.create()
kv.init(1, np.ones(1, "f4"))
def update(*_):
    raise ZeroDivisionError("lost")
kv.set_updater(update)
futures = [kv.push(1, np.ones(1, "f4"), async_=True) for _ in range(2)]
kv.wait_all()
kv.close()
futures[0].exception()
futures.clear()
print("ended")
""")
        self.assertEqual((done.stdout, done.stderr), (
            "ended\n", "kvstore warn store: push of key 1 failed, which nobody was told: key 1: updater returned "
                       "KVS_ERR_CALLBACK: ZeroDivisionError: lost\n"))

    def test_at_the_end_of_the_program_it_is_logged(self):
        for end, returncode in (("", 0), ("del kv", 0), ("with kv:\n    raise SystemExit(3)", 3)):
            done = run_python(PRELUDE + """
kv = kvstore.create()
kv.init(1, np.ones(1, "f4"))
def update(*_):
    raise ZeroDivisionError("lost")
kv.set_updater(update)
kv.push(1, np.ones(1, "f4"), async_=True)
kv.set_updater(None)
""" + end)
            self.assertEqual(done.returncode, returncode, done.stderr)
            self.assertEqual(done.stderr, "the store local was closed with an error: close: an earlier push failed: "
                                          "key 1: updater returned KVS_ERR_CALLBACK: ZeroDivisionError: lost\n")


class Asyncio(Case):
    def test_futures_can_be_awaited_and_gathered(self):
        kv = self.create()
        keys = list(range(5))
        outs = [np.empty(50000, "f4") for _ in keys]

        async def train():
            await asyncio.gather(*(kv.init(key, np.zeros(50000, "f4"), async_=True) for key in keys))
            await asyncio.gather(*(kv.push(key, np.full(50000, key, "f4"), async_=True) for key in keys))
            for key in keys:
                await kv.pull(key, out=outs[key], async_=True)
            await asyncio.wait_for(kv.push(0, np.ones(50000, "f4"), async_=True), 30)

        asyncio.run(train())
        self.assert_same([out[7] for out in outs], keys)

    def test_an_error_is_raised_where_it_is_awaited(self):
        kv = self.create()
        kv.init(1, array(1))

        def update(key, value, stored):
            raise ZeroDivisionError("awaited")

        kv.set_updater(update)

        async def push():
            await kv.push(1, array(1), async_=True)

        with self.assertRaisesRegex(ZeroDivisionError, "awaited"):
            asyncio.run(push())


class Interpreter(Case):
    def test_other_threads_run_while_a_call_waits(self):
        kv = self.create()
        kv.init(1, array(1))
        entered, leave = threading.Event(), threading.Event()

        def update(key, value, stored):
            entered.set()
            leave.wait(30)

        kv.set_updater(update)
        first = threading.Thread(target=kv.push, args=(1, array(1)))
        first.start()
        self.assertTrue(entered.wait(30))
        second = threading.Thread(target=kv.push, args=(1, array(1)))  # waits for the first
        second.start()
        leave.set()  # this thread runs
        first.join(30)
        second.join(30)
        self.assertFalse(first.is_alive() or second.is_alive())

    def test_close_waits_for_calls_of_other_threads(self):
        kv = kvstore.create()
        kv.init(1, array(1))
        entered, leave = threading.Event(), threading.Event()
        kv.set_updater(lambda *_: (entered.set(), leave.wait(30)))
        pusher = threading.Thread(target=kv.push, args=(1, array(1)))
        pusher.start()
        entered.wait(30)
        threading.Timer(0.05, leave.set).start()
        kv.close()
        self.assertTrue(leave.is_set())
        pusher.join(30)


if __name__ == "__main__":
    main()
