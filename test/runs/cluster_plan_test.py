"""A weightless pair of the width of a 70B teacher and an 8B student is planned for 64 and for 1,024 GPUs in 5 s of two processors, and in 1 GB, with its
bound, its gap and the baselines in the plan, none of which is better; and its programs are said to move what their calls do."""

import math
import sys

import runs  # First: it says where the others are.

import planning

sys.path.append(str(runs.HERE.parent.parent / "bench" / "gpu"))
import step  # noqa: E402: found by the line above

DEVICES = (64, 1024)
PROCESSOR_SECONDS = 10  # Two processors for 5 s.
BYTES = 1 << 30
BUSY = 1.5  # A processor whose neighbours work takes so much longer.
LAYERS = 16
BASELINES = {"all data parallel", "one layout for all", "static split"}
PEAK_FLOPS = 989.4e12  # An H100's in bf16, by its data sheet.


def least_seconds(plan, numbers, devices):
    """All devices at work on nothing but products with weights: two operations a weight and token forward, four backward."""
    tokens = plan["training"]["global_batch"] * numbers["sizes.seq.mean"]
    flops = 0
    for parameter in plan["parameters"]:
        if len(parameter["shape"]) == 2 and "embed" not in parameter["name"]:
            flops += (6 if parameter["trainable"] else 2) * math.prod(parameter["shape"]) * tokens
    return flops / (devices * PEAK_FLOPS)


def moved(document):
    """Of the largest micro-batches, by program: what it is said to move, and what its calls read and write."""
    for executable in document["executables"]:
        plan = step.Plan(document, {})
        bounds = {bound["symbol"]: bound["value"] for bound in executable["bounds"]}
        plan.symbols = [bounds.get(symbol, 1) for symbol in range(len(document["symbols"]))]
        for program in executable["programs"]:
            if program["kind"] in ("Evaluate", "Forward", "Backward", "WeightGradient"):
                done = 0
                for call in program["calls"]:
                    inputs, outputs = ([plan.shape(executable, buffer) for buffer in call[which]] for which in ("inputs", "outputs"))
                    done += step.bytes_moved(document["kernels"][call["kernel"]], inputs, outputs)
                yield f"{executable['name']}, {program['kind']}", plan.value(program["memory_bytes"]), done


def judge(scratch, folder, devices):
    def check(what, good, detail=""):
        scratch.check(f"{devices} GPUs, {what}", good, detail)

    found, plan = planning.plan(folder, devices, "h100-sxm")
    check("it is planned", plan is not None, found.get("error", found.get("layout", "")))
    if plan is None:
        return
    check("time", found["processor_seconds"] <= BUSY * PROCESSOR_SECONDS,
          f"{found['processor_seconds']:.2f} s of processors, {PROCESSOR_SECONDS} on a machine of its own ({found['seconds']:.2f} s)")
    check("memory", found["peak"] <= BYTES, f"{found['peak'] / (1 << 20):.0f} MiB")
    numbers = {quantity["name"]: quantity["value"] for quantity in plan["quantities"]}
    rows = [row for row in plan["candidates"] if row["kind"] == "Layout"]
    own, bound = rows[0]["step_seconds"], numbers["search.lower_bound_seconds"]
    check("its bound is a bound", 0 < bound <= own, f"{bound:.3g} s, the step {own:.3g}")
    check("the gap is to the bound", abs(numbers["search.step_seconds"] / bound - 1 - numbers["search.gap"]) < 1e-6, f"{100 * numbers['search.gap']:.1f} %")
    least = least_seconds(plan, numbers, devices)
    check("no step beats the devices' arithmetic", 0.05 * own < least <= min(found["step"], own), f"{least:.3g} s")
    named = {row["subject"] for row in rows}
    check("the baselines are there", BASELINES <= named, ", ".join(sorted(named)))
    steps = {row["subject"]: row["step_seconds"] for row in rows[1:] if row["step_seconds"] > 0}
    check("one of them is possible", bool(steps) or rows[0]["subject"] in BASELINES)
    check("none of them is better", all(own <= seconds for seconds in steps.values()),
          ", ".join(f"{name} {seconds / own:.2f} x" for name, seconds in steps.items()))
    used = {rank["device"] for rank in plan["ranks"]}
    check("devices are the cluster's", max(used) < devices, f"{len(used)} are used")
    limit = plan["machine"]["memory_bytes"]
    fullest = max(rank["peak_bytes"] for rank in plan["ranks"])
    for name, said, done in moved(plan):
        check(f"bytes of {name}", 0.98 * done <= said <= 1.02 * done, f"{said / 1e9:.4f} GB, {done / 1e9:.4f} by its calls")
    check("it fits", 0 < fullest <= limit, f"{fullest / 2**30:.1f} of {limit / 2**30:.1f} GiB")


def main() -> int:
    scratch = runs.Scratch("cluster-plan")
    folder = scratch.path / "kd"
    planning.export(planning.Workload(["kd.py", "--layers", str(LAYERS)]), folder)
    for devices in DEVICES:
        judge(scratch, folder, devices)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
