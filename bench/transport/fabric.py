"""A channel over libfabric beside a plain send and receive loop over the same veth: two machines of namespaces (root alone may make them).

    .venv/bin/python -B bench/transport/fabric.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/runs"))

from machines import Network  # noqa: E402: found by the line above

BINARY = pathlib.Path(os.environ.get("MAESTRO_BENCH", ROOT / "build/release/bench")) / "fabric_bench"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        network = Network(2, pathlib.Path(folder))
        try:
            machines = [word for number, machine in enumerate(network.machines) for word in (str(machine.pid), f"10.77.0.{number + 1}")]
            return subprocess.run([BINARY, *machines]).returncode
        finally:
            network.close()


if __name__ == "__main__":
    sys.exit(main())
