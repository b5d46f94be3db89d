"""What TensorBoard reads of a run, one that was stopped and resumed included, is what metrics.jsonl says."""

from __future__ import annotations

import math
import sys

import runs  # First: it says where the others are.

sys.path.insert(0, str(runs.HERE.parent / "cli"))

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import good
from tools import metrics


def compare(scratch, what, folder):
    lines = metrics(folder)
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    wanted = {"loss": lambda line: line["loss"], "grad_norm": lambda line: line["grad_norm"], "lr": lambda line: line["lr"],
              "tokens_seen": lambda line: line["tokens_seen"], "step_seconds": lambda line: line["step_seconds"],
              **{f"losses/{name}": lambda line, name=name: line["losses"][name] for name in lines[0]["losses"]}}
    tags = set(events.Tags()["scalars"])
    validated = [line for line in lines if "validation" in line]
    wrong = sorted((set(wanted) | {"tokens_per_second"} | ({"validation/loss"} if validated else set())) - tags)
    for tag, value in wanted.items():
        found = [(event.step, event.value, event.wall_time) for event in (events.Scalars(tag) if tag in tags else [])]
        expected = [(line["step"], value(line), line["time"]) for line in lines]
        if len(found) != len(expected) or any(a[0] != b[0] or not math.isclose(a[1], b[1], rel_tol=1e-6) or abs(a[2] - b[2]) > 0.01
                                              for a, b in zip(found, expected)):
            wrong.append(f"{tag}: {found[:3]} {expected[:3]} {len(found)} {len(expected)}")
    if validated and [event.step for event in events.Scalars("validation/loss")] != [line["step"] for line in validated]:
        wrong.append("validation's steps")
    tokens = [line["tokens"] for line in lines]
    seen = [line["tokens_seen"] for line in lines]
    if seen != [sum(tokens[:count]) for count in range(1, len(tokens) + 1)]:
        wrong.append(f"tokens_seen {seen}, of {tokens}")
    scratch.check(what, not wrong, f"{wrong}" if wrong else "")


def main() -> int:
    scratch = runs.Scratch("tensorboard")
    bench = scratch.bench()
    good.write_all(scratch.path)
    plan = bench.plan(scratch.path / "workload.yaml", "plan")
    common = [plan, "--data", "shard.tar", "--out", "run", "--quiet", "--tensorboard"]
    bench.succeed("maestro-run", *common, "--steps", 5, "--save-every", 2, "--validate", "shard.tar", "--validate-every", 2)
    compare(scratch, "a run", scratch.path / "run")
    # As if it had been killed behind step 4: the steps after it are done again.
    for file in (scratch.path / "run" / "checkpoint-000005").iterdir():
        file.unlink()
    (scratch.path / "run" / "checkpoint-000005").rmdir()
    bench.succeed("maestro-run", *common, "--steps", 8, "--resume")
    compare(scratch, "resumed, with steps done again", scratch.path / "run")
    bench.succeed("maestro-run", *common, "--steps", 3, "--overwrite")
    compare(scratch, "in the place of an older run", scratch.path / "run")
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
