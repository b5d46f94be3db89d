"""The project's figures besides speed: size, first task, allocations, dispatch, predicted memory, planning.

    .venv/bin/python bench/figures.py [FIGURE…]

Each line says the number, its bound, and what it was measured on. Times are of this machine, idle or not.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "test" / "runs"), str(HERE)]

import runs  # noqa: E402: first, it says where the others are
from planning import measured  # noqa: E402

MIB = 1 << 20


def show(what: str, value: str, bound: str, how: str) -> None:
    print(f"{what:34s} {value:>22s}   {bound:24s} {how}", flush=True)


def size(scratch) -> None:
    done = subprocess.run([sys.executable, ROOT / "test" / "architecture" / "binary_test.py", "size"], text=True,
                          capture_output=True, env=dict(os.environ, MAESTRO_BIN=str(runs.BINARIES)))
    found = done.stdout.split("stripped: ")[-1].split(" bytes")[0]
    show("maestro-run, stripped", f"{found} bytes", "≤ 2,000,000", "with the project's own shared objects")


def first_task(scratch) -> None:
    import start_test

    for name, arguments in start_test.CASES.items():
        found = start_test.measure(scratch, name, arguments)
        show(f"first task, {name}", f"{statistics.median(found):.1f} ms", "≤ 50 ms",
             f"start of the process to the first kernel, median of {len(found)}; best {min(found):.1f}")


def allocations(scratch) -> None:
    import allocations_test

    library = runs.BINARIES.parent / "test" / "libcount_allocations.so"
    for name in ("synthetic", "lengths"):
        counted, first, steps = allocations_test.counts(scratch, library, name)
        own = [sum(counted[step][owner] for owner in ("program", "archive", "other")) for step in range(first, steps + 1)]
        inside = statistics.median(counted[step]["onednn"] for step in range(first, steps + 1))
        show(f"allocations a step, {name}", f"{max(own)}", "0", f"steps {first} to {steps}, largest; inside oneDNN {inside:.0f}, "
             f"inside OpenMP {max(counted[step]['openmp'] for step in range(first, steps + 1))}")


def between_kernels(events):
    """Seconds between each kernel's end and the next one's start, of kernels that follow each other in one task."""
    tasks = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") == "task")
    inside = {}
    for event in events:
        at = bisect.bisect_right(tasks, (event["ts"] + event["dur"] / 2, float("inf"))) - 1 if event.get("cat") == "kernel" else -1
        if at >= 0 and event["ts"] + event["dur"] / 2 <= tasks[at][1]:
            inside.setdefault(at, []).append((event["ts"], event["ts"] + event["dur"]))
    return [(after[0] - before[1]) * 1e-6 for spans in inside.values() for before, after in zip(sorted(spans), sorted(spans)[1:])]


def dispatch(scratch) -> None:
    import memory_test
    from tools import metrics

    for name in ("gpt2_logits", "llama_5m"):
        bench, case = scratch.bench(), runs.zoo_case(name)
        plan = bench.plan(memory_test.source(case, scratch.path), f"dispatch-{name}", *memory_test.settings(case, "f32"))
        out, trace = scratch.path / f"dispatch-{name}", scratch.path / "dispatch.json"
        bench.succeed("maestro-run", plan, "--out", out, "--steps", 20, "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        gaps = between_kernels(events)
        lines = metrics(out)
        whole = statistics.median(line["step_seconds"] - sum(s["busy"] for s in line["sections"].values()) for line in lines[2:])
        show(f"dispatch, {name}", f"{1e9 * statistics.fmean(gaps):.0f} ns a call", "≤ 1,000 ns",
             f"between a task's kernels, mean of {len(gaps)}, median {1e9 * statistics.median(gaps):.0f}; clock readings of the trace included; "
             f"data, hand-overs and metrics {1e6 * whole:.0f} µs a step")


def memory(scratch) -> None:
    import memory_test

    for name in ("vit_logits f32", "llama_5m f32", "llama_55m bf16"):
        predicted, used = memory_test.measure(scratch, *name.split())
        show(f"predicted memory, {name}", f"{predicted / MIB:.0f} of {used / MIB:.0f} MiB", "used ≤ it ≤ 1.03 × + 64",
             f"{(predicted - used) / MIB:+.1f} MiB at the bounds")


# 32 layers, grouped heads, 8.0e9 parameters: exported on the meta device, so that no weight is ever made.
LLAMA_8B = dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                num_key_value_heads=8, max_position_embeddings=8192, bos_token_id=0, eos_token_id=0)


def plan_8b(scratch, repeats=3):
    """(best seconds, peak bytes) of planning; the export is kept beside the others."""
    import export
    import zoo

    fields = {"input_ids": zoo.Field(("batch", "seq"), "ids", 128256), "labels": zoo.Field(("batch", "seq"), "ids", 128256)}
    case = zoo.Case("llama_8b", "bench", zoo.causal_lm("LlamaConfig", "LlamaForCausalLM", False, False, **LLAMA_8B), fields,
                    ("input_ids",), ("logits",), zoo.cross_entropy)
    graph = export.export_variant(case, "meta", export.models_folder())
    found = []
    for _ in range(repeats):
        status, seconds, _, peak, said = measured([runs.BINARIES / "maestro-plan", graph, "-o", scratch.path / "llama_8b.mpl", "--quiet"])
        if status != 0:
            raise RuntimeError(f"maestro-plan ended with {status}: {said}")
        found.append((seconds, peak))
    return min(seconds for seconds, _ in found), max(peak for _, peak in found)


def planning(scratch) -> None:
    seconds, peak = plan_8b(scratch)
    show("planning a weightless Llama 8B", f"{seconds:.2f} s, {peak / MIB:.0f} MiB", "≤ 5 s, 1 GB", "32 layers, best of 3")


FIGURES = {"size": size, "first_task": first_task, "allocations": allocations, "dispatch": dispatch, "memory": memory,
           "planning": planning}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(FIGURES)}; default: all")
    chosen = parser.parse_args().figures or FIGURES
    unknown = sorted(set(chosen) - set(FIGURES))
    if unknown:
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    with tempfile.TemporaryDirectory(prefix="maestro-figures-") as folder:
        scratch = runs.Scratch("figures", pathlib.Path(folder))
        for name in chosen:
            FIGURES[name](scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
