"""What planning takes and brings, without a GPU: the large examples on clusters of 8 to 16,384 GPUs, and three small
networks on one or two: time and memory, the gap to the proven bound, and the gain over one layout for all sections and
over a static split.

    .venv/bin/python -B bench/planning.py [--only NAME]… [--devices 8 64 …] [--size large|tiny] [--samples 2048]
                                          [--scratch DIR] [--results FILE [--note TEXT]] [--against FILE]
                                          [--without MOVE]…

The graphs are exported without weights first, once for a scratch folder (minutes for the large ones). `--results` keeps
each row in a file, in place of an earlier one of the same workload and cluster; `--against` compares this run with such
a file. With `--without` each plan is made a second time, by a search that lacks those moves.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import planning_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARIES = pathlib.Path(os.environ.get("MAESTRO_BIN", ROOT / "build/release/bin"))
LARGE = ROOT / "examples/large"
CLUSTER = "name: {kind}-{devices}\nnodes: {nodes}\ndevices_per_node: {inside}\ndevice: {kind}\n"
INNER = "links:\n  - {{name: nvlink, spans: {inside}, bandwidth: 450 GB/s, latency: 2 us}}\n"
OUTER = "  - {{name: rail, spans: {devices}, bandwidth: 50 GB/s, latency: 6 us}}\n"
# A process of its own: the largest memory of a child is that of all children so far.
MEASURED = """
import json, resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
processor = used.ru_utime + used.ru_stime
print(json.dumps([done.returncode, time.monotonic() - start, processor, used.ru_maxrss * 1024, done.stderr[-400:]]))
"""


@dataclasses.dataclass
class Workload:
    command: list[str]  # An exporter in examples/large and its arguments,
    page: str = ""  # or the page whose block export.py is run instead.
    model: str = "workload.yaml"  # The file to plan.
    devices: tuple[int, ...] = ()  # Planned for these only.


def large_workloads(size):
    own = ["--size", size]
    return {
        "kd": Workload(["kd.py", *(["--teacher", "tiny", "--student", "tiny"] if size == "tiny" else [])]),
        "multimodal": Workload(["multimodal.py", *own]),
        "three": Workload(["multimodal.py", *own, "--sounds"]),
        "omni": Workload(["omni.py", *own]),
        "teachers": Workload(["teachers.py", *own]),
        "diffusion": Workload(["diffusion.py", *own]),
    }


SMALL = {
    "readme": Workload([], page="README.md", model="model.onnx", devices=(1,)),
    "guide": Workload([], page="docs/guide.md", model="llama.onnx", devices=(2,)),
    "pair": Workload(["kd.py", "--teacher", "tiny", "--student", "tiny"], devices=(1,)),
}


def export(workload, folder):
    if (folder / workload.model).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    where, command = LARGE, [*workload.command, folder]
    if workload.page:
        text = (ROOT / workload.page).read_text()
        block = re.search(r"^```python export.py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        (folder / "export.py").write_text(block.group(1))
        where, command = folder, ["export.py"]
    done = subprocess.run([sys.executable, "-B", *map(str, command)], cwd=where, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def measured(line, environment=None):
    """(exit status, seconds, seconds of processors, most bytes, the end of what it said) of a command."""
    command = [sys.executable, "-S", "-c", MEASURED, *map(str, line)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def cluster_file(folder, devices, kind):
    text = CLUSTER + (INNER if devices > 1 else "") + (OUTER if devices > 8 else "")
    path = folder / f"{kind}-{devices}.yaml"
    path.write_text(text.format(kind=kind, devices=devices, nodes=max(1, devices // 8), inside=min(devices, 8)))
    return path


def plan(folder, devices, kind, samples=None, model="workload.yaml", without=""):
    """(figures for its row, the plan as maestro-dump has it, or None where there is none)"""
    output, cluster = folder / f"{devices}.mpl", cluster_file(folder, devices, kind)
    line = [BINARIES / "maestro-plan", folder / model, "--cluster", cluster, "-o", output, "--quiet"]
    line += ["--set", f"train.global_batch={samples}"] if samples else []
    left_out = {"MAESTRO_SEARCH_WITHOUT": without} if without else {}
    status, seconds, processor, peak, said = measured(line, os.environ | left_out)
    row = {"seconds": round(seconds, 2), "processor_seconds": round(processor, 2), "peak": peak}
    if status != 0:
        return {**row, "error": said.rpartition("error: ")[2].strip().replace(f"{folder}/", "")}, None
    dump = [BINARIES / "maestro-dump", output, "--format", "json"]
    dumped = json.loads(subprocess.run(dump, capture_output=True, text=True, check=True).stdout)
    return {**row, **planning_rows.of_plan(dumped)}, dumped


def revision():
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def run(name, workload, arguments, scratch):
    """Plans a workload for each number of devices, and again without the moves to leave out; a row for each plan."""
    size = "tiny" if name in SMALL else arguments.size
    folder = scratch / f"{name}-{size}"
    export(workload, folder)
    without = ",".join(arguments.without)
    for devices in workload.devices or arguments.devices:
        for left_out in ["", without] if without else [""]:
            figures, _ = plan(folder, devices, arguments.device, arguments.samples, workload.model, left_out)
            yield {"workload": name, "size": size, "device": arguments.device, "devices": devices,
                   "samples": arguments.samples, "without": left_out, "revision": arguments.revision, **figures}


def parse(names):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=pathlib.Path)
    parser.add_argument("--only", action="append", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--size", default="large", choices=["large", "tiny"])
    parser.add_argument("--device", default="h100-sxm")
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 512, 1024, 16384])
    parser.add_argument("--samples", type=int, help="in a step, instead of the examples' own")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE", help="rows are merged into it")
    parser.add_argument("--note", help="kept in the results file")
    parser.add_argument("--revision", default=revision(), help="of the tools, where they are not of this tree")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE", help="an earlier results file")
    parser.add_argument("--without", action="append", default=[], metavar="MOVE",
                        help="compare with a search that lacks this move")
    return parser.parse_args()


def main():
    arguments = parse([*large_workloads("large"), *SMALL])
    scratch = arguments.scratch or pathlib.Path(tempfile.mkdtemp(prefix="maestro-planning-"))
    earlier = planning_rows.read(arguments.against) if arguments.against else {}
    rows = []
    for name, workload in {**large_workloads(arguments.size), **SMALL}.items():
        if arguments.only and name not in arguments.only:
            continue
        for row in run(name, workload, arguments, scratch):
            rows.append(row)
            print(planning_rows.text(row), flush=True)
            if arguments.results:
                planning_rows.keep(arguments.results, row, arguments.note)
    planning_rows.print_gains(rows)
    if arguments.against:
        planning_rows.print_ratios(f"against {arguments.against}", rows, earlier)
    if arguments.without:
        planning_rows.print_without(rows)
    sys.exit(1 if any("error" in row and row["devices"] >= 64 for row in rows) else 0)


if __name__ == "__main__":
    main()
