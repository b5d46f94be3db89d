"""A training step of Maestro against PyTorch eager's: same network, weights, tokens, threads and dtype, side by side.

    .venv/bin/python bench/compare_pytorch.py [MODEL…] [--dtype f32 --dtype bf16] [--pairs 5] [--steps 4]

Prints, per model and dtype: the median over pairs of PyTorch's step time ÷ Maestro's (above 1 Maestro is faster), and
Maestro's peak memory ÷ PyTorch's (below 1 Maestro is leaner). A pair is some steps of one directly followed by as many of
the other, because machines change speed over minutes. PyTorch's memory is its peak (VmHWM) minus what it held after its
imports; Maestro's is the process's whole peak. PyTorch computes bf16 under autocast.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "test" / "models"))
BATCH, SEQUENCE, WARM = 4, 256, 2

LLAMA = dict(num_key_value_heads=4, max_position_embeddings=SEQUENCE, bos_token_id=0, eos_token_id=0)
GPT2 = dict(n_positions=SEQUENCE, bos_token_id=0, eos_token_id=0)
SETTINGS = {
    "llama_5m": ("LlamaConfig", "LlamaForCausalLM", dict(
        LLAMA, vocab_size=4096, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4)),
    "gpt2_5m": ("GPT2Config", "GPT2LMHeadModel", dict(GPT2, vocab_size=8192, n_embd=256, n_layer=4, n_head=4)),
    "llama_55m": ("LlamaConfig", "LlamaForCausalLM", dict(
        LLAMA, vocab_size=32000, hidden_size=512, intermediate_size=1408, num_hidden_layers=7, num_attention_heads=8)),
    "gpt2_55m": ("GPT2Config", "GPT2LMHeadModel", dict(GPT2, vocab_size=50257, n_embd=512, n_layer=9, n_head=8)),
}

WORKLOAD = """\
components: {{{name}: {{model: {graph}}}}}
dims: {{batch: {{combine: sum}}, seq: {{combine: max, max: {sequence}}}}}
loss: [{{cross_entropy: {{logits: {name}.logits, labels: labels}}}}]
train: {{global_batch: {batch}, precision: {dtype}}}
"""


def make_case(name):
    import zoo

    config, model, settings = SETTINGS[name]
    high = settings["vocab_size"]
    fields = {"input_ids": zoo.Field(("batch", "seq"), "ids", high), "labels": zoo.Field(("batch", "seq"), "ids", high)}
    return zoo.Case(name, "bench", zoo.causal_lm(config, model, False, False, **settings), fields, ("input_ids",),
                    ("logits",), zoo.cross_entropy)


def make_samples(name):
    import numpy

    random = numpy.random.default_rng(1)
    high = SETTINGS[name][2]["vocab_size"]
    return [{field: random.integers(0, high, SEQUENCE) for field in ("input_ids", "labels")} for _ in range(BATCH)]


def memory(key: str) -> int:
    """VmHWM or VmRSS of this process, bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


# ---- the PyTorch side, a process of its own ------------------------------------------------------------------------


def worker(name: str, dtype: str) -> int:
    """Reads a number of steps a line; answers their seconds and losses, and the peak so far."""
    import torch
    import transformers.models.gpt2.modeling_gpt2  # noqa: F401: imports are not what is measured
    import transformers.models.llama.modeling_llama  # noqa: F401

    import export

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    imported = memory("VmRSS")
    case = make_case(name)
    module = export.build_module(case)  # eval(), as exported: a dropout here would be work that the other side does not do
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    samples = make_samples(name)
    batch = {field: torch.stack([torch.from_numpy(sample[field]) for sample in samples]) for field in samples[0]}

    def step():
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = case.loss({"logits": module(batch["input_ids"])}, batch)
        loss.backward()
        optimizer.step()
        return time.perf_counter() - start, loss.item()

    print("ready", flush=True)
    for line in sys.stdin:
        steps = [step() for _ in range(int(line))]
        print(json.dumps({"seconds": [s for s, _ in steps], "losses": [loss for _, loss in steps],
                          "peak": memory("VmHWM") - imported}), flush=True)
    return 0


