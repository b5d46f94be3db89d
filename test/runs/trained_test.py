"""`trainable:` and `save: trained`: adapters of which checkpoints hold themselves alone; `strip:` finds names that a wrapper lengthened."""

from __future__ import annotations

import subprocess
import sys

import runs  # First: it says where the others are.

import numpy
from safetensors.numpy import save_file
import shards
import torch
from torch import nn
from tools import different_files, safetensors

LOSS = "loss: [{cross_entropy: {logits: net.logits, labels: labels}}]\ntrain: {global_batch: 4, optimizer: {adamw: {lr: 0.01}}}\n"


class Adapted(nn.Module):
    """A product with an adapter of low rank beside it."""

    def __init__(self):
        super().__init__()
        self.base, self.head = nn.Linear(12, 16), nn.Linear(16, 5)
        self.lora_a, self.lora_b = nn.Linear(12, 2, bias=False), nn.Linear(2, 16, bias=False)
        self.register_buffer("scale", torch.full((16,), 0.5))

    def forward(self, features):
        return self.head(torch.tanh(self.base(features) + self.scale * self.lora_b(self.lora_a(features))))


class World:
    def __init__(self, scratch):
        self.scratch, self.bench, self.path = scratch, scratch.bench(), scratch.path
        torch.manual_seed(1)
        self.model = Adapted()
        torch.onnx.export(self.model, (torch.randn(2, 12),), self.path / "net.onnx", input_names=["features"], output_names=["logits"],
                          dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True, optimize=False, verbose=False)
        self.values = {name: value.numpy() for name, value in self.model.state_dict().items()}
        random = numpy.random.default_rng(1)
        shards.write_shards([{"features": random.normal(size=12).astype("float32"), "labels": numpy.array(random.integers(0, 5))}
                             for _ in range(16)], self.path / "data")
        self.data = ["--data", "data/*.tar"]

    def check(self, what, good, detail=""):
        return self.scratch.check(what, good, "" if good else str(detail))

    def plan(self, name, keys, model="net.onnx"):
        (self.path / f"{name}.yaml").write_text(f"components: {{net: {{model: {model}{keys}}}}}\n{LOSS}")
        return self.bench.plan(self.path / f"{name}.yaml", name)

    def command(self, tool, *arguments):
        return subprocess.run([str(self.bench.binaries / tool), *map(str, arguments)], cwd=self.path, capture_output=True, text=True, timeout=60)

    def run(self, plan, out, *arguments):
        self.bench.succeed("maestro-run", plan, *self.data, "--out", out, *arguments)
        return self.path / out


def trains_what_is_named(world):
    adapters = {"lora_a.weight", "lora_b.weight"}
    everything = world.run(world.plan("everything", ""), "everything", "--steps", 1, "--save-gradients")
    adapted = world.run(world.plan("adapted", ', trainable: ["lora_*"]'), "adapted", "--steps", 3, "--save-gradients", "--self-check")
    expected, found = (safetensors(out / "gradients.safetensors")[0] for out in (everything, adapted))
    world.check("gradients of the adapters alone", set(found) == {f"net.{name}" for name in adapters}, set(found))
    world.check("as they are among all", all(numpy.allclose(found[name], expected[name], rtol=1e-5, atol=1e-8) for name in found))
    saved, _ = safetensors(adapted / "checkpoint-000003/net.safetensors")
    world.check("all is saved", set(saved) == set(world.values), set(saved))
    for name, value in world.values.items():
        world.check(f"{name} {'moves' if name in adapters else 'stays'}", (saved[name] == value).all() == (name not in adapters))
    return saved


def saves_what_trains(world, saved):
    plan = world.plan("small", ', trainable: ["lora_*"], save: trained')
    small = world.run(plan, "small", "--steps", 3)
    kept, _ = safetensors(small / "checkpoint-000003/net.safetensors")
    world.check("what trains is saved alone", set(kept) == {"lora_a.weight", "lora_b.weight"}, set(kept))
    world.check("with the same values", all((kept[name] == saved[name]).all() for name in kept))
    world.run(plan, "stopped", "--steps", 2)
    world.run(plan, "stopped", "--steps", 3, "--resume")
    world.check("resumed with the same bytes", not different_files(small / "checkpoint-000003", world.path / "stopped/checkpoint-000003"))
    whole, part = (world.bench.succeed("maestro-run", plan, *world.data, "--evaluate", "--weights", f"net={path}").stdout
                   for path in (world.path / "adapted/checkpoint-000003/net.safetensors", small / "checkpoint-000003/net.safetensors"))
    world.check("--weights takes the rest from the model", whole == part, f"{whole} {part}")
    safetensors_of = {name: value + 1 for name, value in world.values.items()}
    safetensors_file = world.path / "other.safetensors"
    write(safetensors_of, safetensors_file)
    world.run(plan, "elsewhere", "--steps", 1, "--weights", f"net={safetensors_file}")
    done = world.command("maestro-run", plan, *world.data, "--out", "elsewhere", "--steps", 2, "--resume")
    world.check("the rest from elsewhere is asked for", done.returncode == 1 and "other.safetensors" in done.stderr, done.stderr)


def write(values, path):
    save_file(values, path)


def strips(world):
    wrapped = {f"module.{name}": value + 1 for name, value in world.values.items()}
    write(wrapped, world.path / "wrapped.safetensors")
    write({name: value + 1 for name, value in world.values.items()}, world.path / "plain.safetensors")
    plan = world.plan("bare", "")
    done = world.command("maestro-run", plan, *world.data, "--steps", 1, "--weights", "net=wrapped.safetensors")
    world.check("a run's weights with a prefix are refused, and it is named", done.returncode == 1 and "components.net.strip: module." in done.stderr, done.stderr)
    (world.path / "wrapped.yaml").write_text(f"components: {{net: {{model: net.onnx, weights: wrapped.safetensors}}}}\n{LOSS}")
    done = world.command("maestro-plan", "wrapped.yaml", "-o", "wrapped.mpl")
    world.check("a plan's, too", done.returncode == 1 and "components.net.strip: module." in done.stderr, done.stderr)
    expected = world.bench.succeed("maestro-run", plan, *world.data, "--evaluate", "--weights", "net=plain.safetensors").stdout
    stripped = world.plan("stripped", ", strip: module.")
    planned = world.plan("planned", ", weights: wrapped.safetensors, strip: [_orig_mod., module.]")
    for what, arguments in (("a run's", [stripped, "--weights", "net=wrapped.safetensors"]), ("those without", [stripped, "--weights", "net=plain.safetensors"]),
                            ("a plan's", [planned])):
        found = world.bench.succeed("maestro-run", *arguments, *world.data, "--evaluate").stdout
        world.check(f"strip: {what}", found == expected, f"{found} {expected}")


def main() -> int:
    scratch = runs.Scratch("trained")
    world = World(scratch)
    saves_what_trains(world, trains_what_is_named(world))
    strips(world)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
