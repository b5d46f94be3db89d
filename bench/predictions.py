"""Predicted against measured step times of a small distillation under several layouts, with this machine's own profile.

    .venv/bin/python bench/predictions.py

Predictions are of devices that have their cores to themselves. `clock` is the median step; `processor` the processor time
that a step takes, over the devices at work: on a busy machine it is the fairer one, for layouts that keep devices busy.
"""

from __future__ import annotations

import os
import pathlib
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "test" / "runs"), str(HERE)]

import runs  # noqa: E402: first, it says where the others are
from tools import metrics  # noqa: E402

WORKLOAD = """\
components:
  teacher: {{model: {teacher}, frozen: true}}
  student: {{model: {student}}}
dims: {{batch: {{combine: sum, max: 1}}, seq: {{combine: max, max: 256}}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, temperature: 2.0, labels: labels, weight: 0.5}}
train: {{global_batch: 16}}
"""
DEVICES = 2
# name: devices at work, pins
LAYOUTS = {
    "one device": (1, "*.devices=0 *.micro_batch=4"),
    "one device, micro-batches of 1": (1, "*.devices=0 *.micro_batch=1"),
    "all data parallel": (2, "*.dp=2 *.micro_batch=4"),
    "apart": (2, "teacher.devices=0 student.devices=1 *.micro_batch=4"),
    "student in two stages": (2, "student.stages=2 teacher.dp=2 *.micro_batch=2"),
    "as searched": (2, ""),
}


def workload(scratch) -> pathlib.Path:
    path = scratch.path / "distillation.yaml"
    graphs = {name: runs.exported(runs.zoo_case(case)) for name, case in {"teacher": "llama_logits", "student": "qwen3_logits"}.items()}
    path.write_text(WORKLOAD.format(**graphs))
    return path


def profile(scratch) -> pathlib.Path:
    path = scratch.path / "device.yaml"
    scratch.bench().succeed("maestro-profile", "-o", path, "--seconds", 0.1)
    return path


def planned(scratch, source, device, name):
    pins = [argument for pin in LAYOUTS[name][1].split() for argument in ("--pin", pin)]
    return scratch.bench().plan(source, name.replace(" ", "-").replace(",", ""), "--set", f"cluster.devices_per_node={DEVICES}",
                                "--set", f"cluster.device={device}", *pins)


def timed_run(scratch, plan, steps) -> tuple[float, list[float]]:
    """(processor seconds, each step's seconds)."""
    out = scratch.path / f"{plan.stem}-{steps}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [runs.BINARIES / "maestro-run", plan, "--out", out, "--steps", str(steps)]
    subprocess.run([str(word) for word in line], check=True, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used, [line["step_seconds"] for line in metrics(out)]


def measure(scratch, source, device, name, steps=40) -> dict:
    """Seconds: predicted; the clock's median; the processor's, over the devices at work."""
    plan = planned(scratch, source, device, name)
    predicted = runs.summary(scratch.bench(), plan)["prediction"]["step_seconds"]
    short, _ = timed_run(scratch, plan, 4)
    long, clock = timed_run(scratch, plan, steps + 4)
    return {"predicted": predicted, "clock": statistics.median(clock[4:]),
            "processor": (long - short) / steps / LAYOUTS[name][0]}


def main() -> int:
    scratch = runs.Scratch("predictions")
    source, device = workload(scratch), profile(scratch)
    print(f"{'layout':34s} {'predicted':>11s} {'clock':>11s} {'processor':>11s}   predicted ÷ clock, ÷ processor")
    for name in LAYOUTS:
        found = measure(scratch, source, device, name)
        values = [f"{found[key] * 1e3:8.2f} ms" for key in ("predicted", "clock", "processor")]
        print(f"{name:34s} {' '.join(values)}   {found['predicted'] / found['clock']:.2f}, {found['predicted'] / found['processor']:.2f}",
              flush=True)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
