# SPDX-License-Identifier: Apache-2.0
"""A worker that ends before the others leaves the job in good order, and they hear so at once."""
import os
import subprocess
import sys

import kvstore
from support import PRELUDE, Case, main

# Rank 0 of two workers ends as the test says; rank 1 goes on exchanging with it.
JOB = PRELUDE + """
kvstore.store._EXIT_SECONDS = 1
kv = kvstore.create("dist_sync")
kv.init("w", np.zeros(4, "f4"))
ones, out = np.ones(4, "f4"), np.empty(4, "f4")
kv.barrier()
if kv.rank == 0:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
%s
else:
    began = time.monotonic()
    try:
        for _ in range(5):
            kv.push("w", ones)
            kv.pull("w", out=out)
    except ConnectionError as error:
        print("told", "worker 0" in str(error) and "died" not in str(error), time.monotonic() - began < 30)
    os._exit(0)
"""


class Leaving(Case):
    def leave(self, body):
        """What rank 0 prints. Rank 1 is told long before a silent worker is called dead."""
        if not any(plugin["name"] == "dist" for plugin in kvstore.plugins()):
            self.skipTest("dist is not built")
        script = JOB % "\n".join("    " + line for line in body.splitlines())
        command = [os.path.join(os.environ["KVS_BUILD"], "bin", "kvstore"), "run", "-w", "2", "-s", "1",
                   "--backend", "dist_sync", "--", sys.executable, "-B", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False,
                              env=dict(os.environ, KVSTORE_DEAD_AFTER="100", KVSTORE_TIMEOUT="100"))
        self.assertIn("told True True", done.stdout, done.stderr)
        return done.stdout

    def interrupted(self, waits):
        out = self.leave(f"""try:
    with kv:
        interrupt_when(lambda: kv._inside)
        {waits}
except KeyboardInterrupt:
    print("heard")""")
        self.assertIn("heard", out)

    def test_a_pull_in_a_with_block_is_interrupted(self):
        self.interrupted('kv.push("w", ones); kv.pull("w", out=out); kv.barrier()')

    def test_a_barrier_in_a_with_block_is_interrupted(self):
        self.interrupted("kv.barrier()")

    def test_a_signal_whose_handler_exits_ends_a_with_block(self):
        self.leave("""with kv:
    interrupt_when(lambda: kv._flying, signal.SIGTERM)
    kv.push("w", ones)
    kv.pull("w", out=out, async_=True)
    kv.pushpull("w", ones, out=out, async_=True).result()""")

    def test_an_error_ends_a_with_block_in_which_work_is_pending(self):
        out = self.leave("""try:
    with kv:
        kv.push("w", ones)
        kv.pushpull("w", ones, out=out, async_=True)
        raise ZeroDivisionError
except ZeroDivisionError:
    print("raised")""")
        self.assertIn("raised", out)

    def test_the_program_ends_without_close_while_another_thread_waits(self):
        self.leave("""threading.Thread(target=kv.barrier, daemon=True).start()
while not kv._inside:
    time.sleep(0.01)""")


if __name__ == "__main__":
    main()
