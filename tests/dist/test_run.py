#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvstore run, server and scheduler from outside: exit statuses, output, environment, and that nothing is
left; jobs that are started by hand, or by what looks like a launcher. $KVSTORE is the command,
$JOB_ROUNDS a program of scenarios."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

KVSTORE = os.environ["KVSTORE"]
JOB_ROUNDS = os.environ["JOB_ROUNDS"]
DEADLINE = 40  # seconds; far more than anything here takes


def start(*argv, env=None, **more):
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})},
                            **more)


def end(process):
    """Its exit status, output and errors; killed past the deadline."""
    try:
        out, err = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += "\nkilled past the deadline"
    return process.returncode, out, err


def run(*argv, env=None):
    return end(start(KVSTORE, "run", *argv, env=env))


def processes_of(run_pid):
    """Those in whose environment the job of that `kvstore run` is."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if b"KVSTORE_JOB_ID=run-%d-" % run_pid in file.read():
                        found.append(int(name))
            except OSError:
                pass
    return found


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def free_port():
    """One that nobody is given by chance until it is used: below those that the system hands out."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        lowest = int(file.read().split()[0])
    for port in random.sample(range(1025, max(lowest, 2000)), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise unittest.SkipTest("no free port was found")


class Run(unittest.TestCase):
    def test_lines_carry_the_name_of_their_process(self):
        status, out, err = run("-w", "2", "-s", "1", "--", "sh", "-c",
                               "echo I am $KVSTORE_RANK; echo oops >&2; printf end")
        self.assertEqual(status, 0, err)
        self.assertEqual(sorted(out.splitlines()),
                         ["[worker 0] I am 0", "[worker 0] end", "[worker 1] I am 1",
                          "[worker 1] end"])
        self.assertEqual(sorted(line for line in err.splitlines() if "oops" in line),
                         ["[worker 0] oops", "[worker 1] oops"])

    def test_workers_are_told_who_they_are_in_both_ways(self):
        status, out, err = run("-w", "1", "-s", "2", "--backend", "dist", "--", "env",
                               env={"DMLC_SERVER_ID": "7", "KVSTORE_RANK": "9"})
        said = dict(line[len("[worker 0] "):].split("=", 1) for line in out.splitlines()
                    if "=" in line)
        self.assertEqual(status, 0, err)
        self.assertEqual(
            {name: said.get(name) for name in
             ["KVSTORE_ROLE", "KVSTORE_RANK", "KVSTORE_NUM_WORKERS", "KVSTORE_NUM_SERVERS",
              "KVSTORE_DEFAULT", "DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER",
              "DMLC_WORKER_ID", "DMLC_SERVER_ID", "DMLC_PS_ROOT_URI"]},
            {"KVSTORE_ROLE": "worker", "KVSTORE_RANK": "0", "KVSTORE_NUM_WORKERS": "1",
             "KVSTORE_NUM_SERVERS": "2", "KVSTORE_DEFAULT": "dist", "DMLC_ROLE": "worker",
             "DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "2", "DMLC_WORKER_ID": "0",
             "DMLC_SERVER_ID": None, "DMLC_PS_ROOT_URI": "127.0.0.1"})
        self.assertEqual(said["KVSTORE_SCHEDULER"], "127.0.0.1:" + said["DMLC_PS_ROOT_PORT"])

    def test_a_job_keeps_the_name_that_it_is_given(self):
        status, out, err = run("--", "sh", "-c", "echo $KVSTORE_JOB_ID",
                               env={"KVSTORE_JOB_ID": "tuesday"})
        self.assertEqual((status, out), (0, "[worker 0] tuesday\n"), err)
        status, out, err = run("--", KVSTORE, "run", "--", "sh", "-c", "echo $KVSTORE_JOB_ID",
                               env={"KVSTORE_JOB_ID": "tuesday"})  # a job of its own
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"\A\[worker 0\] \[worker 0\] run-\d+-\d+\n\Z")
        status, out, err = run("--", "true", env={"KVSTORE_JOB_ID": "x" * 128})
        self.assertEqual(status, 2)
        self.assertIn("KVSTORE_JOB_ID has 128 bytes; at most 127 are accepted", err)

    def test_long_lines_come_whole_in_pieces(self):
        status, out, err = run("--", "sh", "-c", "head -c 10000 /dev/zero | tr '\\0' x")
        self.assertEqual(status, 0, err)
        self.assertEqual(sum(line.count("x") for line in out.splitlines()), 10000)

    def test_the_first_failure_decides_and_is_named(self):
        status, out, err = run("-w", "2", "--grace", "0.1", "--", "sh", "-c",
                               "[ $KVSTORE_RANK = 0 ] && exec sleep 100; exit 3")
        self.assertEqual(status, 3, err)
        self.assertRegex(err, r"kvstore run: worker 1 \(pid \d+\) failed with exit status 3")
        self.assertIn("kvstore run: told to end: scheduler, server 0, worker 0\n", err)

    def test_when_all_workers_have_failed_nobody_else_is_waited_for(self):
        status, out, err = run("-w", "2", "--grace", "600", "--", "false")
        self.assertEqual(status, 1, err)
        self.assertIn("kvstore run: told to end: scheduler, server 0\n", err)

    def test_a_signal_is_told_as_a_shell_does(self):
        status, out, err = run("--grace", "0.1", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(status, 128 + 9, err)
        self.assertIn("was killed by signal 9 (Killed)", err)

    def test_a_command_that_is_not_there(self):
        status, out, err = run("--grace", "0.1", "--", "no-such-command")
        self.assertEqual(status, 127, err)
        self.assertIn("[worker 0] cannot run 'no-such-command': No such file", err)

    def test_a_backend_that_is_not_there(self):
        status, out, err = run("--backend", "dist_snyc", "--", "true")
        self.assertEqual(status, 1, err)
        self.assertIn('[scheduler] kvstore scheduler: no backend named "dist_snyc"', err)
        self.assertRegex(err, r"kvstore run: scheduler \(pid \d+\) failed with exit status 1")

    def test_wrong_usage_ends_with_2(self):
        for argv, text in [([], "the command is missing"), (["-w", "0", "true"], "-w takes"),
                           (["-w", "1x", "true"], "-w takes"), (["-s", "-1", "true"], "-s takes"),
                           (["--grace", "soon", "true"], "--grace takes"),
                           (["--bogus", "true"], "unknown option")]:
            status, out, err = run(*argv)
            self.assertEqual(status, 2, err)
            self.assertIn(text, err)

    def test_output_that_nobody_reads_ends_nothing(self):
        with start(KVSTORE, "run", "--", "sh", "-c", "echo a; sleep 0.1; echo b") as job:
            job.stdout.close()
            job.stderr.close()
            self.assertEqual(job.wait(timeout=DEADLINE), 0)


class NothingIsLeft(unittest.TestCase):
    """Workers that have children of their own, and some that don't listen."""

    SLEEPERS = ["sh", "-c", "trap '' TERM INT; sleep 1000 & echo here; sleep 1000; sleep 1000"]

    def begin(self):
        job = start(KVSTORE, "run", "-w", "2", "-s", "1", "--", *self.SLEEPERS)
        for _ in range(2):
            self.assertIn("here", job.stdout.readline())
        # one that is just being executed shows no environment for a moment
        self.assertTrue(wait_until(lambda: len(processes_of(job.pid)) >= 6), processes_of(job.pid))
        return job

    def want_none(self, job):
        self.assertTrue(wait_until(lambda: not processes_of(job.pid)), processes_of(job.pid))

    def test_after_interrupt(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            job = self.begin()
            job.send_signal(number)
            status, out, err = end(job)
            self.assertEqual(status, 128 + number, err)
            self.want_none(job)

    def test_after_kill_9(self):
        job = self.begin()
        job.kill()
        job.stdout.close()
        job.stderr.close()
        job.wait()
        self.want_none(job)

    def test_after_the_workers_ended_but_their_children_did_not(self):
        job = start(KVSTORE, "run", "--", "sh", "-c", "sleep 1000 & exit 0")
        status, out, err = end(job)
        self.assertEqual(status, 0, err)
        self.want_none(job)


class ByHand(unittest.TestCase):
    """Processes told about each other by their environment."""

    def scheduler(self, directory, n_workers, n_servers, **env):
        announced = os.path.join(directory, "address")
        self.job = {"KVSTORE_NUM_WORKERS": str(n_workers), "KVSTORE_NUM_SERVERS": str(n_servers),
                    "KVSTORE_JOB_ID": f"by-hand-{os.getpid()}", "KVSTORE_RENDEZVOUS": "20", **env}
        process = start(KVSTORE, "scheduler", "--address", "127.0.0.1:0", "--announce", announced,
                        env=self.job)
        self.assertTrue(wait_until(lambda: os.path.exists(announced) and os.path.getsize(announced)))
        with open(announced) as file:
            self.job["KVSTORE_SCHEDULER"] = file.read().strip()
        self.assertRegex(self.job["KVSTORE_SCHEDULER"], r"^127\.0\.0\.1:\d+$")
        return process

    def worker(self, scenario="rank_0s_value_counts", **env):
        return start(JOB_ROUNDS, scenario, env={**self.job, "KVSTORE_ROLE": "worker", **env})

    def test_a_job_of_commands(self):
        with tempfile.TemporaryDirectory() as directory:
            others = [self.scheduler(directory, 2, 2)]
            others += [start(KVSTORE, "server", env=self.job) for _ in range(2)]
            workers = [self.worker() for _ in range(2)]
            for process in workers + others:
                status, out, err = end(process)
                self.assertEqual(status, 0, out + err)

    def test_a_third_worker_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            others = [self.scheduler(directory, 2, 1)]
            workers = [self.worker() for _ in range(3)]
            # two of them wait for the server until the third has been refused
            self.assertTrue(wait_until(lambda: any(process.poll() is not None
                                                   for process in workers)))
            others.append(start(KVSTORE, "server", env=self.job))
            ends = [end(process) for process in workers]
            refused = [err for status, out, err in ends if status != 0]
            self.assertEqual(len(refused), 1, ends)
            self.assertIn("2", refused[0])
            self.assertIn("workers", refused[0])
            for process in others:
                status, out, err = end(process)
                self.assertEqual(status, 0, out + err)

    def test_two_of_one_number_are_both_named(self):
        with tempfile.TemporaryDirectory() as directory:
            others = [self.scheduler(directory, 2, 1, KVSTORE_RENDEZVOUS="8"),
                      start(KVSTORE, "server", env=self.job)]
            workers = [self.worker(KVSTORE_RANK="0") for _ in range(2)]
            ends = [end(process) for process in workers]
            self.assertTrue(all(status != 0 for status, out, err in ends), ends)
            pids = [str(process.pid) for process in workers]
            self.assertTrue(any(all(pid in err for pid in pids) for status, out, err in ends), ends)
            for process in others:
                status, out, err = end(process)
                self.assertNotEqual(status, 0, out + err)

    def test_a_partial_environment_names_what_is_missing(self):
        status, out, err = end(start(JOB_ROUNDS, "rank_0s_value_counts",
                                     env={"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "two"}))
        self.assertEqual(status, 1)
        for text in ["DMLC_NUM_WORKER", "two", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI"]:
            self.assertIn(text, err)

    def test_a_scheduler_that_is_not_there_is_named_with_its_cause(self):
        status, out, err = end(start(
            JOB_ROUNDS, "rank_0s_value_counts",
            env={"KVSTORE_ROLE": "worker", "KVSTORE_NUM_WORKERS": "2", "KVSTORE_NUM_SERVERS": "1",
                 "KVSTORE_SCHEDULER": "127.0.0.1:1", "KVSTORE_RENDEZVOUS": "1"}))
        self.assertEqual(status, 1)
        self.assertIn("127.0.0.1:1", err)
        self.assertIn("refused", err)

    def test_a_port_that_is_taken_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            first = self.scheduler(directory, 1, 1)
            address = self.job["KVSTORE_SCHEDULER"]
            status, out, err = end(start(KVSTORE, "scheduler", env=self.job))
            self.assertEqual(status, 1)
            self.assertIn(address.split(":")[1], err)
            self.assertIn("in use", err)
            first.kill()
            end(first)

    def test_an_address_in_the_open_needs_insecure(self):
        env = {"KVSTORE_NUM_WORKERS": "1", "KVSTORE_NUM_SERVERS": "1",
               "KVSTORE_SCHEDULER": "0.0.0.0:0", "KVSTORE_RENDEZVOUS": "1"}
        status, out, err = end(start(KVSTORE, "scheduler", env=env))
        self.assertEqual(status, 1)
        self.assertIn("KVSTORE_INSECURE", err)


class Launchers(unittest.TestCase):
    """What mpirun and torchrun set; scheduler and server are hosted by the workers."""

    def want_two(self, env_of_rank):
        workers = [start(JOB_ROUNDS, "several_stores_have_keys_of_their_own", env=env_of_rank(rank))
                   for rank in range(2)]
        for process in workers:
            status, out, err = end(process)
            self.assertEqual(status, 0, out + err)

    def test_open_mpi(self):
        self.want_two(lambda rank: {
            "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "KVSTORE_JOB_ID": f"mpi-{os.getpid()}"})

    def test_torchrun(self):
        port = free_port()  # of torchrun's only the next one is used
        self.want_two(lambda rank: {
            "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1)})

    def test_embedded_servers_of_kvstore_run(self):
        status, out, err = run("-w", "2", "-s", "0", "--", JOB_ROUNDS,
                               "several_stores_have_keys_of_their_own")
        self.assertEqual(status, 0, out + err)

    def test_alone_there_are_no_others(self):
        status, out, err = end(start(KVSTORE, "conformance", "dist_sync", "--only", "push.replaces"))
        self.assertEqual(status, 0, out + err)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
