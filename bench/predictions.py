"""Predicted against measured, of every example under several layouts, with this machine's own profile: step times and memory.

    .venv/bin/python bench/predictions.py [EXAMPLE…] [--profile device.yaml] [--rounds N]

Predicted is what the plan says before anything runs, for the sizes of the example's own data (`--data`); nothing is fitted to these
layouts. The machine's own speed moves, so rounds of a profile, plans with it and runs follow each other: a prediction is held against
runs of the same minutes, as where a user profiles and trains, and means over the rounds count. Measured: layouts take turns, short runs
on that data. Of each step the median over the runs counts, and of these the mean; from-to are the shortest and the longest step. A run
in which other programs took more than a tenth of a core is made again; where three times as many did not suffice, the row is marked
with `*`. With `--profile` all rounds take that one.

On a machine that is shared, speed moves although nothing else is to be seen. So one and the same job, planned without any profile, is a
yardstick: it runs before and behind the profile, and behind each example's runs. Where its times in a round differ by more than a tenth, a
profile of one speed is held against runs of another, and the round is made again, twice at most; then its rows are marked, too.

Memory is of the largest samples that the workload allows: what a device was predicted to need, and what its process (or where devices
share none, the process) had at its peak; the device that is worst predicted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "test" / "runs"), str(HERE)]

import runs  # noqa: E402: first, it says where the others are
from tools import metrics  # noqa: E402

MIB = 1 << 20
CORES = os.cpu_count() or 1
QUIET = 0.1  # Cores that other programs may take during a run.
RUNS = 3  # Of a layout in a round.
STEADY = 1.1  # The yardstick's longest time over its shortest, within a round.
ATTEMPTS = 3  # Of a round.


@dataclasses.dataclass
class Example:
    name: str
    make_data: str  # Of examples/.
    first: int  # Steps before those that count: until every shape of the data was seen.
    steps: int
    largest: dict  # `synthetic` at the dims' bounds.
    layouts: dict  # Devices and pins; no more devices than cores.

    def source(self) -> pathlib.Path:
        return ROOT / "examples" / self.name / "workload.yaml"

    def data(self, scratch) -> str:
        folder = scratch.path / self.make_data.replace("/", "-")
        if not folder.exists():
            subprocess.run([sys.executable, ROOT / "examples" / self.make_data, folder], check=True, capture_output=True)
        return f"{folder}/train-*.tar"


ALONE = "*.devices=0 "
EXAMPLES = {example.name: example for example in (
    Example("gpt", "gpt/make_data.py", 4, 10, {"seq": 256}, {
        "a device of all cores": (1, "*.micro_batch=4"),
        "one of two devices": (2, ALONE + "*.micro_batch=4"),
        "micro-batches of 1": (2, ALONE + "*.micro_batch=1"),
        "recomputed, micro-batches of 8": (2, ALONE + "*.recompute=selective *.micro_batch=8"),
        "data parallel": (2, "*.dp=2 *.micro_batch=4"),
        "two stages": (2, "*.stages=2 *.micro_batch=2"),
    }),
    Example("kd", "gpt/make_data.py", 4, 10, {"seq": 256}, {
        "a device of all cores": (1, "*.micro_batch=4"),
        "one of two devices": (2, ALONE + "*.micro_batch=4"),
        "data parallel": (2, "*.dp=2 *.micro_batch=2"),
        "apart": (2, "teacher.devices=0 student.devices=1 *.micro_batch=4"),
        "student in stages": (2, "student.stages=2 teacher.dp=2 *.micro_batch=2"),
        "as searched": (2, ""),
    }),
    Example("multimodal", "multimodal/make_data.py", 12, 12, {"seq": 128, "images": 3, "sounds": 2}, {
        "a device of all cores": (1, "*.micro_batch=4"),
        "one of two devices": (2, ALONE + "*.micro_batch=4"),
        "data parallel": (2, "*.dp=2 *.micro_batch=4"),
        "apart": (2, "vision.devices=0 audio.devices=0 language.devices=1 *.micro_batch=4"),
        "language in stages": (2, "language.stages=2 vision.devices=0 audio.devices=1 *.micro_batch=2"),
        "as searched": (2, ""),
    }),
)}


def profile(scratch, *flags) -> pathlib.Path:
    path = scratch.path / "device.yaml"
    scratch.bench().succeed("maestro-profile", "-o", path, *flags)
    return path


def planned(scratch, example, layout, device, *arguments, kind="") -> pathlib.Path:
    devices, pins = example.layouts[layout]
    words = [word for pin in pins.split() for word in ("--pin", pin)]
    name = f"{example.name}-{layout}{kind}".replace(" ", "-").replace(",", "")
    return scratch.bench().plan(example.source(), name, "--quiet", "--set", f"cluster.devices_per_node={devices}",
                                "--set", f"cluster.device={device}", *words, *(arguments or ("--data", example.data(scratch))))


def predicted_seconds(scratch, plan) -> float:
    return runs.summary(scratch.bench(), plan)["prediction"]["step_seconds"]


# ---- step times ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Run:
    steps: list  # Seconds of each.
    processor: float  # Seconds, of all steps and the start.
    others: float  # Cores that other programs took meanwhile.


def processor_seconds() -> float:
    """Of all programs, and what a virtual machine's host kept for itself."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def timed_run(scratch, example, plan, steps) -> Run:
    out = scratch.path / f"{plan.stem}-run"
    shutil.rmtree(out, ignore_errors=True)
    line = [runs.BINARIES / "maestro-run", plan, "--data", example.data(scratch), "--out", out, "--quiet",
            "--steps", steps]
    before, own, start = processor_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([str(word) for word in line], check=True, capture_output=True)
    after, used = processor_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    mine = used.ru_utime + used.ru_stime - own.ru_utime - own.ru_stime
    others = max(0.0, after - before - mine) / (time.monotonic() - start)
    return Run([line["step_seconds"] for line in metrics(out)], mine, others)


