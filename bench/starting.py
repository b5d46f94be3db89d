"""How long jobs of many processes take to start, make two steps and end: forked by one process, and started beside each other as an engine does.

A model of some hundred parameters, a replica a rank: what is measured is what ranks say to each other.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "test" / "runs"), str(ROOT / "test" / "cli")]

import runs  # noqa: E402: first, it says where the others are

import good  # noqa: E402
from machines import Job, Loopback  # noqa: E402

COUNTS = [16, 64, 128, 256]


def main() -> int:
    scratch = runs.Scratch("starting")
    bench = scratch.bench()
    good.write_all(scratch.path)
    for count in COUNTS:
        plan = bench.plan(scratch.path / "workload.yaml", f"ranks{count}", "--set", f"cluster.devices_per_node={count}", "--set", f"train.global_batch={count}",
                          "--pin", f"*.dp={count}", "--pin", "*.micro_batch=1")
        began = time.monotonic()
        bench.succeed("maestro-run", plan, "--ranks", "processes", "--steps", 2, "--quiet")
        forked = time.monotonic() - began
        line = []
        for transport in ("auto", "libfabric"):
            if transport == "libfabric" and count > 64:  # Every process has a connection to every other one.
                continue
            began = time.monotonic()
            statuses, said = Job(scratch, Loopback(), count, plan, "--steps", 2, "--quiet", "--transport", transport).end(300)
            if any(statuses):
                print(next(text for text in said if text), file=sys.stderr)
                return 1
            line.append(f"{'through memory' if transport == 'auto' else 'over TCP'} {time.monotonic() - began:5.1f} s")
        print(f"{count:4} ranks: forked {forked:5.1f} s; started one by one, {', '.join(line)}", flush=True)
    print(f"on {subprocess.check_output(['nproc'], text=True).strip()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
