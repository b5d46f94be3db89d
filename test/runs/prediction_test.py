"""With this machine's profile, which has the calls of these examples' plans, the predicted step of an example is within a factor 2 of the processor time that it takes, on one device
of one thread: other programs on the machine change that least. The plan says what the search compared.
"""

import os
import re
import sys

import runs  # First: it says where the others are.

import predictions

FACTOR = 2
CASES = {"gpt": ("one of two devices",), "kd": ("one of two devices",)}


def judge(scratch, example, layout, device):
    plan = predictions.planned(scratch, example, layout, device)
    few, many = (predictions.timed_run(scratch, example, plan, steps).processor for steps in (example.first, example.first + example.steps))
    predicted, took = predictions.predicted_seconds(scratch, plan), (many - few) / example.steps
    scratch.check(f"{example.name}, {layout}", 1 / FACTOR <= predicted / took <= FACTOR,
                  f"predicted {predicted * 1e3:.2f} ms, processor time {took * 1e3:.2f} ms, ratio {predicted / took:.2f}")


def judge_base(scratch, plan, device):
    """Calls alone are measured anew; what is no profile of this machine is refused by name."""
    again = scratch.path / "again.yaml"
    scratch.bench().succeed("maestro-profile", plan, "--base", device, "-o", again, "--seconds", 0.003)
    before, after = (path.read_text().splitlines() for path in (device, again))
    others = [[line for line in lines if "calls: [" not in line] for lines in (before, after)]
    scratch.check("a profile with a base has the base's rates and curves", others[0] == others[1])
    scratch.check("and calls of its own", set(after) - set(before) != set() and all("calls: [" in line for line in set(after) - set(before)))
    alien = scratch.path / "alien.yaml"
    alien.write_text("\n".join("name: \"another\"" if line.startswith("name:") else line for line in before) + "\n")
    for what, base, said in (("a plan", plan, "is no profile"), ("another processor's", alien, "another processor")):
        refused = scratch.bench().command("maestro-profile", plan, "--base", base, "-o", scratch.path / "none.yaml")
        scratch.check(f"{what} as a base is refused by name", refused.returncode == 1 and str(base) in refused.stderr and said in refused.stderr and
                      not (scratch.path / "none.yaml").exists(), refused.stderr.strip())


def main() -> int:
    scratch = runs.Scratch("prediction")
    plans = [predictions.called(scratch, predictions.EXAMPLES[name]) for name in CASES]
    device = predictions.profile(scratch, "--seconds", 0.003, *plans)
    lines = device.read_text().splitlines()
    products = "native" if runs.multiplies_bf16() else "widened"
    scratch.check(f"the profile says of the processor's bf16: {products}", f"bf16_products: {products}" in lines)
    for kernel in ("matmul", "matmul transposed", "attention_grad causal", "layer_norm", "layer_norm_grad", "gelu tanh", "add", "gather", "cross_entropy_grad"):
        for threads in {1, os.cpu_count()}:
            scratch.check(f"the profile has calls of {kernel} with {threads} threads",
                          any(line.startswith(f"  - {{kernel: {kernel}, threads: {threads}, calls: [[") for line in lines))
    rates = next(line for line in lines if line.startswith("  - {threads: 1, "))
    together = float(re.search(r"together: ([0-9.]+)", rates).group(1))
    scratch.check("devices at work are compared by the plans' programs", 1 < together < 2 if os.cpu_count() > 1 else together == 1, rates)
    update = float(re.search(r"update: ([0-9.]+)", rates).group(1))
    scratch.check("updates are timed in the plans' programs", 0.1 < update < 10 and update != 1, rates)
    host = float(re.search(r"host: ([0-9.e+]+) us", rates).group(1))
    scratch.check("a job's own threads take some of each step", 50 < host < 100_000, rates)
    refused = scratch.bench().command("maestro-profile", plans[0], "--data", scratch.path / "none-*.tar", "-o", scratch.path / "none.yaml")
    scratch.check("data that is not there is refused by name, before anything is measured", refused.returncode == 1 and "none-*.tar" in refused.stderr and
                  not (scratch.path / "none.yaml").exists(), refused.stderr.strip())
    refused = scratch.bench().command("maestro-profile", "-o", scratch.path / "none.yaml", device)
    scratch.check("what is no plan is refused by name", refused.returncode == 1 and str(device) in refused.stderr and "none.yaml" not in
                  {path.name for path in scratch.path.iterdir()}, refused.stderr.strip())
    judge_base(scratch, plans[0], device)
    for name, layouts in CASES.items():
        for layout in layouts:
            judge(scratch, predictions.EXAMPLES[name], layout, device)
    plan = predictions.planned(scratch, predictions.EXAMPLES["kd"], "as searched", device)
    layouts = {candidate["subject"] for candidate in runs.summary(scratch.bench(), plan)["candidates"] if candidate["kind"] == "Layout"}
    baselines = {"all data parallel", "one layout for all", "static split"}
    compared = baselines & layouts
    scratch.check("the plan keeps the comparison with every baseline", compared == baselines, ", ".join(sorted(compared)))
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
