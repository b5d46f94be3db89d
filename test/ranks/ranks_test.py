"""Ranks as threads and as processes: the same bits, and one end for all when one fails."""

from __future__ import annotations

import argparse
import filecmp
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
for sibling in ("parity", "models"):
    sys.path.insert(0, str(FOLDER.parent / sibling))

from tools import different_files

LIMIT_SECONDS = 5.0


def children(pid: int) -> list[int]:
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import export
        import tools
        import zoo

        cls.bench = tools.Bench(BINARIES, pathlib.Path(tempfile.mkdtemp(prefix="maestro-ranks-")))
        cases = zoo.all_cases()
        folder = export.models_folder()
        workload = cls.bench.scratch / "kd.yaml"
        workload.write_text(tools.DISTILLATION.format(lr=1e-3, teacher=export.export_variant(cases["llama_logits"], "opset20", folder),
                                            student=export.export_variant(cases["qwen3_logits"], "opset20", folder)))
        cls.plan = cls.bench.plan(workload, "kd", *tools.STAGES_AND_REPLICAS)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.bench.scratch)

    def run_to_end(self, out, *arguments):
        self.bench.succeed("maestro-run", self.plan, "--out", out, "--quiet", *arguments)
        return self.bench.scratch / out

    def same(self, left, right, step):
        self.assertEqual(different_files(*(folder / f"checkpoint-{step:06d}" for folder in (left, right))), [])

    def test_processes_change_no_bit(self):
        threads = self.run_to_end("threads", "--steps", "6", "--save-gradients")
        processes = self.run_to_end("processes", "--steps", "6", "--save-gradients", "--ranks", "processes")
        self.same(threads, processes, 6)
        self.assertTrue(filecmp.cmp(threads / "gradients.safetensors", processes / "gradients.safetensors", shallow=False))

    def test_processes_leave_one_trace(self):
        """All ranks' tasks and kernels, and sections' times that know what other processes did."""
        def tasks(ranks):
            out = self.run_to_end(f"traced-{ranks}", "--steps", "3", "--ranks", ranks, "--trace", f"{ranks}.json")
            events = json.loads((self.bench.scratch / f"{ranks}.json").read_text())["traceEvents"]
            kernels = {event["pid"] for event in events if event.get("cat") == "kernel"}
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            self.assertEqual(kernels, {0, 1, 2, 3})
            self.assertIn("weight_gradient", {event["name"] for event in events if event.get("cat") == "task"})
            # In all steps together: a frozen teacher may have done a step's work before the last one ended.
            for name in lines[0]["sections"]:
                self.assertGreater(sum(line["sections"][name]["busy"] for line in lines), 0, lines)
            for device in range(4):
                self.assertGreater(sum(line["devices"][device]["busy"] for line in lines), 0, lines)
            return sorted((event["pid"], event["tid"], event["name"], event["args"]["step"], event["args"].get("microbatch", -1))
                          for event in events if event.get("cat") == "task")

        self.assertEqual(tasks("threads"), tasks("processes"))
        for trace in ("threads.json", "processes.json"):  # Of a plan with stages.
            page = self.bench.succeed("maestro-dump", self.plan, "--format", "html", "--measured", trace).stdout
            self.assertEqual(page.count('class="timeline"'), 2)

    def test_a_launcher_that_ignores_its_children(self):
        """Then nobody is told how a process ended, and a trace waits for all of them all the same."""
        line = [self.bench.binaries / "maestro-run", self.plan, "--steps", "2", "--quiet", "--ranks", "processes", "--trace", "deaf.json"]
        done = subprocess.run([*map(str, line)], cwd=self.bench.scratch, timeout=60, capture_output=True, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads((self.bench.scratch / "deaf.json").read_text())["traceEvents"]
        self.assertEqual({event["pid"] for event in events if event.get("cat") == "task"}, {0, 1, 2, 3})

    def test_an_interrupted_trace_is_whole(self):
        """Also of ranks that ran ahead of the one that was interrupted."""
        for ranks in ("threads", "processes"):
            trace = f"interrupted-{ranks}.json"
            status, said, seconds = self.disturb(f"interrupted-trace-{ranks}", lambda process, _: process.send_signal(signal.SIGINT),
                                                 "--ranks", ranks, "--trace", trace)
            self.assertEqual(status, 130, said)
            self.assertLess(seconds, LIMIT_SECONDS)
            tasks = [event for event in json.loads((self.bench.scratch / trace).read_text())["traceEvents"] if event.get("cat") == "task"]
            self.assertEqual({event["pid"] for event in tasks}, {0, 1, 2, 3})
            for event in tasks:
                self.assertGreaterEqual(event["dur"], 0, event)

    def test_resumed_processes_change_no_bit(self):
        whole = self.run_to_end("whole", "--steps", "5")
        self.run_to_end("parts", "--steps", "3", "--ranks", "processes")
        parts = self.run_to_end("parts", "--steps", "5", "--ranks", "processes", "--resume")
        self.same(whole, parts, 5)

    def test_self_check_over_processes(self):
        done = self.bench.command("maestro-run", self.plan, "--steps", "1", "--self-check", "--ranks", "processes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("in one piece", done.stderr)

    def disturb(self, out, how, *arguments):
        """Starts an endless job, calls how(process) in the middle of it; the seconds until its end and its words."""
        line = [str(self.bench.binaries / "maestro-run"), str(self.plan), "--out", out, "--quiet", "--save-every", "20",
                *arguments]
        process = subprocess.Popen(line, cwd=self.bench.scratch, stderr=subprocess.PIPE, text=True)
        folder = self.bench.scratch / out
        deadline = time.monotonic() + 60
        while not list(folder.glob("checkpoint-*")):
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
            self.assertLess(time.monotonic(), deadline, "no checkpoint within a minute")
            time.sleep(0.02)
        ranks = children(process.pid)
        started = time.monotonic()
        how(process, ranks)
        said = process.communicate(timeout=60)[1]
        seconds = time.monotonic() - started
        while any(map(alive, ranks)) and time.monotonic() - started < LIMIT_SECONDS:
            time.sleep(0.01)  # A process that ends closes its files before it is gone.
        self.assertFalse([pid for pid in ranks if alive(pid)], "ranks outlive the job")
        return process.returncode, said, seconds

    def resumes(self, out):
        """The newest checkpoint is whole."""
        newest = max(int(path.name[-6:]) for path in (self.bench.scratch / out).glob("checkpoint-*"))
        self.run_to_end(out, "--steps", str(newest + 1), "--resume")

    def test_a_killed_rank_ends_the_job(self):
        status, said, seconds = self.disturb("killed", lambda _, ranks: os.kill(ranks[-1], signal.SIGKILL), "--ranks",
                                             "processes")
        self.assertEqual(status, 2, said)
        self.assertRegex(said, r"rank \d+: its process \(\d+\) was killed by signal 9")
        self.assertEqual(said.count("error:"), 1, said)
        self.assertLess(seconds, LIMIT_SECONDS)
        self.resumes("killed")

    def test_a_stalled_rank_ends_the_job(self):
        status, said, seconds = self.disturb("stalled", lambda _, ranks: os.kill(ranks[0], signal.SIGSTOP), "--ranks",
                                             "processes")
        self.assertEqual(status, 2, said)
        self.assertIn("no progress for", said)
        self.assertEqual(said.count("error:"), 1, said)
        self.assertLess(seconds, LIMIT_SECONDS + 1)  # The machine is shared; the rule is 5 s.
        self.resumes("stalled")

    def test_a_killed_root_takes_its_ranks_along(self):
        status, _, _ = self.disturb("rootless", lambda process, _: process.kill(), "--ranks", "processes")
        self.assertEqual(status, -signal.SIGKILL)
        self.resumes("rootless")

    def test_an_interrupt_saves_the_step(self):
        for ranks in ("threads", "processes"):
            status, said, seconds = self.disturb(f"interrupted-{ranks}", lambda process, _: process.send_signal(signal.SIGINT),
                                                 "--ranks", ranks)
            self.assertEqual(status, 130, said)
            step = int(re.search(r"step (\d+) is saved", said).group(1))
            self.assertTrue((self.bench.scratch / f"interrupted-{ranks}" / f"checkpoint-{step:06d}").is_dir())
            self.assertLess(seconds, LIMIT_SECONDS)
            self.resumes(f"interrupted-{ranks}")

    def test_bad_data_is_the_inputs_fault(self):
        import numpy

        import shards

        folder = self.bench.scratch / "bad"
        folder.mkdir()
        ids = numpy.zeros(8, dtype=numpy.int64)
        bad = ids.copy()
        bad[3] = 10**6
        samples = [{"input_ids": bad if i == 5 else ids, "labels": ids} for i in range(8)]
        path = shards.write_shards(samples, folder)
        for ranks in ("threads", "processes"):
            done = self.bench.command("maestro-run", self.plan, "--data", path, "--quiet", "--ranks", ranks)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
            self.assertIn("1000000", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    arguments, rest = parser.parse_known_args()
    BINARIES = pathlib.Path(arguments.binaries)
    if not importlib.util.find_spec("torch"):
        sys.exit("no torch; ./dev setup python installs it")
    unittest.main(argv=[sys.argv[0], *rest])
