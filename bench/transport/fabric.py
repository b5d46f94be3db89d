"""A channel over libfabric beside a plain send and receive loop over the same veth: two machines of namespaces (root alone may make them). Or over verbs,
in two virtual machines with Soft-RoCE, beside ib_write_bw (Debian: perftest), which polls, and so takes time from the device that their one
processor emulates.

    .venv/bin/python -B bench/transport/fabric.py [verbs]
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test/runs"), str(ROOT / "test/guests")]

from guests import Guests, address  # noqa: E402: found by the line above
from machines import Network  # noqa: E402

BINARY = pathlib.Path(os.environ.get("MAESTRO_BENCH", ROOT / "build/release/bench")) / "fabric_bench"
SIZES = {64 << 10: 300, 1 << 20: 24, 4 << 20: 8}  # How many of them a repetition sends.
REPETITIONS = 5


def both(place, *commands, **options):
    """What the second says; the first waits for it, or it for the first."""
    waiting, other = (subprocess.Popen([*place.prefix(number), *map(str, command)], text=True, stdout=subprocess.PIPE, **options)
                      for number, command in enumerate(commands))
    said = [process.communicate(timeout=600)[0] for process in (waiting, other)]
    if waiting.returncode or other.returncode:
        sys.exit(f"{commands} failed: {said}")
    return said


def beside_ib_write_bw():
    addresses = [address(number) for number in range(2)]
    with tempfile.TemporaryDirectory(prefix="maestro-guests-") as folder, Guests(pathlib.Path(folder)) as guests:
        for size, count in SIZES.items():
            channels, writes = [], []
            for _ in range(REPETITIONS):
                line = [*addresses, "verbs", size, count]
                channels.append(float(both(guests, [BINARY, 0, *line], [BINARY, 1, *line])[0]))
                line = ["ib_write_bw", "-d", "rxe0", "-x", 1, "-m", 4096, "-F", "-s", size, "-n", count]
                said = both(guests, line, ["sh", "-c", f"sleep 1; {' '.join(map(str, line))} {addresses[0]}"])[1]
                writes.append(float(re.search(rf"^ *{size} +\d+ +\S+ +(\S+)", said, re.MULTILINE)[1]) * 2**20 / 1e6)
            ratios = [channel / write for channel, write in zip(channels, writes)]
            print(f"{size:8} bytes: channel {statistics.median(channels):7.1f} MB/s, ib_write_bw {statistics.median(writes):7.1f} MB/s; ratio "
                  f"{statistics.median(ratios):.2f} median, {min(ratios):.2f} to {max(ratios):.2f}", flush=True)


def beside_sockets():
    with tempfile.TemporaryDirectory() as folder:
        network = Network(2, pathlib.Path(folder))
        try:
            print(both(network, *([BINARY, number, "10.77.0.1", "10.77.0.2"] for number in range(2)))[0], end="")
        finally:
            network.close()


if __name__ == "__main__":
    beside_ib_write_bw() if sys.argv[1:] == ["verbs"] else beside_sockets()
