"""Predicted against measured, of every example under several layouts, with this machine's own profile: step times and memory.

    .venv/bin/python bench/predictions.py [EXAMPLE…] [--rounds N]

Predicted is what the plan says before anything runs, for the sizes of the example's own data (`--data`); nothing is fitted to these
layouts. The speed of a machine that is shared moves by tens of per cent within seconds and within minutes, though nothing else is to be seen on it
(`speed` in the table's head: one and the same job, a run in each round). So what is compared lies side by side, many times over. After a
profile of the machine for each example (given a plan of it, made before anything was measured), each round runs every layout between two measurements
of the calls of that plan (`maestro-profile PLAN --base`), and plans it with each of the two: predicted is their mean. What runs is planned once, with the
profile; a searched layout is pinned as it was found then. Times are means over the rounds; from-to are the shortest and the
longest run's mean step; the error is the median round's, since a burst of somebody else's work may fall into a run and into
neither measurement beside it; `+-` is the standard error of the mean one, from how predicted over measured differs between rounds. A
run in which other programs took more than a tenth of a core is made again; where three did not suffice, the row is marked with `*`.

Memory is of the largest samples that the workload allows: what a device was predicted to need, and what its process (or where devices
share none, the process) had at its peak; the device that is worst predicted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import re
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
    Example("multimodal", "multimodal/make_data.py", 12, 48, {"seq": 128, "images": 3, "sounds": 2}, {
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
    scratch.bench().succeed("maestro-profile", "--device", "cpu", "-o", path, *flags)
    return path


def called(scratch, example) -> pathlib.Path:
    """A plan made without a profile: profiles measure its calls."""
    return planned(scratch, example, next(iter(example.layouts)), "cpu", kind="-called")


def planned(scratch, example, layout, device, *arguments, kind="", pins=None) -> pathlib.Path:
    """Of the example's data, unless arguments say of what; `pins` in place of the layout's."""
    devices, usual = example.layouts[layout]
    words = [word for pin in (usual if pins is None else pins).split() for word in ("--pin", pin)]
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

    def ratios(self) -> list:
        return [predicted / measured for predicted, measured in zip(self.predicted, self.measured)]

    def error(self) -> float:
        return statistics.median(self.ratios()) - 1

    def uncertainty(self) -> float:
        """The standard error of the mean round's error."""
        ratios = self.ratios()
        return statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0


@dataclasses.dataclass
class Subject:
    """An example with what is made of it before the rounds."""
    example: Example
    called: pathlib.Path  # The plan whose calls are measured.
    base: pathlib.Path  # The profile.
    plans: dict  # By layout: what runs.
    pins: dict  # By layout: what is planned again.


def searched_pins(plan_summary) -> str:
    """Those that make the search's layout again."""
    decided = {decision["subject"]: decision for decision in plan_summary["decisions"]}
    words = []
    for section in plan_summary["sections"]:
        name, layout = section["name"], section["layout"]
        recompute = "full" if layout["full_recompute"] else "selective" if layout["recompute"] else "none"
        recompute += f"-{layout['lighter_layers']}" if layout["lighter_layers"] else ""
        recompute += "-evenly" if layout["lighter_evenly"] else ""
        devices = re.search(r"on devices? ([0-9,-]+)", decided[f"{name}.devices"]["choice"]).group(1)
        words += [f"{name}.devices={devices}", f"{name}.dp={layout['data_parallel']}", f"{name}.stages={layout['stages']}", f"{name}.recompute={recompute}",
                  f"{name}.split_backward={layout['split_backward'] or 'no'}", f"{name}.loss_chunks={layout['loss_chunks']}"]
        tokens = re.search(rf"\b{name} [^;]* of (\d+) tokens", decided["layout"]["reason"])
        words.append(f"{name}.micro_batch_tokens={tokens.group(1)}" if tokens else f"{name}.micro_batch={section['micro_batch_samples']}")
    return " ".join(words)


def prepared(scratch, example) -> Subject:
    plan = called(scratch, example)
    base = profile(scratch, plan, "--data", example.data(scratch), name=f"device-{example.name}")
    plans = {layout: planned(scratch, example, layout, base, kind="-runs") for layout in example.layouts}
    pins = {layout: pins or searched_pins(runs.summary(scratch.bench(), plans[layout])) for layout, (_, pins) in example.layouts.items()}
    return Subject(example, plan, base, plans, pins)


