"""What the host takes to queue a step of a Llama of 32 layers: processor time of the rank's thread, which does nothing else, on a driver of our own. Widths
are tiny, so that the driver's kernels are quick; calls are as many as at any width. Beside it, the least that an 8B's step of those calls can take at the
data sheet's rate, with samples of 4,096 tokens.

    .venv/bin/python -B bench/gpu/host_time.py [--binaries build/release/bin] [--steps 40]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import time

import pack  # Of what else is run on GPUs; it says where the rest is.
import runs
import step

LAYERS, BATCH, SEQUENCE = 32, 2, 4096


def rank_seconds(bench, plan: pathlib.Path, steps: int) -> float:
    """Of the thread called "rank 0", from its beginning to its end as far as was looked."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=pack.ROOT / "build" / "release" / "bin")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    runs.BINARIES = arguments.binaries.resolve()
    scratch = runs.Scratch("host-time")
    bench, few = scratch.bench(), 5
    _, workload = pack.export_llama(scratch.path, "tiny", "tiny", LAYERS, 16, BATCH)
    plan = bench.plan(workload, "tiny", "--set", "cluster.device=h100-sxm", "--set", "cluster.devices_per_node=1", "--pin", "*.micro_batch=1")
    seconds = (rank_seconds(bench, plan, few + arguments.steps) - rank_seconds(bench, plan, few)) / arguments.steps
    least = pack.flops_per_token(pack.llama("8b", LAYERS), SEQUENCE) * SEQUENCE * BATCH / step.FLOPS_PER_S
    print(f"{seconds * 1e3:.2f} ms a step of {BATCH} micro-batches and {LAYERS} layers, {seconds / least:.1%} of the {least * 1e3:.0f} ms that an 8B's takes at least")
    scratch.finish()


if __name__ == "__main__":
    main()
