"""Predicted memory is never under what a step uses at the dims' bounds, and at most 3 % + 64 MiB over.

Synthetic samples of the largest size, full micro-batches, a checkpoint saved in between. What is used is the process's
VmHWM, libraries included. Where ranks are processes, each has a prediction of its own.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import runs  # First: it says where the others are.

import compare_pytorch
from tools import ToolFailure, metrics

MIB = 1 << 20
LENGTH = 64
# Models of test/models and bench/, with the precision and more arguments of maestro-plan; and how many samples a micro-batch holds.
SMALL = ["gpt2_logits f32", "llama_logits bf16", "vit_logits f32", "bert_mask f32", "t5_logits bf16", "convnet_logits f32"]
LARGE = ["llama_5m f32", "llama_55m bf16 --pin *.loss_chunks=8"]

LENGTHS = """\
components: {{gpt2_logits: {{model: {graph}}}}}
dims: {{batch: {{combine: sum, max: 1}}, seq: {{combine: max, max: 100}}}}
synthetic: {{seq: "uniform(1, 100)"}}
train: {{global_batch: 8}}
"""


def settings(case, precision):
    """A sample is one row, and every other dim is as long as it may be."""
    dims = {dim for field in case.fields.values() for dim in field.dims if isinstance(dim, str)}
    largest = compare_pytorch.SEQUENCE if case.name in compare_pytorch.SETTINGS else LENGTH
    pairs = {f"dims.{dim}.max": 1 if dim == "batch" else largest for dim in dims}
    pairs |= {"train.global_batch": 8, "train.precision": precision}
    return [argument for key, value in pairs.items() for argument in ("--set", f"{key}={value}")]


def source(case, folder):
    """Where the loss is not in the graph, labels as long as the logits; the benchmark's models have a workload file."""
    graph = runs.exported(case)
    if case.name not in compare_pytorch.SETTINGS:
        return graph
    path = folder / f"{case.name}.yaml"
    path.write_text(compare_pytorch.WORKLOAD.format(name=case.name, graph=graph, sequence=compare_pytorch.SEQUENCE,
                                                    batch=8, dtype="f32"))
    return path


def device(scratch):
    """A device file that says whether this processor multiplies bf16: else copies of products' operands in f32 are counted."""
    path = scratch.path / "device.yaml"
    path.write_text(f"kind: cpu\nbf16_products: {'native' if runs.multiplies_bf16() else 'widened'}\n"
                    f"rates: [{{threads: {os.cpu_count()}, arithmetic: 100 GFLOP/s, operands: 10 GB/s}}]\n")
    return path


def measure(scratch, name, precision, *arguments):
    """(predicted, used) of a short run, before it saves."""
    bench = scratch.bench()
    case = runs.zoo_case(name)
    label = "-".join([name, precision, *(argument for argument in arguments if "=" in argument)])
    if precision == "bf16":
        arguments = (*arguments, "--set", f"cluster.device={device(scratch)}")
    plan = bench.plan(source(case, scratch.path), label, *settings(case, precision), "--pin", "*.micro_batch=4", *arguments)
    out = scratch.path / f"{label}-run"
    bench.succeed("maestro-run", plan, "--out", out, "--steps", 3)
    return runs.summary(bench, plan)["executables"][0]["peak_bytes"], max(line["peak_bytes"] for line in metrics(out))


def copies(scratch):
    """A checkpoint that is written behind the steps takes a copy of itself, once, and no more."""
    bench = scratch.bench()
    plan = bench.plan(source(runs.zoo_case("llama_5m"), scratch.path), "copies", *settings(runs.zoo_case("llama_5m"), "f32"),
                      "--pin", "*.micro_batch=4")
    used = []
    for name, every in (("never", []), ("often", ["--save-every", 1])):
        bench.succeed("maestro-run", plan, "--out", f"copies-{name}", "--steps", 4, *every)
        used.append(max(line["peak_bytes"] for line in metrics(scratch.path / f"copies-{name}")))
    checkpoint = sum(file.stat().st_size for file in (scratch.path / "copies-often" / "checkpoint-000004").iterdir())
    scratch.check("a copy of a checkpoint", used[1] <= used[0] + checkpoint + 4 * MIB,
                  f"used {used[0] / MIB:.1f} MiB, {used[1] / MIB:.1f} with checkpoints of {checkpoint / MIB:.1f}")


