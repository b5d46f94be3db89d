"""--validate: what it reports is what --evaluate says of the checkpoint of that step, and training does not notice it.

A teacher on a device of its own, which runs ahead where it may, and a student of two stages in two replicas.
"""

from __future__ import annotations

import os
import subprocess
import sys

import runs  # First: it says where the others are.

import export
import numpy
import shards
import zoo
from tools import DISTILLATION, STAGES_AND_REPLICAS, different_files, evaluated, metrics


def samples(count, seed):
    random = numpy.random.default_rng(seed)
    return [{name: random.integers(3, zoo.VOCABULARY, length) for name in ("input_ids", "labels")} for length in random.integers(4, 48, count)]


class World:
    def __init__(self, scratch):
        self.scratch, self.bench, self.path = scratch, scratch.bench(), scratch.path
        cases, folder = zoo.all_cases(), export.models_folder()
        models = {name: export.export_variant(cases[case], "opset20", folder)
                  for name, case in (("teacher", "llama_logits"), ("student", "qwen3_logits"))}
        for name, rate in (("calm", 1e-3), ("wild", 0.3)):
            (self.path / f"{name}.yaml").write_text(DISTILLATION.format(**models, lr=rate))
        self.plan = self.bench.plan(self.path / "calm.yaml", "calm", *STAGES_AND_REPLICAS)
        self.wild = self.bench.plan(self.path / "wild.yaml", "wild", *STAGES_AND_REPLICAS)
        shards.write_shards(samples(40, 1), self.path / "train")
        shards.write_shards(samples(21, 2), self.path / "held-out")
        self.data = ["--data", "train/*.tar"]
        self.held_out = ["--validate", "held-out/*.tar"]

    def check(self, what, good, detail=""):
        return self.scratch.check(what, good, "" if good else str(detail))

    def run(self, out, *arguments, plan=None):
        line = [self.bench.binaries / "maestro-run", plan or self.plan, *self.data, "--out", out, *arguments]
        return subprocess.run([str(word) for word in line], cwd=self.path, capture_output=True, text=True, timeout=200)

    def succeeds(self, out, *arguments, plan=None):
        done = self.run(out, *arguments, plan=plan)
        self.check(f"{out} ends well", done.returncode == 0, done.stderr[-400:])
        return done

    def validations(self, out):
        return {line["step"]: line["validation"] for line in metrics(self.path / out) if "validation" in line}

    def checkpoints(self, out):
        return sorted(path.name for path in (self.path / out).glob("checkpoint-*"))


def says_what_evaluate_says(world):
    world.succeeds("plain", "--steps", 9, "--save-every", 2)
    for ranks in ("threads", "processes"):
        out = f"validated-{ranks}"
        done = world.succeeds(out, "--steps", 9, "--save-every", 2, *world.held_out, "--validate-every", 4, "--ranks", ranks)
        world.check(f"{ranks}: training is the same", not different_files(world.path / "plain/checkpoint-000009", world.path / out / "checkpoint-000009"))
        found = world.validations(out)
        world.check(f"{ranks}: when", list(found) == [4, 8, 9], found.keys())
        world.check(f"{ranks}: the progress line has it", done.stderr.count("  validation ") == 3, done.stderr)
        for step, said in found.items():
            weights = world.path / out / f"checkpoint-{step:06d}" / "student.safetensors"
            expected = evaluated(world.bench.succeed("maestro-run", world.plan, "--data", "held-out/*.tar", "--evaluate",
                                                     "--weights", f"student={weights}"))
            near = all(abs(said["losses"][name] - value) <= 1e-8 * value for name, value in expected["losses"].items())
            world.check(f"{ranks}, step {step}: what --evaluate says", said["samples"] == expected["samples"] == 21 and near
                        and set(said["losses"]) == {"cross_entropy", "kl_divergence"}, f"{said} {expected}")
    lines = [metrics(world.path / f"validated-{ranks}") for ranks in ("threads", "processes")]
    world.check("the same in threads and processes", [line.get("validation", {}).get("loss") for line in lines[0]]
                == [line.get("validation", {}).get("loss") for line in lines[1]])
    world.succeeds("at-the-end", "--steps", 3, *world.held_out)
    world.check("without --validate-every the last step's alone", list(world.validations("at-the-end")) == [3])


