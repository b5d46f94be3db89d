"""./dev gpu from end to end without a GPU: a small pack, and what runs it, on a driver of our own. On the day there is no time for a wrong path."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("MAESTRO_BIN", SOURCE / "build" / "release" / "bin")).resolve()
PARTS = ["device", "speed-llama-tiny", "graphs", "replicas", "nccl"]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="maestro-rehearsal-") as made:
        folder = pathlib.Path(made)
        subprocess.run([sys.executable, "-B", SOURCE / "bench/gpu/pack.py", "--rehearsal", "--build", BINARIES.parent, "--out", folder / "gpu.tar.xz"], check=True, stdout=subprocess.DEVNULL)
        said = subprocess.run([sys.executable, "-B", SOURCE / "bench/gpu/run.py", folder / "gpu.tar.xz", "--fake", BINARIES.parent / "test" / "fake-cuda", "--out", folder, "--parts",
                               ",".join(PARTS)], check=False, stdout=subprocess.PIPE, text=True)
        print(said.stdout)
        ledger = json.loads((folder / "h100-fake.json").read_text())
    good = said.returncode == 0 and list(ledger["parts"]) == PARTS and all(part["good"] is True for part in ledger["parts"].values())
    speed = ledger["parts"]["speed-llama-tiny"]
    measured = speed["share_of_peak"] > 0 and speed["kernels"]["matmul"]["ms"] > speed["kernels"]["matmul"]["least_ms"] > 0 and "NCCL" in str(ledger["parts"]["nccl"]["ways"])
    print("ok" if good and measured else f"FAIL: status {said.returncode}, {json.dumps(ledger['parts'])}")
    return 0 if good and measured else 1


if __name__ == "__main__":
    sys.exit(main())
