"""However many processes train, they read each byte of the data about once, and leave the same bits; bad values are said by one and end all.

    reads_test.py LIBCOUNT_READS
"""

from __future__ import annotations

import os
import struct
import sys

import runs  # First: it says where the others are.

import numpy
import shards
import torch
from machines import Job, Loopback
from tools import different_files, metrics

WIDTH, CLASSES, SAMPLES, BATCH = 8192, 8, 256, 64
WORKLOAD = """
components: {mlp: {model: mlp.onnx}}
loss: [{cross_entropy: {logits: mlp.logits, labels: labels}}]
inputs: {labels: {dtype: int64, shape: [batch]}}
dims: {batch: {combine: sum}}
train: {global_batch: %d}
""" % BATCH


class World:
    def __init__(self, scratch: runs.Scratch, library: str):
        self.scratch, self.bench, self.path, self.library = scratch, scratch.bench(), scratch.path, library
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 16), torch.nn.GELU(), torch.nn.Linear(16, CLASSES))
        torch.onnx.export(model, (torch.randn(2, WIDTH),), self.path / "mlp.onnx", dynamo=True, optimize=False, verbose=False,
                          dynamic_shapes=({0: "batch"},), input_names=["features"], output_names=["logits"])
        (self.path / "mlp.yaml").write_text(WORKLOAD)
        random = numpy.random.default_rng(0)
        self.samples = [{"features": random.standard_normal(WIDTH).astype("f4"), "labels": numpy.int64(i % CLASSES)} for i in range(SAMPLES)]
        shards.write_shards(self.samples, self.path / "data", per_shard=64)
        (self.path / "arrays").mkdir()
        for name in self.samples[0]:
            numpy.save(self.path / "arrays" / f"{name}.npy", numpy.stack([sample[name] for sample in self.samples]))

    def plan(self, devices: int, *arguments):
        return self.bench.plan(self.path / "mlp.yaml", f"mlp{devices}", "--set", f"cluster.devices_per_node={devices}", "--pin", f"*.dp={devices}",
                               "--pin", f"*.micro_batch={min(4, BATCH // devices)}", *arguments)

    def counted(self, start, folder="data"):
        """How often `start` reads the folder's data, and how many bytes of indexes."""
        counts = self.path / "counts"
        counts.write_bytes(bytes(16))
        added = {"LD_PRELOAD": self.library, "MAESTRO_READS": str(counts), "MAESTRO_READS_BELOW": str(self.path / folder)}
        os.environ.update(added)
        try:
            start()
        finally:
            for name in added:
                del os.environ[name]
        index, data = struct.unpack("<QQ", counts.read_bytes())
        return data / sum(file.stat().st_size for file in (self.path / folder).iterdir() if file.suffix != ".index"), index

    def check_read(self, what, start, most, folder="data"):
        times, index = self.counted(start, folder)
        self.scratch.check(f"{what}: the data is read {times:.2f} times, and {index:,} bytes of indexes", 0.9 <= times <= most)


def together(world, processes, *arguments, expected=0):
    def start():
        statuses, said = Job(world.scratch, Loopback(), processes, *arguments).end()
        world.scratch.check(f"{processes} processes end", set(statuses) == {expected}, f"{statuses} {said}" if set(statuses) != {expected} else "")
    return start