def keeps_the_best(world):
    """At a rate at which the losses go up and down."""
    arguments = ["--steps", 8, *world.held_out, "--validate-every", 1, "--save-every", 3, "--keep-last", 1, "--keep-best", "cross_entropy"]
    done = world.succeeds("best", *arguments, plan=world.wild)
    found = {step: said["losses"]["cross_entropy"] for step, said in world.validations("best").items()}
    best = min(found, key=found.get)
    link = world.path / "best/best"
    world.check("the link leads to the best", os.readlink(link) == f"checkpoint-{best:06d}", f"{os.readlink(link)} {found}")
    world.check("the end says which", f"of step {best}" in done.stderr.splitlines()[-1], done.stderr[-200:])
    world.check("the best and the last are kept", world.checkpoints("best") == sorted({f"checkpoint-{best:06d}", "checkpoint-000008"}),
                world.checkpoints("best"))
    world.check("there is a last one that is not the best", best not in (7, 8), found)
    world.succeeds("resumed", *["--steps", 6, *arguments[2:]], plan=world.wild)
    world.succeeds("resumed", *arguments, "--resume", plan=world.wild)
    world.check("a run that was interrupted keeps the same", world.checkpoints("resumed") == world.checkpoints("best")
                and os.readlink(world.path / "resumed/best") == os.readlink(link), world.checkpoints("resumed"))
    for name in world.checkpoints("best"):
        world.check(f"with the same bytes, {name}", not different_files(world.path / "best" / name, world.path / "resumed" / name))
    world.succeeds("resumed", "--steps", 1, "--overwrite")
    world.check("--overwrite removes the link", not os.path.lexists(world.path / "resumed/best"))


def ends_without_gain(world):
    for ranks in ("threads", "processes"):
        out = f"over-{ranks}"
        done = world.succeeds(out, "--steps", 200, *world.held_out, "--validate-every", 2, "--stop-after-no-gain", 3, "--ranks", ranks, plan=world.wild)
        losses = [said["loss"] for said in world.validations(out).values()]
        since = [index - numpy.argmin(losses[: index + 1]) for index in range(len(losses))]
        last = 2 * len(losses)
        world.check(f"{ranks}: it ends after three", since[-1] == 3 and max(since[:-1]) < 3, losses)
        world.check(f"{ranks}: and says and saves so", "3 validations without a gain" in done.stderr
                    and world.checkpoints(out) == [f"checkpoint-{last:06d}"], done.stderr[-300:])


def refuses(world):
    for what, arguments, words in (
            ("--validate-every alone", ["--validate-every", 2], ["--validate-every", "needs --validate"]),
            ("--keep-best alone", ["--keep-best", "loss"], ["--keep-best", "needs --validate"]),
            ("no steps between", [*world.held_out, "--stop-after-no-gain", 2], ["needs --validate-every"]),
            ("--evaluate", [*world.held_out, "--evaluate"], ["without --evaluate"]),
            ("a loss that is not there", [*world.held_out, "--keep-best", "mse"], ["mse", "loss, cross_entropy, kl_divergence"]),
            ("data that is not there", ["--validate", "gone.tar"], ["--validate", "gone.tar"])):
        done = world.run("refused", "--steps", 1, *arguments)
        lacks = [word for word in words if word not in done.stderr]
        world.check(f"refused: {what}", done.returncode == 1 and done.stderr.count("error:") == 1 and not lacks, f"{lacks} {done.stderr[-300:]}")


def main() -> int:
    scratch = runs.Scratch("validation")
    world = World(scratch)
    for part in (says_what_evaluate_says, keeps_the_best, ends_without_gain, refuses):
        part(world)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
