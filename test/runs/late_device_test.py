"""A device whose work completes late, and whose memory faults where the host reads it, leaves the same bytes: nothing in the
executor takes "returned" for "done", nor a device's pointer for the host's."""

import sys

import runs
import shards
from tools import different_files, metrics, newest_checkpoint

STEPS = 5
# Several micro-batches a step, of different lengths; bf16 has copies of its parameters; dropout reads sample ids.
TWO = ["--set", "cluster.devices_per_node=2", "--pin"]
CASES = {  # name: case, arguments of maestro-plan
    "gpt2": ("gpt2_logits", []),
    "llama": ("llama_logits", ["--set", "train.precision=bf16"]),
    "dropout": ("mlp_dropout", []),
    "stages": ("gpt2_logits", [*TWO, "*.stages=2"]),
    "replicas": ("gpt2_logits", [*TWO, "*.dp=2"]),
    "tensor": ("gpt2_logits", [*TWO, "*.tensor=2"]),
}


def least_idle(folder):
    """Seconds of the best step in which the device ran no program: the delays, where there are any."""
    return min(line["step_seconds"] - sum(section["busy"] for section in line["sections"].values()) for line in metrics(folder))


def judge(scratch, name, case_name, arguments):
    case = runs.zoo_case(case_name)
    bench = scratch.bench()
    samples = shards.make_samples(case, 20, seed=5)
    data = shards.write_shards(samples, scratch.path / f"{name}-data")
    plan = bench.plan(runs.exported(case), name, "--set", "train.global_batch=8", "--pin", "*.micro_batch=2", *arguments)
    prompt = bench.run(plan, data, f"{name}-prompt", "--steps", STEPS, "--save-gradients")
    for seed in (1, 2):
        late = bench.run(plan, data, f"{name}-late{seed}", "--steps", STEPS, "--save-gradients", "--late-device", seed)
        different = different_files(newest_checkpoint(prompt), newest_checkpoint(late))
        same_gradients = (prompt / "gradients.safetensors").read_bytes() == (late / "gradients.safetensors").read_bytes()
        same_losses = [line["loss"] for line in metrics(prompt)] == [line["loss"] for line in metrics(late)]
        scratch.check(f"{name} late {seed}", not different and same_gradients and same_losses,
                      "" if not different and same_gradients and same_losses else
                      f"differs: {different}, gradients {not same_gradients}, losses {not same_losses}")
        if arguments[: len(TWO)] == TWO: # Each waits for the other; when, says nothing of the delays.
            continue
        scratch.check(f"{name} late {seed} is late", least_idle(late) > least_idle(prompt),
                      f"{1e3 * least_idle(late):.1f} ms a step without work, {1e3 * least_idle(prompt):.1f} otherwise")


def main() -> int:
    scratch = runs.Scratch("late-device")
    for name, (case, arguments) in CASES.items():
        judge(scratch, name, case, arguments)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
