"""What checkpoints cost the steps behind which they are written: whole runs that save and that do not, in turn.

Prints the medians of both, the copy, and the time that a checkpoint takes to be whole.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "runs"))

import runs  # noqa: E402: first, it says where the others are
from tools import metrics  # noqa: E402

STEPS, EVERY, PAIRS = 24, 8, 5
WORKLOAD = """\
components: {{model: {{model: {graph}}}}}
dims: {{batch: {{max: 8}}, seq: {{max: 256}}}}
loss: [{{cross_entropy: {{logits: model.logits, labels: labels}}}}]
train: {{global_batch: 8}}
"""


def run(scratch, plan, name: str, *arguments) -> tuple[list[float], float]:
    """Seconds of each step after the first, and of the whole command."""
    began = time.monotonic()
    scratch.bench().succeed("maestro-run", plan, "--out", name, "--steps", STEPS, "--quiet", *arguments)
    return [line["step_seconds"] for line in metrics(scratch.path / name)][1:], time.monotonic() - began


def main() -> int:
    scratch = runs.Scratch("saving")
    workload = scratch.path / "workload.yaml"
    workload.write_text(WORKLOAD.format(graph=runs.exported(runs.zoo_case(sys.argv[1] if len(sys.argv) > 1 else "llama_5m"))))
    plan = scratch.bench().plan(workload, "plan", "--pin", "*.micro_batch=8")
    without, behind, walls = [], [], []
    for pair in range(PAIRS):
        plain, wall = run(scratch, plan, f"plain-{pair}")
        saving, wall_saving = run(scratch, plan, f"saving-{pair}", "--save-every", EVERY)
        # The first of these is step 2; a checkpoint is written behind the steps after EVERY, 2 · EVERY, …
        rest = [seconds for step, seconds in enumerate(plain, 2) if step % EVERY == 1]
        after = [seconds for step, seconds in enumerate(saving, 2) if step % EVERY == 1]
        without.append(statistics.median(plain))
        behind.append(statistics.median(after) / statistics.median(rest))
        walls.append((wall_saving - wall) / (STEPS // EVERY - 1))
    newest = max((scratch.path / "saving-0").glob("checkpoint-*"))
    size = sum(file.stat().st_size for file in newest.iterdir())
    print(f"a checkpoint of {size / 2**20:.0f} MiB, a step of {1e3 * statistics.median(without):.0f} ms")
    print(f"the step behind which it is written ÷ the same step of a run that saves at its end: {statistics.median(behind):.3f} "
          f"({min(behind):.3f} to {max(behind):.3f})")
    print(f"the whole command, for each checkpoint more: {1e3 * statistics.median(walls):.0f} ms "
          f"({1e3 * min(walls):.0f} to {1e3 * max(walls):.0f})")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
