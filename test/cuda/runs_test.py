"""Whole runs on GPUs, by the maestro-run that users get, on a driver of our own: the same bits whatever the driver's delays are, and the
CPU's losses and gradients but for rounding."""

import contextlib
import json
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "runs")]

import runs  # noqa: E402: found by the line above
import export  # noqa: E402
import shards  # noqa: E402
import tolerances  # noqa: E402
from tools import different_files, losses, newest_checkpoint, safetensors  # noqa: E402

STEPS = 3
SETTINGS = (  # Of the driver, of maestro-run where there are several devices: the bits are the same from GPU to GPU and through the host.
    ({"MAESTRO_FAKE_CUDA_SEED": "1"}, ["--ranks", "processes"]),
    ({"MAESTRO_FAKE_CUDA_SEED": "2", "MAESTRO_FAKE_CUDA_NO_PEERS": "1"}, []),
)
DISTIL = """
components:
  teacher: {{model: {teacher}, frozen: true}}
  student: {{model: {student}}}
dims: {{batch: {{max: 1}}, seq: {{max: 64}}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, labels: labels, temperature: 2.0, weight: 0.5}}
"""
CASES = {  # name: case, devices, arguments of maestro-plan
    "dropout": ("mlp_dropout", 1, []),
    "gpt2": ("gpt2_logits", 1, []),
    "bf16": ("llama_logits", 1, ["--set", "train.precision=bf16"]),
    "replicas": ("gpt2_logits", 2, ["--pin", "*.dp=2"]),
    "stages": ("gpt2_logits", 2, ["--pin", "*.stages=2"]),
    "tensor": ("gpt2_logits", 2, ["--pin", "*.tensor=2"]),
    "distillation": ("gpt2_logits", 2, []),
    "muon": ("mlp_dropout", 1, ["--set", 'train.optimizer=[{muon: {parameters: ["first.weight", "second.weight"]}}, sgd]']),
    "adafactor": ("mlp_dropout", 1, ["--set", "train.optimizer=adafactor", "--set", "train.ema=0.9"]),
    "chunks": ("gpt2_logits", 1, ["--pin", "*.loss_chunks=64"]),  # Some without rows: a micro-batch has fewer.
}


def model(scratch, name, case):
    exported = runs.exported(case)
    if name != "distillation":
        return exported
    path = scratch.path / "distillation.yaml"
    path.write_text(DISTIL.format(teacher=export.export_variant(runs.zoo_case("llama_logits"), "opset20", export.models_folder()),
                                  student=exported))
    return path


@contextlib.contextmanager
def fake_driver(variables):
    variables = {"LD_LIBRARY_PATH": str(runs.BINARIES.resolve().parent / "test" / "fake-cuda"), **variables}
    os.environ |= variables
    yield
    for name in variables:
        del os.environ[name]


def near(found, expected, limit):
    return all(abs(a - b) <= limit * abs(b) for a, b in zip(found, expected, strict=True))


def loss_limits(name):
    if name == "bf16":
        return [tolerances.BF16_LOSS] * STEPS
    later = tolerances.BF16_LOSS if name == "muon" else tolerances.SECOND_LOSS  # Whose products are bf16 on a GPU.
    return [tolerances.LOSS] + [later] * (STEPS - 1)


def wrong_gradients(found, expected):
    """Names of parameters whose gradients are off by more than rounding."""
    norm = sum(float((g.astype("float64") ** 2).sum()) for g in expected.values()) ** 0.5
    return [name for name, gradient in expected.items() if gradient.size and
            abs(found[name] - gradient).max() > tolerances.gradient(float(abs(gradient).max()), norm)]


