"""What regrouping, reordering and running ahead gain: simulated, executed with kernels that sleep, and in earnest.

    .venv/bin/python bench/overlap.py [simulated] [asleep] [ahead] [earnest]        default: all

The multimodal example's networks on a skewed mix: most samples have no image or sound, some have many. The baseline gives each
section devices of its own and takes samples and tasks in file order. Asleep, ranks, channels, schedules and
workers are the real ones, and a task sleeps for a multiple of its planned time instead of computing, so that many devices fit a
small machine. In earnest: the example's own data on two devices, planned with this machine's profile, file order and wavefront in turn.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "test" / "runs"), str(HERE)]

import runs  # noqa: E402: first, it says where the others are
from tools import ToolFailure, metrics  # noqa: E402

MULTIMODAL = ROOT / "examples" / "multimodal"
KD = ROOT / "examples" / "kd"
MIX = """\
components:
  vision: {{model: {folder}/vision.onnx}}
  audio: {{model: {folder}/audio.onnx}}
  language: {{model: {folder}/language.onnx}}
edges:
  - vision.image_features -> language.image_features
  - audio.sound_features -> language.sound_features
dims:
  batch: {{combine: sum, max: 1}}
  seq: {{combine: max, max: 128}}
  images: {{combine: sum, max: 12}}
  sounds: {{combine: sum, max: 12}}
loss: [{{cross_entropy: {{logits: language.logits, labels: labels}}}}]
synthetic:
  seq: lognormal(40, 0.6)
  images: lognormal(0.8, 1.3)
  sounds: lognormal(0.5, 1.3)
train: {{global_batch: {batch}}}
"""
SLEPT_STEP_SECONDS = 3.5  # Long against a machine's jitter, and against what ranks do besides sleeping.
STEPS = 5
EARNEST_STEPS = 36  # Three passes over the example's data.
MOST_EXECUTED = 16  # Devices, asleep.
ROW = re.compile(r"(?P<section>\S+) (?P<dp>\d+)(?: x (?P<stages>\d+) stages)? on (?P<devices>\S+) in (?P<micro_batch>\d+)s")


@dataclasses.dataclass
class Job:
    """A workload on so many devices."""
    scratch: runs.Scratch
    source: pathlib.Path
    devices: int
    device: pathlib.Path | None = None  # What maestro-profile wrote; without, the built-in rates.

    def plan(self, name: str = "planned", pins=()) -> pathlib.Path:
        settings = [f"cluster.devices_per_node={self.devices}"]
        if self.device:
            settings.append(f"cluster.device={self.device}")
        if self.devices > MOST_EXECUTED:  # Simulated only: what this machine's memory would leave to each is not asked.
            settings.append("cluster.memory=4 GiB")
        words = [word for setting in settings for word in ("--set", setting)] + [word for pin in pins for word in ("--pin", pin)]
        return self.scratch.bench().plan(self.source, f"{self.source.stem}-{name}", "--quiet", *words)


def mix(scratch, devices: int) -> Job:
    source = scratch.path / f"mix{devices}.yaml"
    source.write_text(MIX.format(folder=MULTIMODAL, batch=16 * devices))
    return Job(scratch, source, devices)


def static_split(job: Job, plan) -> pathlib.Path:
    """The static layout that the planner compared with, devices of its own for each section, or, if that is faster in file order, the
    same split with other micro-batches or without stages: a baseline at its best."""
    candidates = runs.summary(job.scratch.bench(), plan)["candidates"]
    (row,) = (candidate["choice"] for candidate in candidates if candidate["subject"] == "static split")
    found = [match.groupdict() for match in ROW.finditer(row)]
    plans = []
    for samples in (None, 1, 2, 4, 8):
        for flat in {False, any(choice["stages"] for choice in found)}:
            pins = []
            for choice in found:
                stages = int(choice["stages"] or 1)
                layout = {"dp": int(choice["dp"]) * stages, "stages": 1} if flat else {"dp": choice["dp"], "stages": stages}
                layout |= {"devices": choice["devices"], "micro_batch": samples or choice["micro_batch"]}
                pins += [f"{choice['section']}.{what}={value}" for what, value in layout.items()]
            try:
                plans.append(job.plan(f"static-{samples}-{flat}", pins))
            except ToolFailure as failure:  # Many small micro-batches take many slots.
                if "needs" not in str(failure):
                    raise
    return min(plans, key=lambda candidate: step_seconds(predicted(job.scratch, candidate, "--file-order")))


def spans(events) -> list[dict]:
    return [event for event in events if event["ph"] == "X" and event["cat"] == "task"]


def step_ends(events) -> dict[int, float]:
    """Microseconds at which each step's last update ended."""
    ends: dict[int, float] = {}
    for event in spans(events):
        if event["name"] == "update":
            step = event["args"]["step"]
            ends[step] = max(ends.get(step, 0.0), event["ts"] + event["dur"])
    return ends


