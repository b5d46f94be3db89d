"""Files of tokens and folders of arrays train as the same samples in shards do, bit by bit: nanoGPT's, llm.c's and Megatron's."""

from __future__ import annotations

import struct
import subprocess
import sys

import runs  # First: it says where the others are.

import numpy
import onnx
import shards
import torch
from torch import nn
from torch.nn import functional
from tools import different_files, evaluated

LENGTH, VOCABULARY = 16, 50
WORKLOAD = """
components: {net: {model: net.onnx}}
dims: {batch: {combine: sum}, seq: {combine: max, max: 16}}
loss: [{cross_entropy: {logits: net.logits, labels: labels}}]
train: {global_batch: 8, optimizer: {adamw: {lr: 0.01}}}
"""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, input_ids):
        return self.head(torch.tanh(self.embed(input_ids)))


class WithLoss(Net):
    def forward(self, input_ids, labels):
        logits = super().forward(input_ids)
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def export(model, path, names, output):
    dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq", min=2)}
    example = tuple(torch.ones(2, 5, dtype=torch.int64) for _ in names)
    torch.onnx.export(model.eval(), example, path, input_names=names, output_names=[output], dynamic_shapes=tuple(dims for _ in names),
                      dynamo=True, optimize=False, verbose=False)


def write_index(path, code, lengths):
    """Megatron-LM's IndexedDataset, version 1."""
    pointers = numpy.concatenate([[0], numpy.cumsum(lengths)[:-1]]).astype("<i8")
    path.write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1) + numpy.array(lengths, "<i4").tobytes()
                     + pointers.tobytes() + numpy.arange(len(lengths) + 1, dtype="<i8").tobytes())


class World:
    def __init__(self, scratch):
        self.scratch, self.bench, self.path = scratch, scratch.bench(), scratch.path
        torch.manual_seed(1)
        export(Net(), self.path / "net.onnx", ["input_ids"], "logits")
        export(WithLoss(), self.path / "own.onnx", ["input_ids", "labels"], "loss")
        (self.path / "net.yaml").write_text(WORKLOAD)
        self.plan = self.bench.plan(self.path / "net.yaml", "net")
        self.tokens = numpy.random.default_rng(3).integers(0, VOCABULARY, 40 * LENGTH + 5)
        count = (len(self.tokens) - 1) // LENGTH
        self.samples = [{"input_ids": self.tokens[LENGTH * i :][:LENGTH], "labels": self.tokens[LENGTH * i + 1 :][:LENGTH]} for i in range(count)]
        shards.write_shards(self.samples, self.path / "shards")
        self.write()

    def write(self):
        tokens, path = self.tokens, self.path
        tokens.astype("<u2").tofile(path / "nano.bin")
        (path / "llmc.bin").write_bytes(numpy.array([20240520, 1, len(tokens), *[0] * 253], "<i4").tobytes() + tokens.astype("<u2").tobytes())
        for name, code, kind in (("megatron", 4, "<i4"), ("small", 1, "u1"), ("wide", 5, "<i8")):
            tokens.astype(kind).tofile(path / f"{name}.bin")
            write_index(path / f"{name}.idx", code, [100, len(tokens) - 100])
        half = 20 * LENGTH
        (path / "parts").mkdir()
        tokens[: half + 1].astype("<u2").tofile(path / "parts/0.bin")
        tokens[half:].astype("<u2").tofile(path / "parts/1.bin")
        (path / "arrays").mkdir()
        for field in ("input_ids", "labels"):
            numpy.save(path / "arrays" / f"{field}.npy", numpy.stack([sample[field] for sample in self.samples]).astype("int32"))

    def check(self, what, good, detail=""):
        return self.scratch.check(what, good, "" if good else str(detail))

    def run(self, data, out, *arguments, plan=None):
        line = [self.bench.binaries / "maestro-run", plan or self.plan, "--data", data, "--out", out, *arguments]
        return subprocess.run([str(word) for word in line], cwd=self.path, capture_output=True, text=True, timeout=60)