def once(world):
    plan = world.plan(4)
    arguments = [plan, "--data", "data/*.tar", "--steps", SAMPLES // BATCH, "--quiet"]

    def forked(*more):
        return lambda: world.bench.succeed("maestro-run", *arguments, "--ranks", "processes", *more)

    # Each process reads all headers, and libarchive what lies around them.
    times, _ = world.counted(forked())
    world.scratch.check(f"4 processes without an index read the data {times:.2f} times", times > 1.5)
    said = world.bench.succeed("maestro-run", *arguments[:-1], "--ranks", "processes").stderr
    world.scratch.check("which is said once", said.count("--cache DIR keeps indexes") == 1, "" if "--cache" in said else said)
    world.check_read("4 processes that make the indexes", forked("--cache", "data"), 2.1)
    world.check_read("4 processes with indexes", forked(), 1.1)
    world.check_read("the same, shuffled", forked("--shuffle"), 1.1)
    world.check_read("4 processes of an engine", together(world, 4, *arguments), 1.1)
    world.check_read("one process", lambda: world.bench.succeed("maestro-run", *arguments), 1.1)
    world.check_read("an evaluation by 4", together(world, 4, *arguments, "--evaluate"), 1.1)
    in_place = [plan, "--data", "arrays", *arguments[3:], "--ranks", "processes"]
    world.check_read("4 processes, a folder of arrays", lambda: world.bench.succeed("maestro-run", *in_place), 1.1, "arrays")
    many = world.plan(64)
    world.check_read("64 processes", lambda: world.bench.succeed("maestro-run", many, *arguments[1:], "--ranks", "processes", "--sleep-kernels", 1), 1.1)


def same_bits(world):
    """As in one process, whoever reads what: forked, of an engine, with and without indexes, resumed by others."""
    plan = world.plan(4)
    arguments = [plan, "--data", "data/*.tar", "--shuffle", "--steps", 6, "--save-every", 3, "--quiet"]
    world.bench.succeed("maestro-run", *arguments, "--out", "alone")
    world.bench.succeed("maestro-run", *arguments, "--out", "forked", "--ranks", "processes")
    for processes in (2, 3):
        together(world, processes, *arguments, "--out", f"engine{processes}", "--cache", "elsewhere")()
    together(world, 3, *arguments[:5], "3", *arguments[6:], "--out", "resumed")()
    together(world, 2, *arguments, "--out", "resumed", "--resume")()
    for out in ("forked", "engine2", "engine3", "resumed"):
        different = different_files(world.path / "alone/checkpoint-000006", world.path / out / "checkpoint-000006")
        losses = [[line["loss"] for line in metrics(world.path / folder)] for folder in ("alone", out)]
        world.scratch.check(f"{out}: the bits of one process", not different and losses[0] == losses[1], f"{different} {losses}" if different else "")
    for out in ("alone", "forked", "engine2", "engine3"):
        read = sum(line["data_bytes"] for line in metrics(world.path / out))  # Of one step, others may be ahead.
        world.scratch.check(f"{out}: metrics say what was read", read == 6 * BATCH * (4 * WIDTH + 8), f"{read}")
    checked = world.bench.command("maestro-run", *arguments[:-1], "--self-check", "--ranks", "processes")
    good = checked.returncode == 0 and "self-check: loss" in checked.stderr
    world.scratch.check("a self-check reads the whole first batch", good, "" if good else checked.stderr[-300:])
    adapted = world.bench.command("maestro-run", *arguments, "--adapt", "--ranks", "processes")
    world.scratch.check("measured schedules find their values", adapted.returncode == 0, adapted.stderr[-300:] if adapted.returncode else "")


def bad_values(world):
    """Only one process reads them; all end with its words."""
    samples = list(world.samples[:BATCH])
    samples[37] = samples[37] | {"labels": numpy.int64(CLASSES + 91)}
    shards.write_shards(samples, world.path / "bad", per_shard=BATCH)
    job = Job(world.scratch, Loopback(), 4, world.plan(4), "--data", "bad/*.tar", "--steps", 1, "--quiet")
    statuses, said = job.end(60)
    errors = {line for text in said for line in text.splitlines() if line.startswith("error:")}
    words = ("99", "outside [0, 8)", "sample '")
    good = set(statuses) == {1} and len(errors) == 1 and all(word in min(errors) for word in words)
    world.scratch.check("a label out of range, on all", good, "" if good else f"{statuses} {said}")


def main() -> int:
    scratch = runs.Scratch("reads")
    world = World(scratch, sys.argv[1])
    once(world)
    same_bits(world)
    bad_values(world)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
