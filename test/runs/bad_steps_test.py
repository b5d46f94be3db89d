"""A step whose loss or gradient is not finite is not applied, by any rank; its samples are named; three in a row end the run.

Weights and optimizer state after such a step are the bytes from before it, and the run goes on as if its samples had not been
there. The networks are two products; one sample of a shard has a NaN in its features, or makes a gradient that is none.
"""

from __future__ import annotations

import sys

import runs  # First: it says where the others are.

sys.path.insert(0, str(runs.HERE.parent / "cli"))

import numpy

import good
from tools import different_files, metrics, safetensors

WORKLOAD = """\
components: {{mlp: {{model: {model}.onnx}}}}
inputs: {{labels: {{dtype: int64, shape: [batch], pad: -100}}}}
loss: [{{cross_entropy: {{logits: mlp.logits, labels: labels}}}}]
train: {{global_batch: 4, optimizer: {{adamw: {{lr: 1e-2}}}}{train}}}
"""
STEP = 4  # Samples of one.


def magnitude_graph():
    """logits of |features · W|, as a root of squares: its gradient at 0 is NaN, in PyTorch, too."""
    graph = good.mlp_graph()
    del graph.node[1:3]
    graph.node.insert(1, good.helper.make_node("Mul", ["product", "product"], ["square"], name="node_square"))
    graph.node.insert(2, good.helper.make_node("Sqrt", ["square"], ["hidden"], name="node_root"))
    return graph


class World:
    def __init__(self, scratch):
        self.scratch, self.bench = scratch, scratch.bench()
        good.write_model(good.mlp_graph(), scratch.path / "mlp.onnx")
        good.write_model(magnitude_graph(), scratch.path / "magnitude.onnx")

    def check(self, what, good, detail=""):
        self.scratch.check(what, good, "" if good else detail)

    def plan(self, name, model="mlp", train="", devices=1, *arguments):
        workload = self.bench.scratch / f"{name}.yaml"
        workload.write_text(WORKLOAD.format(model=model, train=train))
        return self.bench.plan(workload, name, "--set", f"cluster.devices_per_node={devices}", *arguments)

    def shard(self, name, bad=(), zero=(), ignored=(), left_out=(), count=24):
        """Samples s00, s01, …; `bad` ones have a NaN, `zero` ones zeros, `ignored` ones no label."""
        random = numpy.random.default_rng(1)
        members = []
        for i in range(count):
            features, label = random.standard_normal(4).astype(numpy.float32), random.integers(0, good.CLASSES)
            if i in bad:
                features[2] = numpy.nan
            if i in zero:
                features[:] = 0
            if i in left_out:
                continue
            members.append([f"s{i:02}.features.npy", good.array_bytes(features)])
            members.append([f"s{i:02}.labels.npy", good.array_bytes(numpy.array(-100 if i in ignored else label, numpy.int64))])
        return good.write_tar(members, self.bench.scratch / f"{name}.tar")

    def run(self, plan, shard, out, *arguments):
        done = self.bench.command("maestro-run", plan, "--data", shard, "--out", out, "--save-every", 1, *arguments)
        return done, self.bench.scratch / out


def step_of(out, step):
    return out / f"checkpoint-{step:06}"


def is_finite(checkpoint):
    return all(numpy.isfinite(value).all() for file in checkpoint.glob("*.safetensors") for value in safetensors(file)[0].values())


def one_bad_step(world, name, plan, shard, without, samples, *arguments):
    """Step 3 is bad; `without` is the same data without its samples."""
    check = world.check
    done, out = world.run(plan, shard, name, *arguments)
    check(f"{name}: ends well", done.returncode == 0, done.stderr[-300:] if done.returncode else "")
    lines = metrics(out)
    check(f"{name}: only step 3 is not applied", [line["step"] for line in lines if not line["applied"]] == [3])
    named = [sample["key"] for sample in lines[2].get("bad_samples", [])]
    check(f"{name}: its samples are named", set(samples) <= set(named) and len(named) <= STEP
          and lines[2]["bad_samples"][0]["shard"].endswith(shard.name), f"{named}")
    check(f"{name}: and in the warning", "step 3 is not applied" in done.stderr and samples[0] in done.stderr
          and "clip" not in done.stderr)
    check(f"{name}: nothing of it stays", not different_files(step_of(out, 2), step_of(out, 3)))
    check(f"{name}: checkpoints are finite", all(map(is_finite, out.glob("checkpoint-*"))))
    _, other = world.run(plan, without, f"{name}-without", *arguments)
    check(f"{name}: as if its samples had not been there", not different_files(step_of(out, 6), step_of(other, 5)),
          f"{different_files(step_of(out, 6), step_of(other, 5))}")
    return out


