"""Predicted memory is never under what a step uses at the dims' bounds, and at most 3 % + 64 MiB over.

Synthetic samples of the largest size, full micro-batches, a checkpoint saved in between. What is used is the process's
VmHWM, libraries included.
"""

from __future__ import annotations

import sys

import runs  # First: it says where the others are.

import compare_pytorch
from tools import metrics

MIB = 1 << 20
LENGTH = 64
# Models of test/models and bench/, with the precision; and how many samples a micro-batch holds.
SMALL = ["gpt2_logits f32", "llama_logits bf16", "vit_logits f32", "bert_mask f32", "bart_logits f32", "t5_logits bf16",
         "convnet_logits f32", "mlp_logits f32"]
LARGE = ["llama_5m f32", "llama_55m f32", "gpt2_55m bf16"]

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


def measure(scratch, name, precision, *arguments):
    """(predicted, used) of a short run."""
    bench = scratch.bench()
    case = runs.zoo_case(name)
    label = "-".join([name, precision, *(argument for argument in arguments if "=" in argument)])
    plan = bench.plan(source(case, scratch.path), label, *settings(case, precision), "--pin", "*.micro_batch=4", *arguments)
    out = scratch.path / f"{label}-run"
    bench.succeed("maestro-run", plan, "--out", out, "--steps", 3, "--save-every", 2)
    return runs.summary(bench, plan)["executables"][0]["peak_bytes"], max(line["peak_bytes"] for line in metrics(out))


def lengths(scratch):
    """Programs are kept for some shapes only: a hundred different lengths stay within the prediction."""
    bench = scratch.bench()
    path = scratch.path / "lengths.yaml"
    path.write_text(LENGTHS.format(graph=runs.exported(runs.zoo_case("gpt2_logits"))))
    plan = bench.plan(path, "lengths", "--pin", "*.micro_batch=1")
    out = scratch.path / "lengths-run"
    bench.succeed("maestro-run", plan, "--out", out, "--steps", 60)
    predicted = runs.summary(bench, plan)["executables"][0]["peak_bytes"]
    used = [line["peak_bytes"] for line in metrics(out)]
    scratch.check("lengths", used[-1] <= predicted and used[-1] > used[0] + 8 * MIB,
                  f"predicted {predicted / MIB:.1f} MiB, used {used[0] / MIB:.1f} at first, {used[-1] / MIB:.1f} in the end")


def capacities(scratch):
    """A micro-batch has room for the rows that its samples have typically, and for one sample's most: memory shrinks with it."""
    bench, case, peaks = scratch.bench(), runs.zoo_case("llava_logits"), []
    path = scratch.path / "capacity.yaml"
    path.write_text(case.workload.format(model=runs.exported(case)) + 'synthetic: {images: "uniform(0, 3)"}\n')
    for samples, images in ((1, 3), (2, 4), (8, 16)):
        plan = runs.summary(bench, bench.plan(path, f"capacity-{samples}", "--pin", f"*.micro_batch={samples}"))
        names = [symbol["name"] for symbol in plan["symbols"]]
        for executable in plan["executables"]:
            rows = {names[bound["symbol"]]: bound["value"] for bound in executable["bounds"]}
            scratch.check(f"capacity of {executable['name']} with {samples} samples",
                          rows["batch"] == samples and images <= rows["images"] <= images + 1, f"{rows}")
        peaks.append(max(executable["peak_bytes"] for executable in plan["executables"]))
    scratch.check("memory shrinks with the micro-batch", peaks == sorted(set(peaks)), f"{[peak >> 20 for peak in peaks]} MiB")


def judge(scratch, what, predicted, used):
    most = 1.03 * used + 64 * MIB
    scratch.check(what, used <= predicted <= most, f"predicted {predicted / MIB:.1f} MiB, used {used / MIB:.1f}, "
                  f"{(predicted - used) / MIB:+.1f}; at most {most / MIB:.1f}")


def main() -> int:
    scratch = runs.Scratch("memory")
    for case in sys.argv[1:] or SMALL + LARGE:
        judge(scratch, case, *measure(scratch, *case.split()))
    lengths(scratch)
    capacities(scratch)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
