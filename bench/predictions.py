"""Predicted against measured step times of a small distillation under several layouts, with this machine's own profile.

    .venv/bin/python bench/predictions.py

Predictions are of devices that have their cores to themselves. `clock` is the median step; `quiet` what the busiest device's tasks
take where each is given the fifth percentile of its kind's times (traced): on a busy machine it is the fairer one, for layouts
whose devices hardly wait.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
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
LAYOUTS = { # Pins.
    "one device": "*.devices=0 *.micro_batch=4",
    "one device, micro-batches of 1": "*.devices=0 *.micro_batch=1",
    "all data parallel": "*.dp=2 *.micro_batch=4",
    "apart": "teacher.devices=0 student.devices=1 *.micro_batch=4",
    "student in two stages": "student.stages=2 teacher.dp=2 *.micro_batch=2",
    "as searched": "",
}


def workload(scratch) -> pathlib.Path:
    path = scratch.path / "distillation.yaml"
    graphs = {name: runs.exported(runs.zoo_case(case)) for name, case in {"teacher": "llama_logits", "student": "qwen3_logits"}.items()}
    path.write_text(WORKLOAD.format(**graphs))
    return path


def profile(scratch, *flags) -> pathlib.Path:
    path = scratch.path / "device.yaml"
    scratch.bench().succeed("maestro-profile", "-o", path, *flags)
    return path


def planned(scratch, source, device, name):
    pins = [argument for pin in LAYOUTS[name].split() for argument in ("--pin", pin)]
    return scratch.bench().plan(source, name.replace(" ", "-").replace(",", ""), "--set", f"cluster.devices_per_node={DEVICES}",
                                "--set", f"cluster.device={device}", *pins)


def timed_run(scratch, plan, steps, *flags) -> list[float]:
    """Each step's seconds."""
    out = scratch.path / f"{plan.stem}-{len(flags)}"
    line = [runs.BINARIES / "maestro-run", plan, "--out", out, "--steps", str(steps), *flags]
    subprocess.run([str(word) for word in line], check=True, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    return [line["step_seconds"] for line in metrics(out)]


def undisturbed(trace, steps) -> float:
    """Seconds of a step's tasks on the busiest device, each as long as the quickest of its kind but one in twenty."""
    kinds = collections.defaultdict(list)
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("cat") == "task":
            kinds[event["pid"], event["tid"], event["name"]].append(event["dur"] * 1e-6)
    busy = collections.Counter()
    for (device, _, _), times in kinds.items():
        busy[device] += sorted(times)[len(times) // 20] * len(times) / steps
    return max(busy.values())


def measure(scratch, source, device, name, steps=40) -> dict:
    """Seconds: predicted; the clock's median; the busiest device's tasks when nothing disturbs them."""
    plan = planned(scratch, source, device, name)
    predicted = runs.summary(scratch.bench(), plan)["prediction"]["step_seconds"]
    clock = timed_run(scratch, plan, steps + 4)
    trace = scratch.path / f"{plan.stem}.json"
    timed_run(scratch, plan, steps, "--trace", trace)
    return {"predicted": predicted, "clock": statistics.median(clock[4:]), "quiet": undisturbed(trace, steps)}


def main() -> int:
    scratch = runs.Scratch("predictions")
    source, device = workload(scratch), profile(scratch)
    print(f"{'layout':34s} {'predicted':>11s} {'clock':>11s} {'quiet':>11s}   predicted ÷ clock, ÷ quiet")
    for name in LAYOUTS:
        found = measure(scratch, source, device, name)
        values = [f"{found[key] * 1e3:8.2f} ms" for key in ("predicted", "clock", "quiet")]
        print(f"{name:34s} {' '.join(values)}   {found['predicted'] / found['clock']:.2f}, {found['predicted'] / found['quiet']:.2f}",
              flush=True)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
