"""Once a run has seen its shapes, its steps allocate nothing: data loading, grouping, kernels, metrics and progress.

Heap allocations are counted per step by libcount_allocations.so (LD_PRELOAD), whoever makes them and on whichever thread, of all
ranks;
what oneDNN and OpenMP do inside their own calls is counted apart and only printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import runs
import shards

# name: (case, arguments of maestro-plan, arguments of maestro-run, samples in shards or None for synthetic ones, the
# step from which on nothing may be allocated, steps). In shards, three batches make a pass, and passes repeat them.
CASES = {
    "synthetic": ("llama_logits", ["--set", "train.precision=bf16"], [], None, 13, 20),
    "lengths": ("gpt2_logits", [], [], 20, 13, 24),
    "images": ("vit_logits", [], ["--shuffle"], 20, 13, 24),
    "masks": ("t5_logits", [], ["--save-every", "100"], 20, 13, 24),
    "dropout": ("mlp_dropout", [], ["--log-format", "json"], 20, 13, 24),
    "convolutions": ("convnet_logits", [], [], 20, 13, 24),
    # Several devices: rings between sections and between stages, sums of gradients, collectives inside programs. Batches and
    # schedules take turns in four places, so that three batches repeat after twelve steps, and ranks run ahead by two.
    "channels": ("gpt2_logits", ["--pin", "teacher.devices=0", "--pin", "student.devices=1"], [], 20, 17, 28),
    "stages": ("gpt2_logits", ["--pin", "*.stages=2", "--pin", "*.split_backward=all"], [], 20, 17, 28),
    "sums": ("gpt2_logits", ["--pin", "*.dp=2"], [], 20, 17, 28),
    "groups": ("gpt2_logits", ["--pin", "*.tensor=2"], [], 20, 17, 28),
}
SEVERAL_DEVICES = {"channels", "stages", "sums", "groups"}
DISTILLATION = """\
components: {{teacher: {{model: {model}, frozen: true}}, student: {{model: {model}}}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, temperature: 2.0, labels: labels, weight: 0.5}}
"""
USE_ONEDNN = {"images", "convolutions"}  # Convolutions; small products are loops of our own, in bf16 on some processors.


def counts(scratch, library, name):
    """Allocations by step and owner; the step from which on there should be none; the number of steps."""
    case_name, plan_arguments, run_arguments, size, first, steps = CASES[name]
    case = runs.zoo_case(case_name)
    bench = scratch.bench()
    model = runs.exported(case)
    if name == "channels":
        workload = scratch.path / f"{name}.yaml"
        workload.write_text(DISTILLATION.format(model=model))
        model = workload
    devices = ["--set", "cluster.devices_per_node=2"] if name in SEVERAL_DEVICES else []
    plan = bench.plan(model, name, "--set", "train.global_batch=8", "--pin", "*.micro_batch=3", *devices, *plan_arguments)
    if size:
        samples = shards.make_samples(case, size, seed=5)
        run_arguments = ["--data", shards.write_shards(samples, scratch.path / f"{name}-data"), *run_arguments]
    report = scratch.path / f"{name}.jsonl"
    environment = dict(os.environ, OMP_NUM_THREADS="2", LD_PRELOAD=str(library), MAESTRO_ALLOCATIONS=str(report))
    line = [runs.BINARIES / "maestro-run", plan, "--out", scratch.path / name, "--steps", str(steps), *run_arguments]
    done = subprocess.run(list(map(str, line)), capture_output=True, text=True, env=environment, timeout=200)
    if done.returncode != 0:
        raise RuntimeError(f"maestro-run ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    lines = [json.loads(text) for text in report.read_text().splitlines()]
    return {entry["step"]: entry for entry in lines}, first, steps


def judge(scratch, library, name):
    counted, first, steps = counts(scratch, library, name)
    # The counter itself: oneDNN allocates at every step where it is used, and new lengths need programs prepared.
    second = counted.get(2, {"onednn": 0, "program": 0})
    alive = second["onednn"] > 0 if name in USE_ONEDNN else second["program"] > (100 if name == "lengths" else 0)
    scratch.check(f"{name} counts", sorted(counted) == list(range(2, steps + 1)) and alive, "" if alive else f"{counted}")
    allocating = [entry for step, entry in counted.items() if step >= first and entry["program"] + entry["archive"]
                  + entry["other"] > 0]
    last = counted[steps]
    scratch.check(f"{name} allocates nothing from step {first}", not allocating, f"{allocating[:4]}" if allocating else
                  f"inside oneDNN {last['onednn']} and OpenMP {last['openmp']} a step")


def main() -> int:
    scratch = runs.Scratch("allocations")
    for name in sys.argv[2:] or CASES:
        judge(scratch, sys.argv[1], name)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