def lengths(scratch):
    """Programs are kept for some shapes only: a hundred different lengths stay within the prediction."""
    bench = scratch.bench()
    path = scratch.path / "lengths.yaml"
    path.write_text(LENGTHS.format(graph=runs.exported(runs.zoo_case("gpt2_logits"))))
    plan = bench.plan(path, "lengths", "--pin", "*.micro_batch=1")
    out = scratch.path / "lengths-run"
    bench.succeed("maestro-run", plan, "--out", out, "--steps", 40)
    predicted = runs.summary(bench, plan)["executables"][0]["peak_bytes"]
    used = [line["peak_bytes"] for line in metrics(out)]
    scratch.check("lengths", used[-1] <= predicted and used[-1] > used[0] + 4 * MIB,
                  f"predicted {predicted / MIB:.1f} MiB, used {used[0] / MIB:.1f} at first, {used[-1] / MIB:.1f} in the end")


def capacities(scratch):
    """A micro-batch has room for the rows that its samples have typically, and for one sample's most: memory shrinks with it."""
    bench, case, peaks = scratch.bench(), runs.zoo_case("llava_logits"), []
    path = scratch.path / "capacity.yaml"
    path.write_text(case.workload.replace("{model}", str(runs.exported(case))) + 'synthetic: {images: "uniform(0, 3)"}\n')
    for samples, images in ((1, 3), (2, 4), (8, 16)):
        plan = runs.summary(bench, bench.plan(path, f"capacity-{samples}", "--pin", f"*.micro_batch={samples}"))
        names = [symbol["name"] for symbol in plan["symbols"]]
        for executable in plan["executables"]:
            rows = {names[bound["symbol"]]: bound["value"] for bound in executable["bounds"]}
            scratch.check(f"capacity of {executable['name']} with {samples} samples",
                          rows["batch"] == samples and images <= rows["images"] <= images + 1, f"{rows}")
        peaks.append(max(executable["peak_bytes"] for executable in plan["executables"]))
    scratch.check("memory shrinks with the micro-batch", peaks == sorted(set(peaks)), f"{[peak >> 20 for peak in peaks]} MiB")


# ---- several devices ----------------------------------------------------------------------------------------------

DISTIL = """\
components: {{teacher: {{model: {graph}, frozen: true}}, student: {{model: {graph}}}}}
dims: {{batch: {{max: 1}}, seq: {{max: {sequence}}}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, labels: labels, weight: 0.5}}
train: {{global_batch: 16}}
"""
IMAGES = """\
components: {{vision: {{model: {vision}}}, language: {{model: {language}}}}}
edges: [vision.image_features -> language.image_features]
dims: {{batch: {{max: 1}}, seq: {{max: 256}}, images: {{max: 3}}}}
loss: [{{cross_entropy: {{logits: language.logits, labels: labels}}}}]
synthetic: {{images: 3}}
train: {{global_batch: 16}}
"""
# Micro-batches of one sample are full, so that a step is at the bounds. Of more samples the schedule makes smaller ones where that
# is faster, and some of what is reserved is never touched.
DISTIL_LAYOUTS = {
    "a device each": (2, "teacher.devices=0 student.devices=1 *.micro_batch=1"),
    "colocated on two": (2, "teacher.dp=2 student.dp=2 *.micro_batch=1"),
    "stages beside the teacher": (2, "student.stages=2 teacher.devices=0 *.micro_batch=1"),
    "unequal micro-batches": (2, "teacher.devices=0 teacher.micro_batch=2 student.dp=2 student.micro_batch=4"),
}
IMAGES_LAYOUTS = {
    "colocated": (1, "*.micro_batch=1"),
    "language in two stages": (3, "vision.devices=0 language.devices=1,2 language.stages=2 *.micro_batch=1"),
    "unequal micro-batches": (3, "vision.devices=0 vision.micro_batch=8 language.devices=1,2 language.stages=2 language.micro_batch=2"),
}


