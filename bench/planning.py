"""What planning takes and brings, without a GPU: the large examples on clusters of 8 to 16,384 GPUs: time and memory, the gap to the
proven bound, and the gain over one layout for all sections and over a static split.

    .venv/bin/python -B bench/planning.py [--scratch DIR] [--size large|tiny] [--devices 8 64 …] [--samples 2048]

The graphs are exported without weights first, once for a scratch folder (minutes for the large ones).
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARIES = pathlib.Path(os.environ.get("MAESTRO_BIN", ROOT / "build/release/bin"))
LARGE = ROOT / "examples/large"
CLUSTER = """\
name: {kind}-{devices}
nodes: {nodes}
devices_per_node: 8
device: {kind}
links:
  - {{name: nvlink, spans: 8, bandwidth: 450 GB/s, latency: 2 us}}
"""
# A process of its own: the largest memory of a child is that of all children so far.
MEASURED = """
import json, resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(json.dumps([done.returncode, time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
                  done.stderr[-400:]]))
"""
OUTER = "  - {{name: rail, spans: {devices}, bandwidth: 50 GB/s, latency: 6 us}}\n"


def examples(size):
    tiny = size == "tiny"
    return {
        "kd": ["kd.py", *(["--teacher", "tiny", "--student", "tiny"] if tiny else [])],
        "multimodal": ["multimodal.py", "--size", size],
        "three": ["multimodal.py", "--size", size, "--sounds"],
    }


def export(name, command, folder):
    if not (folder / "workload.yaml").exists():
        script, *rest = command
        subprocess.run([sys.executable, script, str(folder), *map(str, rest)], cwd=LARGE, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)


def measured(line):
    """(exit status, seconds, most bytes, the end of what it said) of a command."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURED, *map(str, line)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def plan(folder, devices, kind, samples=None):
    cluster = folder / f"{kind}-{devices}.yaml"
    text = CLUSTER.format(kind=kind, devices=devices, nodes=devices // 8)
    cluster.write_text(text + (OUTER.format(devices=devices) if devices > 8 else ""))
    output = folder / f"{devices}.mpl"
    status, seconds, peak, said = measured([BINARIES / "maestro-plan", folder / "workload.yaml", "--cluster", cluster, "-o", output, "--quiet",
                                          *(["--set", f"train.global_batch={samples}"] if samples else [])])
    if status != 0:
        return {"seconds": seconds, "peak": peak, "error": said.strip().removeprefix("error: ")}
    dumped = json.loads(subprocess.run([BINARIES / "maestro-dump", output, "--format", "json"], capture_output=True, text=True,
                                       check=True).stdout)
    quantities = {q["name"]: q["value"] for q in dumped["quantities"]}
    rows = {c["subject"]: c for c in dumped["candidates"] if c["kind"] in ("Layout", "layout", 0)}
    step = dumped["prediction"]["step_seconds"]
    searched = next(iter(rows.values()))["step_seconds"]  # Baselines are predicted as the search predicts: its own layout, too.
    gains = {name: row["step_seconds"] / searched if row["step_seconds"] else None for name, row in rows.items()}
    return {"seconds": seconds, "peak": peak, "step": step, "gap": quantities["search.gap"], "gains": gains, "searched": searched,
            "layout": next(iter(rows.values()))["choice"], "parts": parts(quantities), "dumped": dumped}


def parts(quantities):
    """Where the mean device's step goes, in hundredths of it; what is proven to be needed first, of the search's step."""
    step, searched = quantities["step.simulated_seconds"], quantities["search.step_seconds"]
    mean = {name[5:-8]: value for name, value in quantities.items() if name.startswith("mean.")}
    least = mean.pop("least_work")
    mean = {"bound": quantities["search.lower_bound_seconds"] * step / searched, "work of these cuts": least,
            "padding and constants": mean.pop("tasks") - least, **mean}
    return ", ".join(f"{name} {100 * seconds / step:.1f}" for name, seconds in mean.items())


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=pathlib.Path)
    parser.add_argument("--size", default="large", choices=["large", "tiny"])
    parser.add_argument("--device", default="h100-sxm")
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 512, 1024, 16384])
    parser.add_argument("--samples", type=int, help="in a step, instead of the examples' own")
    arguments = parser.parse_args()
    scratch = arguments.scratch or pathlib.Path(tempfile.mkdtemp(prefix="maestro-planning-"))
    gains = {"one layout for all": [], "static split": []}
    failed = False
    for name, command in examples(arguments.size).items():
        folder = scratch / f"{name}-{arguments.size}"
        folder.mkdir(parents=True, exist_ok=True)
        export(name, command, folder)
        for devices in arguments.devices:
            found = plan(folder, devices, arguments.device, arguments.samples)
            head = f"{name:11} {devices:6} GPUs: planned in {found['seconds']:5.1f} s, {found['peak'] / 2**30:.2f} GiB"
            if "error" in found:
                print(f"{head}: {found['error']}")
                failed |= devices >= 64
                continue
            against = ", ".join(f"{other} {gain:.2f} x" if gain else f"{other} does not fit" for other, gain in found["gains"].items())
            print(f"{head}, {found['step']:.3g} s a step ({found['searched']:.3g} by the search), gap {100 * found['gap']:.1f} %; {against}\n{'':13}{found['layout']}")
            if devices == 64:
                print(f"{'':13}% of the step: {found['parts']}")
                for other, values in gains.items():
                    if found["gains"].get(other):
                        values.append(found["gains"][other])
    for other, values in gains.items():
        if values:
            print(f"at 64 GPUs against {other}: {mean(values):.2f} x, geometric mean of {len(values)} that fit")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