def resumed(world, plan, shard, whole):
    world.run(plan, shard, "stopped", "--steps", 3)
    done, out = world.run(plan, shard, "stopped", "--steps", 6, "--resume")
    world.check("resumed behind a bad step: the same bytes", done.returncode == 0
                        and not different_files(step_of(whole, 6), step_of(out, 6)), done.stderr[-300:] if done.returncode else "")


def too_many(world, plan, limit):
    shard = world.shard(f"many{limit}", bad=(4, 9, 12, 17))  # Steps 2 to 5.
    for ranks in ("threads", "processes"):
        done, out = world.run(plan, shard, f"many{limit}-{ranks}", "--ranks", ranks)
        last = 1 + limit
        world.check(f"{limit} bad steps in a row end the run ({ranks})",
                            done.returncode == 1 and f"the last {limit} steps, up to {last}," in done.stderr
                            and metrics(out)[-1]["step"] == last and done.stderr.count("error:") == 1,
                            f"status {done.returncode}: {done.stderr[-300:]}")
        world.check(f"{limit} bad steps ({ranks}): what was trained before is saved", step_of(out, last).is_dir()
                            and is_finite(step_of(out, last)) and not different_files(step_of(out, 1), step_of(out, last)))


def bad_weights(world, plan, shard):
    """No checkpoint holds what is not finite, wherever it came from."""
    import wrong_data

    path = wrong_data.write_safetensors(world.bench.scratch / "nan.safetensors", {
        "first.weight": numpy.full((4, 8), numpy.nan, numpy.float32), "first.bias": good.weights((8,), 2),
        "second.weight": good.weights((8, good.CLASSES), 3)})
    done, out = world.run(plan, shard, "nan-weights", "--weights", f"mlp={path}")
    world.check("weights with NaN are not saved", done.returncode == 1 and "first.weight" in done.stderr
                        and not list(out.glob("*checkpoint-*")), f"status {done.returncode}: {done.stderr[-300:]}")


def nothing_counted(world, plan):
    shard = world.shard("ignored", ignored=range(4, 12))
    done, out = world.run(plan, shard, "ignored")
    lines = metrics(out)
    world.check("a step that counts nothing says so, once", done.returncode == 0
                        and done.stderr.count("nothing is counted by the loss 'cross_entropy'") == 1 and "step 2:" in done.stderr
                        and [line["loss"] == 0 for line in lines] == [False, True, True, False, False, False],
                        f"{[line['loss'] for line in lines]} {done.stderr[-300:]}")


def main() -> int:
    scratch = runs.Scratch("bad-steps")
    world = World(scratch)
    one, two = world.plan("one"), world.plan("two", "mlp", "", 2, "--pin", "mlp.dp=2", "--pin", "mlp.micro_batch=1")
    bad, without = world.shard("bad", bad=(9,)), world.shard("without", left_out=range(8, 12))
    whole = one_bad_step(world, "one", one, bad, without, ["s09"])
    one_bad_step(world, "two", two, bad, without, ["s09"])
    one_bad_step(world, "two-processes", two, bad, without, ["s09"], "--ranks", "processes")
    zero = world.shard("zero", zero=(10,))
    one_bad_step(world, "gradient", world.plan("gradient", "magnitude"), zero, without, ["s08", "s10"])
    resumed(world, one, bad, whole)
    too_many(world, two, 3)
    too_many(world, world.plan("four", "mlp", ", bad_steps: 4", 2, "--pin", "mlp.dp=2", "--pin", "mlp.micro_batch=1"), 4)
    bad_weights(world, one, bad)
    nothing_counted(world, one)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
