"""Whole runs of maestro-run under valgrind: no byte is used that is not there any more, not written yet, or never was; on CPUs, and on GPUs of our own
driver where there are any, with ends of every kind."""

import os
import shutil
import subprocess
import sys
import time

import runs
import machines
import shards
from tools import DISTILLATION, STAGES_AND_REPLICAS

FOUND = 99  # The status of a run in which there was something to find; otherwise it is the run's own.
VALGRIND = ["valgrind", "--quiet", "--fair-sched=yes", "--num-callers=20", f"--error-exitcode={FOUND}"]
# maestro-run does not start itself again for OpenMP's sake then, which under valgrind it cannot.
ALWAYS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
FAKES = runs.BINARIES.resolve().parent / "test" / "fake-cuda"


class UnderValgrind(machines.Loopback):
    def prefix(self, process: int) -> list[str]:
        return VALGRIND


class Judge:
    def __init__(self, scratch):
        self.scratch, self.bench = scratch, scratch.bench()
        case = runs.zoo_case("mlp_dropout")
        self.data = shards.write_shards(shards.make_samples(case, 16, seed=5), scratch.path / "data")
        self.model = runs.exported(case)

    def plan(self, name, *settings):
        return self.bench.plan(self.model, name, "--set", "cluster.devices_per_node=2", "--set", "train.global_batch=8", "--pin", "*.micro_batch=2",
                               "--pin", "*.dp=2", *settings)

    def compound(self):
        workload = self.scratch.path / "kd.yaml"
        workload.write_text(DISTILLATION.format(lr=1e-3, teacher=runs.exported(runs.zoo_case("llama_logits")), student=runs.exported(runs.zoo_case("qwen3_logits"))))
        return self.bench.plan(workload, "kd", *STAGES_AND_REPLICAS, "--set", "dims.seq.max=8", "--set", "train.global_batch=4")

    def judge(self, what, expected, plan, *arguments, variables=None):
        began = time.monotonic()
        environment = os.environ | ALWAYS | (variables or {})
        line = [*VALGRIND, str(runs.BINARIES / "maestro-run"), str(plan), "--quiet", *map(str, arguments)]
        done = subprocess.run(line, cwd=self.scratch.path, env=environment, capture_output=True, text=True, timeout=250)
        self.scratch.check(f"{what} ({time.monotonic() - began:.0f} s)", done.returncode == expected,
                           "" if done.returncode == expected else f"status {done.returncode}: {done.stderr}")

    def judge_started(self, what, plan, *arguments, variables):
        began = time.monotonic()
        changes = {process: (ALWAYS | variables, None) for process in range(2)}
        statuses, said = machines.Job(self.scratch, UnderValgrind(), 2, plan, "--quiet", "--data", self.data, *arguments, changes=changes).end(250)
        self.scratch.check(f"{what} ({time.monotonic() - began:.0f} s)", statuses == [0, 0], "" if statuses == [0, 0] else f"{statuses}: {said}")


def main() -> int:
    scratch = runs.Scratch("memcheck")
    if not scratch.check("valgrind is installed", shutil.which("valgrind") is not None):
        return scratch.finish()
    judge = Judge(scratch)
    plan = judge.plan("cpu")
    judge.judge("replicas, with a checkpoint", 0, plan, "--data", judge.data, "--steps", 2, "--out", "cpu", "--save-every", 1)
    judge.judge("resumed, ranks as processes", 0, plan, "--data", judge.data, "--steps", 3, "--out", "cpu", "--resume", "--ranks", "processes")
    judge.judge("teacher and student in stages", 0, judge.compound(), "--steps", 1, "--out", "kd")
    if FAKES.is_dir():
        gpus = {"LD_LIBRARY_PATH": str(FAKES), "MAESTRO_FAKE_CUDA_MEMORY": str(256 << 20), "MAESTRO_FAKE_CUDA_HIDES_NOTHING": "1"} # Valgrind notes each change.
        plan = judge.plan("gpu", "--set", "cluster.device=h100-sxm")
        judge.judge("GPUs", 0, plan, "--data", judge.data, "--steps", 2, "--out", "gpu", variables=gpus)
        judge.judge("a GPU that is lost", 2, plan, "--data", judge.data, "--steps", 1000, "--out", "lost", "--save-every", 2,
                    variables=gpus | {"MAESTRO_FAKE_CUDA_LOST": "0:400"})
        judge.judge_started("GPUs of two processes, by NCCL's puts", plan, "--steps", 1, "--transport", "nccl", variables=gpus | {"MAESTRO_FAKE_NCCL_VERSION": "23007"})
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
