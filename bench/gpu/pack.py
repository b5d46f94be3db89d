"""Packs what runs on a machine with a GPU, which may have nothing but a driver and Python: programs with all their libraries, plans, data, and
what a CPU made of the same. Run here, where everything is built; `run.py` runs there.

    .venv/bin/python -B bench/gpu/pack.py [--out build/gpu.tar.xz]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / "runs"), str(ROOT / "test" / "cuda"), str(ROOT / "examples" / "large"), str(ROOT / "bench" / "gpu")]

import runs  # noqa: E402: first, it says where the others are

import runs_test  # noqa: E402
import shards  # noqa: E402
import step  # noqa: E402
import tolerances  # noqa: E402
from tools import losses, safetensors  # noqa: E402

PROGRAMS = ["bin/maestro-run", "bin/maestro-profile", "test/device_test", "test/kernels_device_test", "test/world_test"]
KINDS = ["h100-sxm", "h200"]
MOST_BYTES = 60 << 20
# Published widths, so many layers as start quickly; without weights, which are seeded there.
SPEED = {"llama-1b": ("1b", 8, 4096), "llama-8b": ("8b", 2, 4096)}
SPEED_STEPS, SPEED_BATCH = 8, 4
# Cases, speeds and GPUs, where a test has no time for all.
REHEARSAL = ["gpt2", "replicas"], {"llama-tiny": ("tiny", 1, 64)}, KINDS[:1]
SPEED_WORKLOAD = """\
components: {{model: {{model: {graph}}}}}
dims: {{batch: {{combine: sum, max: 1}}, seq: {{combine: max, max: {sequence}}}}}
loss: [{{cross_entropy: {{logits: model.logits, labels: labels}}}}]
train: {{global_batch: {batch}, precision: bf16, optimizer: {{adamw: {{lr: 1e-4}}}}}}
"""


def libraries(program: pathlib.Path) -> set[pathlib.Path]:
    """All that the loader finds for it, itself included: the other machine's may be older."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {pathlib.Path(path) for path in re.findall(r"(/\S+\.so\S*)", said)}