def add_round(scratch, subjects, yardstick, found) -> float:
    """How long the yardstick's step took."""
    for subject in subjects:
        example = subject.example

        def measured_calls(index):
            return profile(scratch, subject.called, "--base", subject.base, "--seconds", SHORT, name=f"calls-{index}")

        calls, made = [measured_calls(0)], []
        for index, layout in enumerate(example.layouts):
            made.append(quiet_run(scratch, example, subject.plans[layout]))
            calls.append(measured_calls(index + 1))

        def predicted(layout, index):
            plan = planned(scratch, example, layout, calls[index], kind=f"-{index}", pins=subject.pins[layout])
            return predicted_seconds(scratch, plan)

        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:  # Nothing is measured meanwhile.
            twice = [[pool.submit(predicted, layout, index + side) for side in (0, 1)] for index, layout in enumerate(example.layouts)]
        for layout, run, sides in zip(example.layouts, made, twice):
            here = found[example.name, layout]
            here.predicted.append(statistics.fmean(side.result() for side in sides))
            here.measured.append(statistics.fmean(run.steps[example.first :]))
            here.disturbed |= run.others > QUIET
    gpt = EXAMPLES["gpt"]
    speed = statistics.median(quiet_run(scratch, gpt, yardstick).steps[gpt.first :])
    print(f"round {len(here.measured)}: the same job's step takes {speed * 1e3:.0f} ms", file=sys.stderr, flush=True)
    return speed


# ---- memory -------------------------------------------------------------------------------------------------------


def memory(scratch, subject, layout) -> tuple[int, int]:
    """(predicted, used) bytes of the device that is worst predicted, with the largest samples."""
    import memory_test

    example = subject.example
    sizes = [word for dim, size in example.largest.items() for word in ("--set", f"synthetic.{dim}={size}")]
    plan = planned(scratch, example, layout, subject.base, *sizes, kind="-largest", pins=subject.pins[layout])
    return max(memory_test.rank_memory(scratch.bench(), plan), key=lambda pair: excess(*pair))


def excess(predicted, used) -> float:
    """Bytes above what a prediction may be; where it is too low, that comes first."""
    return math.inf if predicted < used else predicted - 1.03 * used - 64 * MIB


# ---- the table ----------------------------------------------------------------------------------------------------


def row(scratch, subject, layout, found) -> float:
    example, error = subject.example, found.error()
    needed, used = memory(scratch, subject, layout)
    bound = "over" if excess(needed, used) > 0 else "ok"
    print(f"{example.name:11s} {layout:31s} {statistics.fmean(found.predicted) * 1e3:8.2f} ms {statistics.fmean(found.measured) * 1e3:8.2f} ms "
          f"{error:+7.1%}{'*' if found.disturbed else ' '} +- {found.uncertainty():4.1%} {min(found.measured) * 1e3:7.1f}-{max(found.measured) * 1e3:<7.1f} "
          f"{needed / MIB:6.0f} of {used / MIB:4.0f} MiB  {'UNDER' if needed < used else bound}", flush=True)
    return abs(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=f"of {', '.join(EXAMPLES)}; default: all")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    unknown = sorted(set(given.examples) - set(EXAMPLES))
    if unknown:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(EXAMPLES)}")
    scratch = runs.Scratch("predictions")
    examples = [EXAMPLES[name] for name in given.examples or EXAMPLES]
    found = {(example.name, layout): Found() for example in examples for layout in example.layouts}
    yardstick = planned(scratch, EXAMPLES["gpt"], "data parallel", "cpu", kind="-yardstick")
    subjects = [prepared(scratch, example) for example in examples]
    speeds = [add_round(scratch, subjects, yardstick, found) for _ in range(given.rounds)]
    print(f"speed: one and the same job took {min(speeds) * 1e3:.0f} to {max(speeds) * 1e3:.0f} ms a step in the {given.rounds} rounds")
    print(f"{'example':11s} {'layout':31s} {'predicted':>11s} {'measured':>11s} {'error':>7s}           {'from-to':15s} {'memory at the bounds':>22s}")
    errors = [row(scratch, subject, layout, found[subject.example.name, layout]) for subject in subjects for layout in subject.example.layouts]
    print(f"step time: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}, of {len(errors)}; "
          f"goal 5 % and 10 %, memory never under and at most 3 % + 64 MiB over")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