def steady(events) -> tuple[float, float, int]:
    """Start and end of the steady steps, and how many: without the first third and the last."""
    ends = step_ends(events)
    numbers = sorted(ends)[len(ends) // 3 : -1]
    return ends[numbers[0]], ends[numbers[-1]], len(numbers) - 1


def idle_shares(events) -> dict[int, float]:
    """By device: the share of steady steps in which it is in no task, reduction or update."""
    start, end, _ = steady(events)
    busy: dict[int, float] = {}
    for event in spans(events):
        inside = max(0.0, min(end, event["ts"] + event["dur"]) - max(start, event["ts"]))
        busy[event["pid"]] = busy.get(event["pid"], 0.0) + inside
    return {device: 1 - value / (end - start) for device, value in sorted(busy.items())}


def step_seconds(events) -> float:
    """The median steady step."""
    ends = step_ends(events)
    numbers = sorted(ends)[len(ends) // 3 : -1]
    return statistics.median(1e-6 * (ends[b] - ends[a]) for a, b in zip(numbers, numbers[1:]))


def predicted(scratch, plan, *arguments) -> list[dict]:
    return json.loads(scratch.bench().succeed("maestro-dump", plan, "--format", "trace", *arguments).stdout)["traceEvents"]


def executed(scratch, plan, name: str, *arguments, steps: int = STEPS):
    """(metrics' lines, the trace's events, the prediction of the same samples) of a run."""
    out, trace = scratch.path / name, scratch.path / f"{name}.json"
    scratch.bench(600).succeed("maestro-run", plan, "--out", out, "--overwrite", "--trace", trace, "--steps", steps, "--quiet", *arguments)
    return metrics(out), json.loads(trace.read_text())["traceEvents"], predicted(scratch, plan, "--measured", trace)


def sleep_factor(events) -> float:
    return SLEPT_STEP_SECONDS / step_seconds(events)


def asleep(scratch, plan, name: str, factor: float, *arguments, steps: int = STEPS) -> dict:
    """Median seconds of a steady step, executed and simulated, and the share of it that scheduling takes."""
    lines, measured, simulated = executed(scratch, plan, name, "--sleep-kernels", factor, *arguments, steps=steps)
    return {"executed": step_seconds(measured), "simulated": step_seconds(simulated), "idle": idle_shares(measured),
            "simulated idle": idle_shares(simulated),
            "scheduling": statistics.median(line["schedule_seconds"] / line["step_seconds"] for line in lines[1:])}


def planned_and_static(job: Job) -> tuple[pathlib.Path, pathlib.Path]:
    """The planner's layout, and the baseline."""
    plan = job.plan()
    return plan, static_split(job, plan)


def both_asleep(scratch, plans, each=map) -> tuple[dict, dict]:
    """The planner's layout asleep, and the static split in file order, at the same factor; one after the other, unless `each` is another map."""
    factor = sleep_factor(predicted(scratch, plans[0]))
    return tuple(each(lambda plan, flags: asleep(scratch, plan, plan.stem, factor, *flags), plans, ([], ["--file-order"])))


def show_simulated(scratch) -> None:
    print("simulated: a static split in file order, the same split scheduled, and the planner's layout; steps, and against the last")
    for devices in (2, 4, 8, 16, 32, 64):
        plan, static = planned_and_static(mix(scratch, devices))
        file, order, wave = (step_seconds(predicted(scratch, *what)) for what in ((static, "--file-order"), (static,), (plan,)))
        print(f"  {devices:3d} devices   {1e3 * file:7.1f} ms ({file / wave:.2f} x)   {1e3 * order:7.1f} ms ({order / wave:.2f} x)   "
              f"{1e3 * wave:7.1f} ms", flush=True)


def show_asleep(scratch) -> None:
    print("\nasleep: a steady step executed (against its simulation), and the ratio")
    for devices in (2, 4, 8, MOST_EXECUTED):
        wave, file = both_asleep(scratch, planned_and_static(mix(scratch, devices)))
        print(f"  {devices:3d} devices   planned {wave['executed']:.3f} s ({wave['executed'] / wave['simulated'] - 1:+.1%})   "
              f"static split in file order {file['executed']:.3f} s ({file['executed'] / file['simulated'] - 1:+.1%})   "
              f"ratio {file['executed'] / wave['executed']:.2f}, simulated {file['simulated'] / wave['simulated']:.2f}", flush=True)


def distillation(scratch) -> pathlib.Path:
    """The example's teacher on two devices, fast enough for its student on a third."""
    source = scratch.path / "kd.yaml"
    text = (KD / "workload.yaml").read_text()
    for name in ("teacher", "student"):
        text = text.replace(f"model: {name}.onnx", f"model: {KD}/{name}.onnx")
    source.write_text(text)
    return scratch.bench().plan(source, "kd", "--set", "cluster.devices_per_node=3", "--pin", "teacher.devices=0,1", "--pin",
                                "teacher.dp=2", "--pin", "student.devices=2", "--pin", "teacher.micro_batch=4", "--pin",
                                "student.micro_batch=4", "--quiet")


def ahead_and_waiting(scratch, plan, each=map) -> tuple[dict, dict]:
    """The distillation asleep: the teacher running ahead, and waiting at each step's end."""
    factor = sleep_factor(predicted(scratch, plan))
    return tuple(each(lambda name, flags: asleep(scratch, plan, name, factor, *flags, steps=8), ("ahead", "waiting"), ([], ["--wait-for-steps"])))


def show_ahead(scratch) -> None:
    print("\nrun-ahead asleep: a student on a device of its own, a frozen teacher on others")
    for name, found in zip(("running ahead", "waiting at the step's end"), ahead_and_waiting(scratch, distillation(scratch))):
        student = max(found["idle"])
        print(f"  {name:26s} step {found['executed']:.3f} s (simulated {found['simulated']:.3f} s)   student idle "
              f"{found['idle'][student]:.1%} (simulated {found['simulated idle'][student]:.1%})   "
              f"scheduling {found['scheduling']:.2%} of the step", flush=True)


def first_pass(lines) -> float:
    """Mean seconds of the steps after the first, until every shape of the data was seen: what is prepared for new ones included."""
    return statistics.fmean(line["step_seconds"] for line in lines[1:EARNEST_STEPS // 3])


def show_earnest(scratch, pairs: int = 7) -> None:
    """The example's data and workload, on two devices: pairs of runs in turn, so that both meet the same machine. Three passes over the
    data: predictions are of steps whose shapes were all seen, as in the second and third."""
    data = scratch.path / "data"
    subprocess.run([sys.executable, MULTIMODAL / "make_data.py", data], check=True, capture_output=True)
    device = scratch.path / "device.yaml"
    scratch.bench().succeed("maestro-profile", "--device", "cpu", "-o", device)
    plan, static = planned_and_static(Job(scratch, MULTIMODAL / "workload.yaml", 2, device))
    layouts = {"planned": (plan, []), "static split in file order": (static, ["--file-order"])}
    found, first, foreseen = {name: [] for name in layouts}, {name: [] for name in layouts}, {}
    for pair in range(pairs):
        for name, (which, flags) in layouts.items():
            lines, measured, simulated = executed(scratch, which, f"earnest-{pair}-{name[:4]}", "--data", data / "train-*.tar", *flags,
                                                  steps=EARNEST_STEPS)
            found[name].append(step_seconds(measured))
            first[name].append(first_pass(lines))
            foreseen[name] = step_seconds(simulated)
    print(f"\nin earnest on 2 devices: {pairs} pairs of {EARNEST_STEPS} steps; median of the runs' median steady steps")
    for name in layouts:
        print(f"  {name:26s} {1e3 * statistics.median(found[name]):7.1f} ms a step, predicted {1e3 * foreseen[name]:7.1f} ms; "
              f"{1e3 * statistics.median(first[name]):.1f} ms in the first pass")
    planned, static = found.values()
    ratios = sorted(slow / fast for fast, slow in zip(planned, static))
    fast, slow = foreseen.values()
    print(f"  static / planned, by pairs: median {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), "
          f"predicted {slow / fast:.2f}", flush=True)


PARTS = {"simulated": show_simulated, "asleep": show_asleep, "ahead": show_ahead, "earnest": show_earnest}


def main() -> int:
    chosen = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in chosen if name not in PARTS]:
        sys.exit(f"overlap.py: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    scratch = runs.Scratch("overlap")
    for name in chosen:
        PARTS[name](scratch)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
