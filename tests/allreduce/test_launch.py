# SPDX-License-Identifier: Apache-2.0
"""Jobs of horovod that launchers start, and engines that can't be had."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

KVSTORE = os.environ["KVSTORE"]
WORKS = [os.environ["JOB_HOROVOD_SUMS"], "what_it_is_and_what_it_leaves_to_the_worker"]
ONE_CASE = [KVSTORE, "conformance", "horovod", "--only", "pushpull.sum"]


def environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("OMPI", "PMIX", "HOROVOD", "SLURM", "DMLC"))}
    env.update(more)
    return env


def run(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, env=environment(**env))
    return done.returncode, done.stdout + done.stderr


def run_all(command, variables):
    """A process for each dictionary of variables; their exit statuses and output."""
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment(**more)) for more in variables]
    return [(process.wait(timeout=50), process.communicate()[0]) for process in running]


class Launchers(unittest.TestCase):
    """Variables of launchers say who a worker is."""

    def want_two(self, variables):
        for status, output in run_all(WORKS, variables):
            self.assertEqual(status, 0, output)

    def test_horovods_variables(self):
        self.want_two([{"HOROVOD_RANK": str(i), "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": str(i),
                        "HOROVOD_LOCAL_SIZE": "2", "KVSTORE_JOB_ID": f"hvd-{os.getpid()}"} for i in range(2)])

    def test_torchruns_variables(self):
        self.want_two([{"RANK": str(i), "WORLD_SIZE": "2", "LOCAL_RANK": str(i), "LOCAL_WORLD_SIZE": "2",
                        "TORCHELASTIC_RUN_ID": f"torch-{os.getpid()}"} for i in range(2)])

    def test_variables_that_contradict_each_other_are_both_named(self):
        status, output = run(*ONE_CASE, HOROVOD_SIZE="2", HOROVOD_RANK="0", HOROVOD_LOCAL_RANK="0",
                             HOROVOD_LOCAL_SIZE="2", OMPI_COMM_WORLD_SIZE="3", OMPI_COMM_WORLD_RANK="0")
        self.assertNotEqual(status, 0)
        self.assertIn("HOROVOD_SIZE is '2', but OMPI_COMM_WORLD_SIZE is '3'", output)

    def test_kvstore_run_starts_no_servers(self):
        status, output = run(KVSTORE, "run", "-w", "2", "--backend", "horovod", "--", "sh", "-c",
                             "echo servers $KVSTORE_NUM_SERVERS")
        self.assertEqual((status, output.count("servers 0")), (0, 2), output)
        status, output = run(KVSTORE, "run", "-s", "1", "--backend", "horovod", "--", "true")
        self.assertEqual(status, 2, output)
        self.assertIn("a job of 'horovod' has no servers", output)

    def test_a_server_of_it_is_refused(self):
        status, output = run(KVSTORE, "server", "--backend", "horovod", KVSTORE_NUM_WORKERS="1", KVSTORE_NUM_SERVERS="1",
                             KVSTORE_SCHEDULER="127.0.0.1:1")
        self.assertEqual(status, 1, output)
        self.assertIn("horovod has no servers", output)


class Engines(unittest.TestCase):
    """An engine that is asked for and can't be had says why, on every worker."""

    def want_refusal(self, text, **env):
        status, output = run(KVSTORE, "run", "-w", "2", "--backend", "horovod", "--grace", "1", "--", *ONE_CASE,
                             **env)
        self.assertNotEqual(status, 0, output)
        self.assertIn(text, output)

    def test_no_open_mpi(self):
        self.want_refusal("engine mpi: no Open MPI (/nonexistent/libmpi.so", KVSTORE_ENGINE="mpi",
                          KVSTORE_MPI_LIBRARY="/nonexistent/libmpi.so")
        self.want_refusal("install openmpi-bin (Debian)", KVSTORE_ENGINE="mpi",
                          KVSTORE_MPI_LIBRARY="/nonexistent/libmpi.so")

    def test_another_family(self):
        self.want_refusal("is 'MPICH Version:", KVSTORE_ENGINE="mpi", KVSTORE_MPI_LIBRARY=os.environ["OTHER_MPI"])

    def test_no_such_engine(self):
        self.want_refusal('engine: "gloo" is none; accepted are auto, shm, mpi', KVSTORE_ENGINE="gloo")
        status, output = run(*ONE_CASE, KVSTORE_ENGINE="gloo")
        self.assertEqual(status, 1, output)
        self.assertIn('engine: "gloo" is none; accepted are auto, shm, mpi', output)

    def test_no_shared_memory(self):
        self.want_refusal("engine shm: KVSTORE_SHM=0 keeps the workers from sharing memory", KVSTORE_ENGINE="shm",
                          KVSTORE_SHM="0")
        self.want_refusal("KVSTORE_SHM=0 leaves the engine mpi only: engine mpi: no Open MPI", KVSTORE_SHM="0",
                          KVSTORE_MPI_LIBRARY="/nonexistent/libmpi.so")

    def test_an_mpi_in_which_nobody_answers(self):
        self.want_refusal("engine mpi: MPI_Comm_idup has not ended within 8 s: the other workers do not answer",
                          KVSTORE_ENGINE="mpi", KVSTORE_MPI_LIBRARY=os.environ["STUCK_MPI"], KVSTORE_RENDEZVOUS="8")