def take_turns(scratch, example, plans, count=RUNS) -> dict:
    """Each layout's runs, the quiet ones first."""
    found = {layout: [] for layout in plans}
    for _ in range(3 * count):
        for layout, plan in plans.items():
            if sum(each.others <= QUIET for each in found[layout]) < count:
                found[layout].append(timed_run(scratch, example, plan, example.first + example.steps))
    return {layout: sorted(made, key=lambda each: max(each.others, QUIET))[:count] for layout, made in found.items()}


def step_seconds(example, runs_made) -> list[float]:
    """Each step's median over the runs, of those that count."""
    return [statistics.median(times) for times in zip(*(each.steps[example.first :] for each in runs_made))]


@dataclasses.dataclass
class Found:
    """Of a layout, all rounds."""
    predicted: list = dataclasses.field(default_factory=list)
    steps: list = dataclasses.field(default_factory=list)
    disturbed: bool = False


class Yardstick:
    """How fast the machine is: a step of one job, planned once, with built-in rates; its devices use all cores."""

    def __init__(self, scratch):
        self.scratch, self.example = scratch, EXAMPLES["gpt"]
        self.plan = planned(scratch, self.example, "data parallel", "cpu", kind="-yardstick")

    def seconds(self) -> float:
        steps = timed_run(self.scratch, self.example, self.plan, self.example.first + 2 * self.example.steps).steps
        return statistics.median(steps[self.example.first :])


def one_round(scratch, examples, given, yardstick):
    """(By how much the machine's speed moved, the device's profile, of each example and layout its plan and its runs.)"""
    speeds = [yardstick.seconds()]
    device = given or profile(scratch)
    speeds.append(yardstick.seconds())
    made = {}
    for example in examples:
        plans = {layout: planned(scratch, example, layout, device) for layout in example.layouts}
        for layout, runs_made in take_turns(scratch, example, plans).items():
            made[example.name, layout] = predicted_seconds(scratch, plans[layout]), runs_made
        speeds.append(yardstick.seconds())
    return max(speeds) / min(speeds), device, made


def add_round(scratch, examples, given, yardstick, found):
    """The steadiest of some attempts; the first that is steady."""
    attempts = []
    while len(attempts) < ATTEMPTS and min((each[0] for each in attempts), default=math.inf) > STEADY:
        attempts.append(one_round(scratch, examples, given, yardstick))
    moved, device, made = min(attempts, key=lambda each: each[0])
    print(f"a round: the machine's speed moved by {moved - 1:.0%}; of {len(attempts)}: {', '.join(f'{each[0] - 1:.0%}' for each in attempts)}", flush=True)
    for example in examples:
        for layout in example.layouts:
            predicted, runs_made = made[example.name, layout]
            here = found[example.name, layout]
            here.predicted.append(predicted)
            here.steps += step_seconds(example, runs_made)
            here.disturbed |= moved > STEADY or any(each.others > QUIET for each in runs_made)
    return device


# ---- memory -------------------------------------------------------------------------------------------------------


def memory(scratch, example, layout, device) -> tuple[int, int]:
    """(predicted, used) bytes of the device that is worst predicted, with the largest samples."""
    import memory_test

    sizes = [word for dim, size in example.largest.items() for word in ("--set", f"synthetic.{dim}={size}")]
    plan = planned(scratch, example, layout, device, *sizes, kind="-largest")
    return max(memory_test.rank_memory(scratch.bench(), plan), key=lambda pair: excess(*pair))


def excess(predicted, used) -> float:
    """Bytes above what a prediction may be; where it is too low, that comes first."""
    return math.inf if predicted < used else predicted - 1.03 * used - 64 * MIB


# ---- the table ----------------------------------------------------------------------------------------------------


def row(scratch, example, layout, found, device) -> float:
    predicted, measured = statistics.fmean(found.predicted), statistics.fmean(found.steps)
    error = predicted / measured - 1
    needed, used = memory(scratch, example, layout, device)
    bound = "over" if excess(needed, used) > 0 else "ok"
    print(f"{example.name:11s} {layout:31s} {predicted * 1e3:8.2f} ms {measured * 1e3:8.2f} ms {error:+7.1%}{'*' if found.disturbed else ' '} "
          f"{min(found.steps) * 1e3:7.1f}-{max(found.steps) * 1e3:<7.1f} {needed / MIB:6.0f} of {used / MIB:4.0f} MiB  "
          f"{'UNDER' if needed < used else bound}", flush=True)
    return abs(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=f"of {', '.join(EXAMPLES)}; default: all")
    parser.add_argument("--profile", type=pathlib.Path, help="what maestro-profile wrote; without, it is run first")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    unknown = sorted(set(given.examples) - set(EXAMPLES))
    if unknown:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(EXAMPLES)}")
    scratch = runs.Scratch("predictions")
    examples = [EXAMPLES[name] for name in given.examples or EXAMPLES]
    found = {(example.name, layout): Found() for example in examples for layout in example.layouts}
    yardstick, profiled = Yardstick(scratch), given.profile and given.profile.resolve()
    for _ in range(given.rounds):
        device = add_round(scratch, examples, profiled, yardstick, found)
    print(f"{'example':11s} {'layout':31s} {'predicted':>11s} {'measured':>11s} {'error':>7s}  {'from-to':15s} {'memory at the bounds':>22s}")
    errors = [row(scratch, example, layout, found[example.name, layout], device) for example in examples for layout in example.layouts]
    print(f"step time: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}, of {len(errors)}; "
          f"goal 5 % and 10 %, memory never under and at most 3 % + 64 MiB over")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