def status(pid):
    """Name, VmHWM and RssShmem of a process; nothing once it has ended."""
    try:
        lines = (line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return None
    values = {key: value.split() for key, value in lines}
    if "VmHWM" not in values or "RssShmem" not in values:
        return None
    return " ".join(values["Name"]), int(values["VmHWM"][0]) << 10, int(values["RssShmem"][0]) << 10


def mapping(pid):
    """Bytes that the ranks share: rings, gradients that are added up, their staging."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return 0
    ranges = [line.split()[0].split("-") for line in lines if line.split()[1].endswith("s") and "/dev/zero" in line]
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges)


def ranks(bench, plan, table):
    """What the process of each rank that has work holds at its peak for itself, by rank, and what they share, while the plan runs."""
    working = sorted({rank for station in table["stations"] for rank in station["ranks"]})
    command = [bench.binaries / "maestro-run", plan, "--steps", "4", "--ranks", "processes", "--quiet"]
    peaks, common, shared = {}, {}, 0
    with open(bench.scratch / "run.log", "w") as log:
        root = subprocess.Popen(command, cwd=bench.scratch, stdout=log, stderr=log, env=dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive"))
        while root.poll() is None:
            tasks = pathlib.Path(f"/proc/{root.pid}/task").glob("*/children")
            try:
                children = [pid for task in tasks for pid in task.read_text().split()]
            except OSError:
                children = []
            for pid in [root.pid, *children]:
                if found := status(pid):
                    peaks[found[0]] = max(peaks.get(found[0], 0), found[1])
                    common[found[0]] = max(common.get(found[0], 0), found[2])
            shared = max(shared, mapping(root.pid))
            time.sleep(0.02)
    if root.returncode != 0:
        raise ToolFailure((bench.scratch / "run.log").read_text()[-1500:])
    private = {name: peak - common[name] for name, peak in peaks.items()}
    roots = [rank for rank in working if f"rank {rank}" not in private]
    if len(roots) != 1:
        raise ToolFailure(f"processes seen: {sorted(private)}, of ranks {working}")
    return {rank: private["maestro-run" if rank in roots else f"rank {rank}"] for rank in working}, shared


def owned(plan, rank):
    """Shared bytes that are a rank's own: the rings that end in it, and gradients to which other ranks add."""
    stations = [station for station in plan["stations"] if station["ranks"] == [rank]]
    bytes = 0
    for station in stations:
        executable = plan["executables"][station["executable"]]
        others = [other for other in plan["stations"] if other is not station and other["executable"] == station["executable"]]
        for region in executable["regions"]:
            isShared = region["kind"] == "Channel" or (region["kind"] == "Gradients" and bool(others))
            bytes += region["bytes"] * region["copies"] * isShared
    return bytes


def rank_memory(bench, plan):
    """(predicted, used) of each rank that has work. A rank's memory is its process's own, and its part of the shared mapping: rings that
    end in it, gradients to which others add, and an equal share of the rest, which is where gradients are staged."""
    table = runs.summary(bench, plan)
    private, shared = ranks(bench, plan, table)
    rings = {rank: owned(table, rank) for rank in private}
    rest = (shared - sum(rings.values())) // len(private)
    return [(table["ranks"][rank]["peak_bytes"], own + rings[rank] + rest) for rank, own in private.items()]


def devices(scratch, name, source, layouts):
    bench = scratch.bench()
    for layout, (count, pins) in layouts.items():
        arguments = [word for pin in pins.split() for word in ("--pin", pin)]
        label = f"{name}, {layout}".replace(" ", "-")
        plan = bench.plan(source, label, "--set", f"cluster.devices_per_node={count}", *arguments)
        found = rank_memory(bench, plan)
        for rank, (predicted, used) in enumerate(found):
            what = f"{name}, {layout}, device {rank}"
            if "*.micro_batch=1" in pins:
                judge(scratch, what, predicted, used)
            else:
                scratch.check(what, used <= predicted, f"predicted {predicted / MIB:.1f} MiB, used {used / MIB:.1f}")
        predicted, used = map(sum, zip(*found))
        scratch.check(f"{name}, {layout}, together", used <= predicted, f"predicted {predicted / MIB:.1f} MiB, used {used / MIB:.1f}")


def compound(scratch):
    path = scratch.path / "distil.yaml"
    path.write_text(DISTIL.format(graph=runs.exported(runs.zoo_case("llama_5m")), sequence=compare_pytorch.SEQUENCE))
    devices(scratch, "distillation", path, DISTIL_LAYOUTS)
    path = scratch.path / "images.yaml"
    path.write_text(IMAGES.format(vision=runs.exported(runs.zoo_case("llava_vision")),
                                  language=runs.exported(runs.zoo_case("llava_language"))))
    devices(scratch, "images", path, IMAGES_LAYOUTS)


def judge(scratch, what, predicted, used):
    most = 1.03 * used + 64 * MIB
    scratch.check(what, used <= predicted <= most, f"predicted {predicted / MIB:.1f} MiB, used {used / MIB:.1f}, "
                  f"{(predicted - used) / MIB:+.1f}; at most {most / MIB:.1f}")


def main() -> int:
    scratch = runs.Scratch("memory")
    for case in sys.argv[1:] or SMALL + LARGE:
        judge(scratch, case, *measure(scratch, *case.split()))
    copies(scratch)
    lengths(scratch)
    capacities(scratch)
    compound(scratch)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
