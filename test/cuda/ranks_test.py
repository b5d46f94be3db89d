"""Ranks that are processes with GPUs, on a driver and an NCCL of our own: what they send goes from GPU to GPU, by NCCL, or through the
host's memory and says why, with the same bits; and one end for all when one dies or lacks something."""

import os
import pathlib
import re
import signal
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "runs")]

import runs  # noqa: E402: found by the line above
import machines  # noqa: E402
import shards  # noqa: E402

LIMIT_SECONDS = 5.0
THROUGH_HOST = "goes through the host's memory"
FORKED = {  # Of a driver: variables, and the reason that is said, if any.
    "from GPU to GPU": ({}, None),
    "between GPUs without peer access": ({"MAESTRO_FAKE_CUDA_NO_PEERS": "1"}, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    "where the driver exports nothing": ({"MAESTRO_FAKE_CUDA_NO_EXPORT": "1"}, "cuMemExportToShareableHandle"),
}
STARTED = {  # By an engine: --transport, what is said.
    "auto": r"have met: shared memory$",
    "nccl": r"have met: shared memory; between GPUs NCCL 2\.28\.9$",
    "libfabric": r"have met: libfabric .*; between GPUs NCCL 2\.28\.9$",
}


class Ranks:
    def __init__(self, scratch):
        self.scratch, self.bench = scratch, scratch.bench()
        case = runs.zoo_case("mlp_dropout")
        self.data = shards.write_shards(shards.make_samples(case, 16, seed=5), scratch.path / "data")
        self.plan, self.plan_of_four = (
            self.bench.plan(runs.exported(case), f"ranks{ranks}", "--set", "cluster.device=h100-sxm", "--set", f"cluster.devices_per_node={ranks}",
                            "--set", "train.global_batch=8", "--pin", "*.micro_batch=2", "--pin", f"*.dp={ranks}") for ranks in (2, 4))
        self.results = []

    def note(self, out):
        (found,) = [path for path in (self.scratch.path / out / "checkpoint-000002").glob("*.safetensors") if path.stem != "optimizer"]
        self.results.append(found.read_bytes())

    def start(self, *arguments, plan=None, changes=None):
        return machines.Job(self.scratch, machines.Loopback(), 2, plan or self.plan, "--data", self.data, *arguments, changes=changes)

    def judge_forked(self):
        for number, (name, (variables, reason)) in enumerate(FORKED.items()):
            os.environ |= variables
            said = self.bench.succeed("maestro-run", self.plan, "--data", self.data, "--out", f"way{number}", "--steps", 2, "--ranks",
                                      "processes").stderr
            for variable in variables:
                del os.environ[variable]
            good = THROUGH_HOST in said and reason in said if reason else THROUGH_HOST not in said
            self.scratch.check(f"{name}: what is said", good, said)
            self.scratch.check(f"{name}: no word of cores", "cores" not in said, said)
            self.note(f"way{number}")

    def judge_started(self):
        for transport, expected in STARTED.items():
            statuses, said = self.start("--out", transport, "--steps", 2, "--transport", transport).end()
            if self.scratch.check(f"{transport}: ends well", statuses == [0, 0], "\n".join(said) if statuses != [0, 0] else ""):
                self.scratch.check(f"{transport}: what is said", re.search(expected, said[0], re.MULTILINE) is not None, said[0])
                self.note(transport)

    def judge_missing(self):
        """A library that is too old in one process ends a job that asks for it, with one cause; auto goes on."""
        old = {1: ({"MAESTRO_FAKE_NCCL_VERSION": "21200"}, None)}
        other = {1: ({"MAESTRO_FAKE_NCCL_VERSION": "23000"}, None)}
        for changes, cause in ((old, r"process 1 \(.*\): libnccl\.so\.2 has version 2\.12\.0, and 2\.14\.0 or newer is needed; install"),
                               (other, r"process 0 has NCCL 2\.28\.9 and process 1 has NCCL 2\.30\.0; install one version")):
            statuses, said = self.start("--steps", 1, "--quiet", "--transport", "nccl", changes=changes).end()
            good = statuses == [2, 2] and all(re.search(cause, each) for each in said)
            self.scratch.check(f"a version that does not fit: {cause[-30:]}", good, f"{statuses}: {said}")
        for version, cause in (("22809", r"processes 0 and 1 share GPU 0 of .*, which NCCL 2\.28\.9 refuses; NCCL 2\.30"), ("23000", None)):
            one = {process: ({"MAESTRO_FAKE_CUDA_DEVICES": "1", "MAESTRO_FAKE_NCCL_VERSION": version}, None) for process in range(2)}
            statuses, said = self.start("--steps", 2, "--out", f"one{version}", "--transport", "nccl", changes=one).end()
            good = statuses == [2, 2] and re.search(cause, said[0]) if cause else statuses == [0, 0] and "several processes a GPU" in said[0]
            self.scratch.check(f"one GPU, NCCL {version}", bool(good), f"{statuses}: {said}")
        self.note("one23000")
        self.judge_puts()
        statuses, said = self.start("--steps", 1, "--quiet", "--transport", "nccl", plan=self.plan_of_four).end()
        cause = "it has 2 ranks, and a process uses NCCL for one; start as many processes as the plan has ranks, 4"
        good = statuses == [2, 2] and all(cause in each for each in said)
        self.scratch.check("two ranks a process", good, f"{statuses}: {said}")
        statuses, said = self.start("--steps", 1, "--transport", "libfabric", changes=old).end()
        good = statuses == [0, 0] and "GPUs through the host's memory, not NCCL: process 1" in said[0]
        self.scratch.check("libfabric without NCCL", good, f"{statuses}: {said}")

    def judge_puts(self):
        """A library that has one-sided puts uses them where it can between all, and says by what it moves things."""
        ways = {"puts": ({}, "NCCL 2.30.7 moves memory of GPUs by puts\n"),
                "no-puts": ({"MAESTRO_FAKE_NCCL_NO_PUTS": "1"}, "NCCL 2.30.7 moves memory of GPUs by sends and receives\n"),
                "forbidden": ({"MAESTRO_NCCL_PUTS": "never"}, "NCCL 2.30.7 moves memory of GPUs by sends and receives: MAESTRO_NCCL_PUTS=never\n")}
        for name, (variables, expected) in ways.items():
            both = {process: ({"MAESTRO_FAKE_NCCL_VERSION": "23007"} | variables, None) for process in range(2)}
            statuses, said = self.start("--steps", 2, "--out", name, "--transport", "nccl", changes=both).end()
            self.scratch.check(f"NCCL 2.30.7, {name}", statuses == [0, 0] and expected in said[0], f"{statuses}: {said}")
            self.note(name)

    def judge_death(self, *arguments):
        name = f"killed with {arguments[-1]}"
        job = self.start("--out", name.replace(" ", "-"), "--quiet", "--steps", 100000, "--save-every", 5, *arguments)
        reached = job.await_checkpoint(name.replace(" ", "-"))
        os.kill(job.pid(1), signal.SIGKILL)
        started = time.monotonic()
        statuses, said = job.end()
        seconds = time.monotonic() - started
        self.scratch.check(f"{name}: status", reached and statuses == [2, -signal.SIGKILL], f"{statuses}: {said}")
        self.scratch.check(f"{name}: one cause", said[0].count("error:") == 1 and "process 1" in said[0], said[0])
        self.scratch.check(f"{name}: soon", seconds < LIMIT_SECONDS, f"{seconds:.1f} s")

    def judge_lost(self):
        """A GPU that fails in the middle ends the job soon, with one cause that names it, and the run goes on from what was saved."""
        ways = {"threads": ("0:1500", "threads"), "processes": ("1:700", "processes")}
        for name, (lost, ranks) in ways.items():
            arguments = ["maestro-run", self.plan, "--data", self.data, "--quiet", "--ranks", ranks, "--out", f"lost-{name}", "--save-every", 2]
            os.environ["MAESTRO_FAKE_CUDA_LOST"] = lost
            started = time.monotonic()
            done = self.bench.command(*arguments, "--steps", 1000)
            seconds = time.monotonic() - started
            del os.environ["MAESTRO_FAKE_CUDA_LOST"]
            cause = rf"GPU {lost[0]} \(NVIDIA H100.*CUDA_ERROR_ECC_UNCORRECTABLE \(.*; dmesg has the driver's reason"
            good = done.returncode == 2 and done.stderr.count("error:") == 1 and re.search(cause, done.stderr) and "sample" not in done.stderr
            self.scratch.check(f"a GPU is lost, {name}: one cause", bool(good), f"status {done.returncode}: {done.stderr}")
            self.scratch.check(f"a GPU is lost, {name}: soon", seconds < 30, f"{seconds:.1f} s in all")
            saved = machines.newest(self.scratch.path / f"lost-{name}")
            again = self.bench.command(*arguments, "--steps", saved + 2, "--resume")
            self.scratch.check(f"a GPU is lost, {name}: it goes on from step {saved}", saved >= 2 and again.returncode == 0, again.stderr)

    def judge_memory(self):
        os.environ["MAESTRO_FAKE_CUDA_MEMORY"] = str(2 << 20)
        done = self.bench.command("maestro-run", self.plan, "--data", self.data, "--steps", 1, "--quiet", "--ranks", "processes")
        del os.environ["MAESTRO_FAKE_CUDA_MEMORY"]
        good = done.returncode == 2 and done.stderr.count("error:") == 1 and "nvidia-smi" in done.stderr
        self.scratch.check("too little memory", good, f"status {done.returncode}: {done.stderr}")


def main() -> int:
    scratch = runs.Scratch("cuda-ranks")
    ranks = Ranks(scratch)
    os.environ["LD_LIBRARY_PATH"] = str(runs.BINARIES.resolve().parent / "test" / "fake-cuda")
    ranks.judge_forked()
    ranks.judge_started()
    ranks.judge_missing()
    scratch.check("the bits do not depend on the way", len(ranks.results) == 10 and all(result == ranks.results[0] for result in ranks.results))
    ranks.judge_memory()
    ranks.judge_lost()
    for transport in ("auto", "nccl"):
        ranks.judge_death("--transport", transport)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
