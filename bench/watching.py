"""What watching a run costs its steps: TensorBoard's files, validation, and keeping the best checkpoint, in turn with runs that do nothing of it.

Prints medians over the rounds of the median step with it less the median step without, in milliseconds, of short steps: beside long
ones it is lost in the machine's noise. A kept checkpoint's bytes are written behind the steps.
"""

from __future__ import annotations

import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "runs"))

import runs  # noqa: E402: first, it says where the others are
import shards  # noqa: E402
from tools import metrics  # noqa: E402

STEPS, EVERY, ROUNDS = 60, 6, 60
SAMPLES = 8  # Of a step, and of the data to validate over.
WORKLOAD = """\
components: {{model: {{model: {graph}}}}}
dims: {{batch: {{max: 8}}, seq: {{max: 256}}}}
loss: [{{cross_entropy: {{logits: model.logits, labels: labels}}}}]
train: {{global_batch: 8}}
"""


def main() -> int:
    scratch = runs.Scratch("watching")
    case = runs.zoo_case(sys.argv[1] if len(sys.argv) > 1 else "llama_logits")
    data = shards.write_shards(shards.make_samples(case, SAMPLES, 7), scratch.path / "data")
    workload = scratch.path / "workload.yaml"
    workload.write_text(WORKLOAD.format(graph=runs.exported(case)))
    plan = scratch.bench().plan(workload, "plan", "--pin", "*.micro_batch=8")
    validate = ["--validate", data, "--validate-every", EVERY]
    kinds = {
        "plain": [],
        "--tensorboard": ["--tensorboard"],
        f"--validate-every {EVERY}": validate,
        f"--validate-every {EVERY} --keep-best loss": [*validate, "--save-every", EVERY, "--keep-best", "loss"],
    }
    steps: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, words in kinds.items():
            scratch.bench().succeed("maestro-run", plan, "--out", "run", "--overwrite", "--steps", STEPS, "--quiet", "--data", data, *words)
            steps[kind].append(statistics.median(line["step_seconds"] for line in metrics(scratch.path / "run")[2:]))
    print(f"a step of {1e3 * statistics.median(steps['plain']):.1f} ms; {ROUNDS} rounds of {STEPS} steps")
    for kind in list(kinds)[1:]:
        more = [own - plain for own, plain in zip(steps[kind], steps["plain"], strict=True)]
        print(f"{kind}: {1e3 * statistics.median(more):+.2f} ms a step (half of the rounds: {1e3 * statistics.quantiles(more)[0]:+.2f} to {1e3 * statistics.quantiles(more)[2]:+.2f})")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