def same_as_shards(world):
    for order in ([], ["--shuffle"]):
        tag = "shuffled" if order else "in order"
        world.check(f"shards, {tag}", world.run("shards/*.tar", f"shards{len(order)}", "--steps", 12, *order).returncode == 0)
        for data in ("nano.bin", "llmc.bin", "megatron.bin", "small.bin", "wide.bin", "parts/*.bin", "arrays"):
            out = f"{data.replace('/', '-').replace('*', 'all')}{len(order)}"
            done = world.run(data, out, "--steps", 12, *order)
            world.check(f"{data}, {tag}: the same bytes", done.returncode == 0 and not different_files(
                world.path / f"shards{len(order)}/checkpoint-000012", world.path / out / "checkpoint-000012"), done.stderr)
    for steps in (5, 12):
        done = world.run("nano.bin", "stopped", "--steps", steps, "--shuffle", "--resume=auto")
    world.check("resumed, shuffled", not different_files(world.path / "shards1/checkpoint-000012", world.path / "stopped/checkpoint-000012"), done.stderr)
    world.check("it says what it reads", "samples of 16 tokens: input_ids; the tokens behind them: labels" in done.stderr, done.stderr)
    plans = [world.bench.plan(world.path / "net.yaml", name, "--data", data) for name, data in (("of-tokens", "nano.bin"), ("of-arrays", "arrays"))]
    world.check("planning reads their sizes", len(plans) == 2)


def who_shifts(world):
    """Of a graph that computes its loss, the user says it."""
    plan = world.bench.plan(world.path / "own.onnx", "own", "--set", "dims.seq.max=16")
    done = world.run("nano.bin", "asked", "--steps", 1, plan=plan)
    world.check("it is asked", done.returncode == 1 and "--next-token labels" in done.stderr and "--next-token none" in done.stderr, done.stderr)
    model = WithLoss()
    values = {tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()) for tensor in onnx.load(world.path / "own.onnx").graph.initializer}
    model.load_state_dict({name: values[name] for name in model.state_dict()})
    ids = torch.from_numpy(numpy.stack([sample["input_ids"] for sample in world.samples]))
    shifted = torch.from_numpy(numpy.stack([sample["labels"] for sample in world.samples]))
    for answer, labels in (("none", ids), ("labels", shifted)):
        said = evaluated(world.bench.succeed("maestro-run", plan, "--data", world.path / "nano.bin", "--evaluate", "--next-token", answer))
        expected = model(ids, labels).item()
        world.check(f"--next-token {answer}: PyTorch's loss", abs(said["loss"] - expected) < 1e-5 * expected, f"{said} {expected}")


