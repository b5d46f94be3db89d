"""Predicted against measured, of every example under several layouts, with this machine's own profile: step times and memory.

    .venv/bin/python bench/predictions.py [EXAMPLE…] [--profile device.yaml] [--rounds N]

Predicted is what the plan says before anything runs, for the sizes of the example's own data (`--data`); nothing is fitted to these
layouts. The speed of a machine that is shared moves by tens of per cent within seconds and within minutes, though nothing else is to be seen on it
(`speed` in the table's head: one and the same job, a run in each round). So what is compared lies side by side, many times over: after a
profile of the machine, in each round for every layout a run between two measurements of the calls of a plan (`maestro-profile PLAN --base`; one plan of
each example, made before anything was measured), with each of which its plan is made: predicted is their mean. Figures are means over the rounds; from-to are the shortest and the
longest run's mean step; `+-` is the error's own standard error, from how predicted over measured differs between rounds. A
run in which other programs took more than a tenth of a core is made again; where three did not suffice, the row is marked with `*`. `--profile` names a
profile of the machine to take instead.

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
ATTEMPTS = 3  # Of a run.
SHORT = 0.005  # Seconds for each kernel and size of the calls that are measured beside a run.


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


def profile(scratch, *flags, name="device") -> pathlib.Path:
    path = scratch.path / f"{name}.yaml"
    scratch.bench().succeed("maestro-profile", "-o", path, *flags)
    return path


def called(scratch, example) -> pathlib.Path:
    """A plan made without a profile: profiles measure its calls."""
    return planned(scratch, example, next(iter(example.layouts)), "cpu", kind="-called")


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


def quiet_run(scratch, example, plan) -> Run:
    """The quietest of the attempts; the first that is quiet."""
    made = []
    while len(made) < ATTEMPTS and min((each.others for each in made), default=math.inf) > QUIET:
        made.append(timed_run(scratch, example, plan, example.first + example.steps))
    return min(made, key=lambda each: each.others)


@dataclasses.dataclass
class Found:
    """Of a layout, by round."""
    predicted: list = dataclasses.field(default_factory=list)  # Seconds: the mean of before and after the run.
    measured: list = dataclasses.field(default_factory=list)  # Seconds of the mean step.
    disturbed: bool = False

    def error(self) -> float:
        return statistics.fmean(self.predicted) / statistics.fmean(self.measured) - 1

    def uncertainty(self) -> float:
        """The error's standard error."""
        ratios = [predicted / measured for predicted, measured in zip(self.predicted, self.measured)]
        return statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0


def add_round(scratch, examples, base, yardstick, found, plans) -> float:
    """How long the yardstick's step took."""
    for example in examples:
        def measure_calls():
            return profile(scratch, plans[example.name], "--base", base, "--seconds", SHORT, name="calls")

        calls = measure_calls()
        for layout in example.layouts:
            plan, here = planned(scratch, example, layout, calls), found[example.name, layout]
            before = predicted_seconds(scratch, plan)
            made = quiet_run(scratch, example, plan)
            calls = measure_calls()
            here.predicted.append((before + predicted_seconds(scratch, planned(scratch, example, layout, calls))) / 2)
            here.measured.append(statistics.fmean(made.steps[example.first :]))
            here.disturbed |= made.others > QUIET
    gpt = EXAMPLES["gpt"]
    speed = statistics.median(quiet_run(scratch, gpt, yardstick).steps[gpt.first :])
    print(f"round {len(here.measured)}: the same job's step takes {speed * 1e3:.0f} ms", file=sys.stderr, flush=True)
    return speed


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
    error = found.error()
    needed, used = memory(scratch, example, layout, device)
    bound = "over" if excess(needed, used) > 0 else "ok"
    print(f"{example.name:11s} {layout:31s} {statistics.fmean(found.predicted) * 1e3:8.2f} ms {statistics.fmean(found.measured) * 1e3:8.2f} ms "
          f"{error:+7.1%}{'*' if found.disturbed else ' '} +- {found.uncertainty():4.1%} {min(found.measured) * 1e3:7.1f}-{max(found.measured) * 1e3:<7.1f} "
          f"{needed / MIB:6.0f} of {used / MIB:4.0f} MiB  {'UNDER' if needed < used else bound}", flush=True)
    return abs(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=f"of {', '.join(EXAMPLES)}; default: all")
    parser.add_argument("--profile", type=pathlib.Path, help="what maestro-profile wrote; without, it is run first")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    unknown = sorted(set(given.examples) - set(EXAMPLES))
    if unknown:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(EXAMPLES)}")
    scratch = runs.Scratch("predictions")
    examples = [EXAMPLES[name] for name in given.examples or EXAMPLES]
    found = {(example.name, layout): Found() for example in examples for layout in example.layouts}
    yardstick = planned(scratch, EXAMPLES["gpt"], "data parallel", "cpu", kind="-yardstick")
    speeds, plans = [], {example.name: called(scratch, example) for example in examples}
    device = given.profile.resolve() if given.profile else profile(scratch, *plans.values())
    for _ in range(given.rounds):
        speeds.append(add_round(scratch, examples, device, yardstick, found, plans))
    print(f"speed: one and the same job took {min(speeds) * 1e3:.0f} to {max(speeds) * 1e3:.0f} ms a step in the {given.rounds} rounds")
    print(f"{'example':11s} {'layout':31s} {'predicted':>11s} {'measured':>11s} {'error':>7s}           {'from-to':15s} {'memory at the bounds':>22s}")
    errors = [row(scratch, example, layout, found[example.name, layout], device) for example in examples for layout in example.layouts]
    print(f"step time: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}, of {len(errors)}; "
          f"goal 5 % and 10 %, memory never under and at most 3 % + 64 MiB over")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