def source_hash() -> str:
    """Of everything that runs on the GPU or drives it."""
    files = sorted(path for folder in ("cuda", "kernels/cuda", "executor/device/cuda") for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".cpp", ".cu", ".h", ".cmake"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def copy_programs(build: pathlib.Path, folder: pathlib.Path) -> None:
    folder.mkdir()
    wanted = set()
    for program in (build / name for name in PROGRAMS):
        shutil.copy(program, folder / program.name)
        subprocess.run(["strip", folder / program.name], check=True)
        wanted |= libraries(program)
    for path in wanted:
        shutil.copy(path.resolve(), folder / path.name)
    shutil.copy(build / "bin" / "maestro-kernels.fatbin", folder)


def plan(bench, name, model, devices, *arguments):
    """One for each kind of GPU and for the CPU."""
    return {kind: bench.plan(model, f"{name}-{kind}", "--set", f"cluster.device={kind}", "--set", f"cluster.devices_per_node={devices}", *arguments)
            for kind in ["cpu", *bench.kinds]}


def copied(folder: pathlib.Path, model: pathlib.Path) -> pathlib.Path:
    """Plans name the files of their weights by where these lie beside them."""
    for file in model.parent.glob(model.name + "*"):
        shutil.copy(file, folder)
    return folder / model.name


def make_cases(folder: pathlib.Path, names: list[str], speed: dict, kinds: list[str]) -> dict:
    """Runs each on the CPU; what it leaves is what the GPU is held against."""
    folder.mkdir()
    scratch = runs.Scratch("gpu", folder)
    bench, cases = scratch.bench(), {}
    bench.kinds = kinds
    for name, (case_name, devices, plan_arguments) in ((name, runs_test.CASES[name]) for name in names):
        case = runs.zoo_case(case_name)
        model = runs_test.model(scratch, name, case)
        model = copied(folder, model) if model.suffix == ".onnx" else model
        plans = plan(bench, name, model, devices, "--set", "train.global_batch=8", "--pin", "*.micro_batch=2", *plan_arguments)
        data = shards.write_shards(shards.make_samples(case, 16, seed=5), folder / f"{name}-data")
        out = bench.run(plans["cpu"], data, f"{name}-expected", "--steps", runs_test.STEPS, "--save-gradients")
        gradients = safetensors(out / "gradients.safetensors")[0]
        norm = sum(float((gradient.astype("float64") ** 2).sum()) for gradient in gradients.values()) ** 0.5
        expected = {"losses": [float(loss) for loss in losses(out)], "loss_limits": runs_test.loss_limits(name),
                    "gradient_limits": {} if name == "bf16" else {key: tolerances.gradient(float(abs(gradient).max()), norm)
                                                                  for key, gradient in gradients.items() if gradient.size}}
        shutil.move(out / "gradients.safetensors", folder / f"{name}.safetensors")
        shutil.rmtree(out)
        cases[name] = {"plans": {kind: plans[kind].name for kind in kinds}, "devices": devices, "graph_steps": 60 if kinds == KINDS else 3, **expected,
                       "data": [str(path.relative_to(folder)) for path in sorted(pathlib.Path(folder / f"{name}-data").glob("*"))],
                       "steps": runs_test.STEPS}
    for name, (size, layers, sequence) in speed.items():
        cases[f"speed-{name}"] = make_speed(bench, folder, name, size, layers, sequence)
    return cases


def make_speed(bench, folder, name, size, layers, sequence):
    network, workload = export_llama(folder, name, size, layers, sequence, SPEED_BATCH)
    plans = {kind: bench.plan(workload, f"speed-{name}-{kind}", "--set", f"cluster.device={kind}", "--set", "cluster.devices_per_node=1", "--pin", "*.micro_batch=1")
             for kind in bench.kinds}
    return {"plans": {kind: plans[kind].name for kind in bench.kinds}, "devices": 1, "steps": SPEED_STEPS, "speed": True,
            "flops_per_token": flops_per_token(network, sequence),
            "least": step.least_seconds(runs.summary(bench, plans[bench.kinds[0]]), {"seq": sequence}, SPEED_BATCH)}


def llama(size, layers):
    import large

    return large.on_meta(lambda: large.NextToken(large.llama_config(size, layers)))


def export_llama(folder, name, size, layers, sequence, batch):
    """The network, and a workload that trains its graph."""
    import large
    import torch

    network = llama(size, layers)
    ids = (torch.zeros(2, 64, dtype=torch.int64, device="meta"), {0: "batch", 1: "seq"})
    large.export(network, folder / f"{name}.onnx", {"input_ids": ids}, ["logits"])
    workload = folder / f"{name}.yaml"
    workload.write_text(SPEED_WORKLOAD.format(graph=f"{name}.onnx", sequence=sequence, batch=batch))
    return network, workload


def flops_per_token(network, sequence):
    """As llm.q counts: six for each weight but the embedding's, and the half of attention that causality leaves."""
    weights = sum(parameter.numel() for key, parameter in network.named_parameters() if "embed_tokens" not in key)
    return 6 * weights + 6 * network.config.num_hidden_layers * network.config.hidden_size * sequence


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "gpu.tar.xz")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--rehearsal", action="store_true", help="Few and small cases, for the fake driver")
    options = parser.parse_args()
    out = options.out
    what = REHEARSAL if options.rehearsal else (list(runs_test.CASES), SPEED, KINDS)
    with tempfile.TemporaryDirectory(prefix="maestro-gpu-") as made:
        folder = pathlib.Path(made)
        copy_programs(options.build, folder / "bin")
        cases = make_cases(folder / "cases", *what)
        (folder / "pack.json").write_text(json.dumps({"sources": source_hash(), "cases": cases}, indent=1))
        out.parent.mkdir(parents=True, exist_ok=True)
        with lzma.open(out, "wb", preset=0 if options.rehearsal else 2) as file, tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(folder, ".")
    size = out.stat().st_size
    print(f"{out}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"which is more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