def mixes(world):
    """Each source has its share of every few samples, in its own order, and begins anew where it ends."""
    plan = world.bench.plan(world.path / "net.yaml", "alone", "--set", "train.global_batch=1")
    for name, token in (("low", 3), ("high", 7)):
        (numpy.arange(LENGTH * {"low": 5, "high": 400}[name] + 1) * 0 + token).astype("<u2").tofile(world.path / f"{name}.bin")
    losses = {}
    for name in ("low", "high"):
        said = evaluated(world.bench.succeed("maestro-run", plan, "--data", world.path / f"{name}.bin", "--evaluate"))
        losses[name] = said["loss"]
    share = 3 / 4
    line = [world.bench.binaries / "maestro-run", plan, "--data", "low.bin=3", "high.bin=1", "--evaluate", "--steps", 200]
    done = subprocess.run([str(word) for word in line], cwd=world.path, capture_output=True, text=True, timeout=60)
    expected = share * losses["low"] + (1 - share) * losses["high"]
    world.check("three quarters and a quarter", done.returncode == 0 and abs(evaluated(done)["loss"] - expected) < 1e-6 * expected, f"{done.stderr} {expected}")

    for name, token in (("low", 3), ("high", 7)):
        tokens = numpy.full(LENGTH, token, "int64")
        shards.write_shards([{"input_ids": tokens, "labels": tokens}] * {"low": 5, "high": 400}[name], world.path / name, 128)
    line = [world.bench.binaries / "maestro-run", plan, "--data", "low/*.tar=3", "high/*.tar=1", "--evaluate", "--steps", 200]
    done = subprocess.run([str(word) for word in line], cwd=world.path, capture_output=True, text=True, timeout=60)
    world.check("the same of shards", done.returncode == 0 and abs(evaluated(done)["loss"] - expected) < 1e-6 * expected, f"{done.stderr} {expected}")

    def run(out, steps, *data):
        line = [world.bench.binaries / "maestro-run", world.plan, "--data", *data, "--out", out, "--steps", steps, "--shuffle", "--resume=auto"]
        return subprocess.run([str(word) for word in line], cwd=world.path, capture_output=True, text=True, timeout=60)

    for kind, data in (("mixed", ("parts/0.bin=0.6", "nano.bin=0.4")), ("mixed-shards", ("shards/*.tar=0.6", "high/*.tar=0.4"))):
        for out, stops in ((kind, (9,)), (f"{kind}-stopped", (2, 7, 9))):
            for steps in stops:
                done = run(out, steps, *data)
                world.check(f"{kind} to step {steps}", done.returncode == 0, done.stderr)
        world.check(f"{kind}, resumed with the same bytes",
                    not different_files(world.path / kind / "checkpoint-000009", world.path / f"{kind}-stopped/checkpoint-000009"))
    done = run("mixed", 10, "parts/0.bin=0.5", "nano.bin=0.5")
    world.check("other weights are other data", done.returncode == 1 and "weight 0.6" in done.stderr and "weight 0.5" in done.stderr, done.stderr)
    for data, words in ((("nano.bin=0.5", "wide.bin"), "give each one"), (("shards/*.tar=0.5", "wide.bin=0.5"), "one kind"), (("nano.bin=1", "wide.bin=1e-9"), "less than 1/4096"),
                        (("nano.bin=-1",), "nano.bin=-1")):
        done = run("refused", 1, *data)
        world.check(f"refused: {' '.join(data)}", done.returncode == 1 and words in done.stderr, done.stderr)


def refuses(world):
    (world.path / "tiny.bin").write_bytes(b"\1\0" * 16)
    numpy.arange(1, 200).astype("<i8").tofile(world.path / "i8.bin")
    numpy.arange(1, 200).astype("<u4").tofile(world.path / "u4.bin")
    (world.path / "odd.bin").write_bytes(b"\1\0" * 100)
    (world.path / "odd.idx").write_bytes(b"something else altogether")
    (world.path / "ragged").mkdir()
    numpy.save(world.path / "ragged/input_ids.npy", numpy.ones((4, 16), "int64"))
    numpy.save(world.path / "ragged/labels.npy", numpy.ones((5, 16), "int64"))
    (world.path / "half").mkdir()
    numpy.save(world.path / "half/input_ids.npy", numpy.ones((4, 16), "int64"))
    for data, words, arguments in (
            ("tiny.bin", ["tiny.bin", "16 tokens"], []), ("odd.bin", ["odd.idx", "Megatron"], []), ("ragged", ["labels.npy", "5", "4"], []),
            ("i8.bin", ["i8.bin", "64 bits", "numpy.uint16", "i8.idx"], []), ("u4.bin", ["32 bits"], []), ("half", ["half/labels.npy"], []), ("nano.bin", ["--next-token words"], ["--next-token", "words"]),
            ("arrays", ["--next-token", "folder of arrays"], ["--next-token", "labels"])):
        done = world.run(data, "refused", "--steps", 1, *arguments)
        lacks = [word for word in words if word not in done.stderr]
        world.check(f"refused: {data} {arguments}", done.returncode == 1 and done.stderr.count("error:") == 1 and not lacks, f"{lacks} {done.stderr}")
    line = [world.bench.binaries / "maestro-run", world.plan, "--data", "nano.bin", "shards/*.tar", "--steps", "1"]
    done = subprocess.run([str(word) for word in line], cwd=world.path, capture_output=True, text=True, timeout=60)
    world.check("refused: two kinds", done.returncode == 1 and "data of one kind" in done.stderr, done.stderr)


def main() -> int:
    scratch = runs.Scratch("tokens")
    world = World(scratch)
    for part in (same_as_shards, who_shifts, mixes, refuses):
        part(world)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
