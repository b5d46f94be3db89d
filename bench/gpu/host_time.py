"""What the host takes to queue a step of a Llama of 32 layers: processor time of the rank's thread, which does nothing else, on a driver of our own. Widths
are tiny, so that the driver's kernels are quick; calls are as many as at any width. Beside it, the least that an 8B's step of those calls can take at the
data sheet's rate, with samples of 4,096 tokens.

    python3 bench/gpu/host_time.py [--binaries build/release/bin] [--steps 40]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test" / "runs"), str(ROOT / "examples" / "large"), str(ROOT / "bench" / "gpu")]
LAYERS, BATCH = 32, 2
FLOPS_PER_S = 989.4e12  # An H100's and H200's dense bf16 rate (NVIDIA's data sheet).
WORKLOAD = """\
components: {{model: {{model: {graph}}}}}
dims: {{batch: {{combine: sum, max: 1}}, seq: {{combine: max, max: {sequence}}}}}
loss: [{{cross_entropy: {{logits: model.logits, labels: labels}}}}]
train: {{global_batch: {batch}, precision: bf16, optimizer: {{adamw: {{lr: 1e-4}}}}}}
"""


def plan(bench) -> pathlib.Path:
    import large
    import torch

    network = large.on_meta(lambda: large.NextToken(large.llama_config("tiny", LAYERS)))
    ids = (torch.zeros(2, 64, dtype=torch.int64, device="meta"), {0: "batch", 1: "seq"})
    large.export(network, bench.scratch / "tiny.onnx", {"input_ids": ids}, ["logits"])
    workload = bench.scratch / "tiny.yaml"
    workload.write_text(WORKLOAD.format(graph="tiny.onnx", sequence=16, batch=BATCH))
    return bench.plan(workload, "tiny", "--set", "cluster.device=h100-sxm", "--set", "cluster.devices_per_node=1", "--pin", "*.micro_batch=1")


def least_seconds(sequence: int) -> float:
    """Six operations a weight and token, and the half of attention that causality leaves."""
    import large

    network = large.on_meta(lambda: large.NextToken(large.llama_config("8b", LAYERS)))
    weights = sum(parameter.numel() for key, parameter in network.named_parameters() if "embed_tokens" not in key)
    return (6 * weights + 6 * LAYERS * network.config.hidden_size * sequence) * sequence * BATCH / FLOPS_PER_S


def rank_seconds(bench, plan: pathlib.Path, steps: int) -> float:
    """Of the thread called \"rank 0\", from its beginning to its end as far as was looked."""
    variables = {"LD_LIBRARY_PATH": str(bench.binaries.parent / "test" / "fake-cuda"), "OMP_WAIT_POLICY": "passive", "MAESTRO_FAKE_CUDA_DELAY_US": "0",
                 "MAESTRO_FAKE_CUDA_HIDES_NOTHING": "1", "MAESTRO_CUDA_GRAPHS": "never"}
    process = subprocess.Popen([bench.binaries / "maestro-run", plan, "--quiet", "--steps", str(steps)], cwd=bench.scratch, env=os.environ | variables,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds = 0.0
    while process.poll() is None:
        for thread in pathlib.Path(f"/proc/{process.pid}/task").glob("*"):
            try:
                if (thread / "comm").read_text().strip() == "rank 0":
                    seconds = int((thread / "schedstat").read_text().split()[0]) * 1e-9
            except (OSError, IndexError, ValueError):
                continue  # It has ended.
        time.sleep(0.005)
    if process.returncode != 0:
        sys.exit(process.stderr.read())
    return seconds


def main() -> None:
    import runs

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    runs.BINARIES = arguments.binaries.resolve()
    scratch = runs.Scratch("host-time")
    bench = scratch.bench()
    tiny, few = plan(bench), 5
    seconds = (rank_seconds(bench, tiny, few + arguments.steps) - rank_seconds(bench, tiny, few)) / arguments.steps
    least = least_seconds(4096)
    print(f"{seconds * 1e3:.2f} ms a step of {BATCH} micro-batches and {LAYERS} layers, {seconds / least:.1%} of the {least * 1e3:.0f} ms that an 8B's takes at least")
    scratch.finish()


if __name__ == "__main__":
    main()
