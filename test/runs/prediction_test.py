"""With this machine's profile, the predicted step of a small distillation is within a factor 2 of what its tasks take when
nothing disturbs them: on one device of one thread, where other programs on the machine change that time least. The plan says what
the search compared.
"""

import sys

import runs  # First: it says where the others are.

import predictions

FACTOR = 2


def main() -> int:
    scratch = runs.Scratch("prediction")
    source, device = predictions.workload(scratch), predictions.profile(scratch, "--seconds", 0.01)
    for name in ("one device", "one device, micro-batches of 1"):
        found = predictions.measure(scratch, source, device, name)
        ratio = found["predicted"] / found["quiet"]
        scratch.check(name, 1 / FACTOR <= ratio <= FACTOR,
                      f"predicted {found['predicted'] * 1e3:.2f} ms, {found['quiet'] * 1e3:.2f} ms undisturbed, ratio {ratio:.2f}")
    plan = predictions.planned(scratch, source, device, "as searched")
    layouts = {candidate["subject"] for candidate in runs.summary(scratch.bench(), plan)["candidates"] if candidate["kind"] == "Layout"}
    baselines = {"all data parallel", "one layout for all", "static split"}
    compared = baselines & layouts
    scratch.check("the plan keeps the comparison with every baseline", compared == baselines, ", ".join(sorted(compared)))
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