class Timeline(unittest.TestCase):
    """Every worker writes a trace of its exchanges."""

    def test_keys_are_in_the_files_of_all_workers(self):
        with tempfile.TemporaryDirectory() as directory:
            path = directory + "/trace.json"
            status, output = run(KVSTORE, "run", "-w", "2", "--backend", "horovod", "--", WORKS[0],
                                 "a_key_submitted_twice_is_exchanged_twice_in_order", KVSTORE_TIMELINE=path)
            self.assertEqual(status, 0, output)
            for rank, name in enumerate((path, path + ".1")):
                with open(name, encoding="utf-8") as file:
                    events = json.load(file)
                self.assertEqual({event["pid"] for event in events}, {rank})
                self.assertEqual({event["name"] for event in events}, {"negotiate", "queue", "exchange"})
                exchanges = [event for event in events if event["name"] == "exchange"]
                self.assertEqual([event["args"] for event in exchanges], 4 * [{"fused": 1, "key": "w"}])
                self.assertTrue(all(event["dur"] >= 0 for event in exchanges))

    def test_a_file_that_can_not_be_written(self):
        status, output = run(KVSTORE, "run", "-w", "2", "--backend", "horovod", "--grace", "1", "--", *ONE_CASE,
                             KVSTORE_TIMELINE="/nonexistent/trace")
        self.assertNotEqual(status, 0)
        self.assertIn("timeline: /nonexistent/trace", output)


    def test_a_disk_that_is_full_ends_the_timeline_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as directory:
            os.symlink("/dev/full", directory + "/trace")
            status, output = run(KVSTORE, "run", "-w", "2", "--backend", "horovod", "--", WORKS[0],
                                 "small_and_big_keys_of_a_list", KVSTORE_TIMELINE=directory + "/trace")
            self.assertEqual(status, 0, output)
            self.assertIn("[worker 0] kvstore warn horovod: the timeline ends here, as it can't be written: "
                          "No space left on device", output)
            with open(directory + "/trace.1", encoding="utf-8") as file:
                self.assertTrue(json.load(file))


class Mpirun(unittest.TestCase):
    """Under mpirun, with either engine."""

    def mpirun(self, n, *command, **env):
        return run(os.environ["MPIRUN"], "--allow-run-as-root", "--oversubscribe", "-n", str(n), *command, **env)

    def setUp(self):
        if not os.environ.get("MPIRUN"):
            self.skipTest("no mpirun (Debian: openmpi-bin)")

    def test_the_contract_by_mpi(self):
        status, output = self.mpirun(2, KVSTORE, "conformance", "horovod", KVSTORE_ENGINE="mpi")
        self.assertEqual(status, 0, output)
        self.assertIn("engine mpi: worker ", output)
        self.assertIn(" 0 failed", output)

    def test_sums_by_mpi(self):
        for scenario in ("sums_of_every_dtype_and_size", "sums_have_the_bits_of_local",
                         "keys_may_be_submitted_in_any_order", "small_and_big_keys_of_a_list"):
            status, output = self.mpirun(3, WORKS[0], scenario, KVSTORE_ENGINE="mpi")
            self.assertEqual(status, 0, output)

    def test_shared_memory_under_mpirun(self):
        status, output = self.mpirun(2, *WORKS, KVSTORE_LOG="info")
        self.assertEqual(status, 0, output)
        self.assertIn("engine shm: worker 1 of 2", output)

    def test_one_that_has_no_mpi_is_missed_by_the_others(self):
        command = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || KVSTORE_MPI_LIBRARY=/nonexistent.so; export KVSTORE_MPI_LIBRARY; ' \
                  '"$@"; echo "ended with $?"'
        status, output = self.mpirun(2, "sh", "-c", command, "sh", *ONE_CASE, KVSTORE_ENGINE="mpi",
                                     KVSTORE_MPI_LIBRARY="libmpi.so.40")
        self.assertEqual(status, 0, output)
        self.assertIn("no Open MPI (/nonexistent.so", output)
        self.assertRegex(output, r"\(engine mpi\) is not open: worker 1 \(host ")
        self.assertNotIn("ended with 0", output)

    def test_workers_whom_mpi_counts_otherwise(self):
        command = 'export KVSTORE_RANK=$(((3 - OMPI_COMM_WORLD_RANK) % 3)); unset OMPI_COMM_WORLD_RANK; exec "$@"'
        status, output = self.mpirun(3, "sh", "-c", command, "sh", *ONE_CASE, KVSTORE_ENGINE="mpi")
        self.assertNotEqual(status, 0, output)
        # mpirun may end the others when the first has ended
        self.assertRegex(output, "of the job, but process [12] of 3 of MPI|process 1 of MPI is another worker of the job")

    def test_one_that_was_not_started_by_mpirun(self):
        status, output = run(KVSTORE, "run", "-w", "2", "--backend", "horovod", "--grace", "1", "--", *ONE_CASE,
                             KVSTORE_ENGINE="mpi")
        self.assertNotEqual(status, 0, output)
        self.assertIn("this process was not started by mpirun", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[1:])