class PyTorch:
    def __init__(self, name, dtype, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, "--worker", name, dtype], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment)
        while self.process.stdout.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise RuntimeError("the PyTorch process ended before it was ready")

    def run(self, steps: int) -> dict:
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the Maestro side -----------------------------------------------------------------------------------------------


class Maestro:
    """One plan; every run starts a process anew, so its first steps are left out of the medians."""

    def __init__(self, name, dtype, binaries, folder, environment):
        import export
        import shards

        self.binaries, self.folder, self.environment = binaries, folder, environment
        case = make_case(name)
        graph = export.export_variant(case, "opset20", export.models_folder())
        (folder / "workload.yaml").write_text(WORKLOAD.format(name=name, graph=graph, sequence=SEQUENCE, batch=BATCH,
                                                             dtype=dtype))
        self.data = shards.write_shards(make_samples(name), folder / "data")
        self.command("maestro-plan", "workload.yaml", "-o", "plan.mpl", "--pin", f"*.micro_batch={BATCH}")

    def command(self, tool, *arguments):
        done = subprocess.run([str(self.binaries / tool), *map(str, arguments)], cwd=self.folder, text=True,
                              capture_output=True, env=self.environment)
        if done.returncode != 0:
            raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr.strip()[-600:]}")

    def run(self, steps: int) -> dict:
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        self.command("maestro-run", "plan.mpl", "--data", self.data, "--steps", steps, "--out", "run")
        lines = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        return {"seconds": [line["step_seconds"] for line in lines], "losses": [line["loss"] for line in lines],
                "peak": max(line["peak_bytes"] for line in lines)}


def compare(name, dtype, arguments, environment) -> dict:
    with tempfile.TemporaryDirectory(prefix="maestro-compare-") as folder:
        maestro = Maestro(name, dtype, arguments.binaries.resolve(), pathlib.Path(folder), environment)
        pytorch = PyTorch(name, dtype, environment)
        first = pytorch.run(WARM)["losses"][0]
        ratios, ours, theirs = [], [], []
        for pair in range(arguments.pairs):
            # Alternating who goes first, so that neither always meets the cooler machine.
            if pair % 2:
                found = maestro.run(arguments.steps + WARM)
                expected = pytorch.run(arguments.steps)
            else:
                expected = pytorch.run(arguments.steps)
                found = maestro.run(arguments.steps + WARM)
            ours.append(statistics.median(found["seconds"][WARM:]))
            theirs.append(statistics.median(expected["seconds"]))
            ratios.append(theirs[-1] / ours[-1])
        pytorch.close()
    return {"model": name, "dtype": dtype, "ratio": statistics.median(ratios), "worst": min(ratios), "best": max(ratios),
            "maestro_seconds": statistics.median(ours), "pytorch_seconds": statistics.median(theirs),
            "maestro_peak": found["peak"], "pytorch_peak": expected["peak"],
            "first_losses": [found["losses"][0], first]}


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        return worker(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(SETTINGS)}; default: all")
    parser.add_argument("--dtype", action="append", choices=["f32", "bf16"])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="measured steps of each side of a pair")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--binaries", type=pathlib.Path, default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    parser.add_argument("--json", type=pathlib.Path, help="also writes the figures there")
    arguments = parser.parse_args()
    arguments.binaries = pathlib.Path(arguments.binaries)
    unknown = sorted(set(arguments.models) - set(SETTINGS))
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(SETTINGS)}")
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    print(f"{'model':10s} {'dtype':5s} {'speed':>6s} {'range':>13s} {'Maestro':>9s} {'PyTorch':>9s} {'memory':>7s}  first loss")
    rows = []
    for name in arguments.models or SETTINGS:
        for dtype in arguments.dtype or ["f32", "bf16"]:
            row = compare(name, dtype, arguments, environment)
            rows.append(row)
            print(f"{name:10s} {dtype:5s} {row['ratio']:5.2f}× {row['worst']:5.2f} – {row['best']:4.2f}× "
                  f"{1e3 * row['maestro_seconds']:6.0f} ms {1e3 * row['pytorch_seconds']:6.0f} ms "
                  f"{row['maestro_peak'] / row['pytorch_peak']:6.2f}×  "
                  f"{row['first_losses'][0]:.5f} / {row['first_losses'][1]:.5f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
