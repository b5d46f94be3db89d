"""Runs Maestro's tools for the judges and reads what they leave. numpy and the standard library only.

A `Bench` is one scratch folder and one folder of tools. Every command that a judge runs is kept, so that a failure can be
repeated by pasting it.
"""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess

import numpy


# A frozen teacher and a student that learns from it and from labels; and, for four devices, the student in two stages of two replicas.
DISTILLATION = """
components:
  teacher: {{model: {teacher}, frozen: true}}
  student: {{model: {student}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, labels: labels, weight: 0.5}}
train: {{global_batch: 8, optimizer: {{adamw: {{lr: {lr}}}}}}}
"""
STAGES_AND_REPLICAS = [
    "--set", "cluster.devices_per_node=4", "--set", "dims.seq.max=48", "--pin", "student.stages=2", "--pin", "student.dp=2", "--pin",
    "student.micro_batch=2", "--pin", "student.split_backward=1", "--pin", "teacher.dp=1", "--pin", "teacher.devices=0"]


class ToolFailure(Exception):
    """A tool ended with another status than expected; carries the command and what it said."""


class Bench:
    def __init__(self, binaries: pathlib.Path, scratch: pathlib.Path, timeout: float = 300):
        self.binaries = pathlib.Path(binaries).resolve()
        self.scratch = pathlib.Path(scratch).resolve()
        self.timeout = timeout
        self.scratch.mkdir(parents=True, exist_ok=True)

    def command(self, tool: str, *arguments) -> subprocess.CompletedProcess:
        """Runs to the end, whatever its status. A signal shows as a negative returncode."""
        line = [str(self.binaries / tool), *map(str, arguments)]
        environment = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "2"))
        try:
            return subprocess.run(
                line, cwd=self.scratch, capture_output=True, text=True, errors="replace", timeout=self.timeout,
                env=environment,
            )
        except subprocess.TimeoutExpired as expired:
            raise ToolFailure(f"{shlex.join(line)}\n  took longer than {self.timeout:.0f} s") from expired

    def succeed(self, tool: str, *arguments) -> subprocess.CompletedProcess:
        done = self.command(tool, *arguments)
        if done.returncode != 0:
            line = shlex.join([str(self.binaries / tool), *map(str, arguments)])
            said = (done.stderr.strip() or done.stdout.strip())[-1500:]
            raise ToolFailure(f"cd {self.scratch} && {line}\n  status {done.returncode}: {said}")
        return done

    def plan(self, source, name: str, *arguments) -> pathlib.Path:
        path = self.scratch / f"{name}.mpl"
        self.succeed("maestro-plan", source, "-o", path, *arguments)
        return path

    def run(self, plan: pathlib.Path, data: str, out: str, *arguments) -> pathlib.Path:
        folder = self.scratch / out
        self.succeed("maestro-run", plan, "--data", data, "--out", folder, *arguments)
        return folder


def evaluated(done: subprocess.CompletedProcess) -> dict:
    """What --evaluate printed: one JSON line of samples, loss, losses."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise ToolFailure(f"--evaluate printed no JSON line: {done.stdout[-300:]!r}")
    return json.loads(lines[-1])


def metrics(folder: pathlib.Path) -> list:
    with open(folder / "metrics.jsonl") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def losses(folder: pathlib.Path) -> numpy.ndarray:
    return numpy.array([line["loss"] for line in metrics(folder)])


def newest_checkpoint(folder: pathlib.Path) -> pathlib.Path:
    checkpoints = sorted(folder.glob("checkpoint-*"))
    if not checkpoints:
        raise ToolFailure(f"{folder} has no checkpoint; it has {sorted(p.name for p in folder.iterdir())}")
    return checkpoints[-1]


def safetensors(path: pathlib.Path) -> tuple:
    """Tensors as numpy arrays by name, and __metadata__, of a file or, where there is none of this name, of those that its index names. Read by
    hand: the judge shares no reader with anyone."""
    if not path.exists():
        tensors, metadata = {}, {}
        weight_map = json.loads(path.with_name(path.name + ".index.json").read_text())["weight_map"]
        for name in sorted(set(weight_map.values())):
            own, about = safetensors(path.with_name(name))
            if set(own) != {tensor for tensor, file in weight_map.items() if file == name} or set(own) & set(tensors):
                raise ToolFailure(f"{path}: its index does not say what {name} holds")
            tensors |= own
            metadata |= about
        return tensors, metadata
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    kinds = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "I32": numpy.int32, "BOOL": numpy.bool_}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = content[8 + length + begin : 8 + length + end]
        tensors[name] = numpy.frombuffer(raw, kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def different_files(left: pathlib.Path, right: pathlib.Path) -> list:
    """Names of files that are not the same bytes in two folders; state.json may name its own paths, so it is left out."""
    names = sorted({p.name for p in [*left.iterdir(), *right.iterdir()]} - {"state.json"})

    def content(folder, name):
        return (folder / name).read_bytes() if (folder / name).exists() else None

    return [name for name in names if content(left, name) != content(right, name)]