def judge(scratch, name, case_name, devices, plan_arguments):
    case = runs.zoo_case(case_name)
    bench = scratch.bench()
    data = shards.write_shards(shards.make_samples(case, 16, seed=5), scratch.path / f"{name}-data")

    def plan(kind):
        return bench.plan(model(scratch, name, case), f"{name}-{kind}", "--set", f"cluster.device={kind}", "--set", f"cluster.devices_per_node={devices}",
                          "--set", "train.global_batch=8", "--pin", "*.micro_batch=2", *plan_arguments)

    def run(made, label, *more):
        return bench.run(made, data, f"{name}-{label}", "--steps", STEPS, "--save-gradients", *more)

    cpu = run(plan("cpu"), "cpu")
    found, of_gpu = [], plan("h100-sxm")
    for number, (variables, arguments) in enumerate(SETTINGS):
        with fake_driver(variables):
            found.append(run(of_gpu, f"gpu{number}", *(arguments if devices > 1 else [])))
    same = not different_files(*map(newest_checkpoint, found)) and list(losses(found[0])) == list(losses(found[1]))
    scratch.check(f"{name} repeats", same)
    for step, limit in enumerate(loss_limits(name)):
        here, there = losses(found[0])[step], losses(cpu)[step]
        scratch.check(f"{name} loss of step {step + 1}", near([here], [there], limit), f"{here}, on the CPU {there}")
    for path in newest_checkpoint(found[0]).glob("*.ema.safetensors"):
        here, there = (safetensors(newest_checkpoint(folder) / path.name)[0] for folder in (found[0], cpu))
        off = {key: float(abs(values - there[key]).max()) for key, values in here.items()}
        scratch.check(f"{name} averages", len(off) > 1 and all(off[key] <= 1e-4 * abs(there[key]).max() + 1e-5 for key in off), f"{off}")
    if name != "bf16":
        wrong = wrong_gradients(*(safetensors(folder / "gradients.safetensors")[0] for folder in (found[0], cpu)))
        scratch.check(f"{name} gradients", not wrong, f"off: {wrong}" if wrong else "")


SLOW = "without tensor cores"


def judge_libraries(scratch):
    """Attention by cuDNN where it is; otherwise our own, said once. Going on with another version is said not to be bitwise."""
    case = runs.zoo_case("llama_logits")
    bench = scratch.bench()
    data = shards.write_shards(shards.make_samples(case, 8, seed=5), scratch.path / "libraries-data")
    plan = bench.plan(runs.exported(case), "libraries", "--set", "cluster.device=h100-sxm", "--set", "cluster.devices_per_node=1", "--set",
                      "train.global_batch=4", "--set", "train.precision=bf16", "--pin", "*.micro_batch=2")

    def run(label, *more, **environment):
        os.environ |= environment
        with fake_driver({}):
            done = bench.succeed("maestro-run", plan, "--data", data, "--out", scratch.path / label, *more)
        for name in environment:
            del os.environ[name]
        return done.stderr

    said = {name: run(name, "--steps", 1, **environment) for name, environment in {
        "served": {}, "refused": {"MAESTRO_FAKE_CUDNN_REFUSES": "1"}, "old": {"MAESTRO_FAKE_CUDNN_VERSION": "90900"}}.items()}
    scratch.check("cuDNN takes attention", SLOW not in said["served"], said["served"][-300:])
    scratch.check("where it refuses, that is said once", said["refused"].count(SLOW) == 1 and "cuDNN 9.26.0 refuses" in said["refused"], said["refused"][-600:])
    scratch.check("an old one is named", said["old"].count(SLOW) == 1 and "cuDNN is 9.9.0, and 9.11.0 or newer is needed" in said["old"], said["old"][-600:])
    with_library, without = (losses(scratch.path / name)[0] for name in ("served", "refused"))
    scratch.check("both have the same loss but for rounding", near([with_library], [without], tolerances.BF16_LOSS), f"{with_library}, {without}")

    state = json.loads((newest_checkpoint(scratch.path / "served") / "state.json").read_text())["device"]
    scratch.check("a checkpoint names what bits depend on", sorted(state) == ["cublaslt", "cudnn", "driver", "gpu", "kernels"] and
                  state["cudnn"] == "9.26.0" and "H100" in state["gpu"], f"{state}")
    same = run("served", "--steps", 2, "--resume")
    other = run("served", "--steps", 3, "--resume", MAESTRO_FAKE_CUDNN_VERSION="92500")
    scratch.check("the same versions go on in silence", "bitwise" not in same, same[-300:])
    scratch.check("others go on and say so", "cudnn 9.25.0 instead of 9.26.0: the run continues, but not bitwise" in other, other[-600:])


def main() -> int:
    scratch = runs.Scratch("cuda")
    for name in sys.argv[1:] or [*CASES, "libraries"]:
        if name == "libraries":
            judge_libraries(scratch)
        else:
            judge(scratch, name, *CASES[name])
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
