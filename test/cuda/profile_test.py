"""A GPU's profile, measured on a driver of our own: its rates mean nothing, but it is read, planned with, and says where numbers come from."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("MAESTRO_BIN", ROOT / "build/release/bin"))


def run(tool, *arguments, status=0):
    done = subprocess.run([BINARIES / tool, *map(str, arguments)], capture_output=True, text=True, timeout=240)
    if done.returncode != status:
        sys.exit(f"FAIL {tool} {arguments}: status {done.returncode}, not {status}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return done.stdout + done.stderr


def check(what, holds, details=""):
    print(f"{'ok  ' if holds else 'FAIL'} {what}{': ' + details if details and not holds else ''}", flush=True)
    if not holds:
        sys.exit(1)


def main():
    os.environ |= {"LD_LIBRARY_PATH": str(BINARIES.resolve().parent / "test" / "fake-cuda"), "MAESTRO_FAKE_CUDA_DELAY_US": "1"}
    with tempfile.TemporaryDirectory() as folder:
        profile, plan = pathlib.Path(folder) / "device.yaml", pathlib.Path(folder) / "plan.mpl"
        run("maestro-profile", "-o", profile, "--seconds", "0.001")
        text = profile.read_text()
        check("a GPU is measured where the driver finds one", "kind: h100-sxm" in text and 'name: "NVIDIA H100' in text, text[:400])
        for kernel in ("matmul f32", "matmul bf16", "matmul transposed f32", "attention causal", "add"):
            check(f"{kernel} has a curve", f"kernel: {kernel}, threads: 1, points: [[" in text)
        run("maestro-plan", ROOT / "examples/gpt/workload.yaml", "-o", plan, "--set", f"cluster.device={profile}")
        said = run("maestro-dump", plan, "--explain")
        check("the plan is for it", "1 x h100-sxm" in run("maestro-dump", plan))
        check("its times are measured ones", "measured: profile of NVIDIA H100" in said, said[-2000:])
        check("what is kept was measured", "context, kernels and product library, beside what plans may use: measured" in said, said[-2000:])
        refused = run("maestro-profile", plan, "-o", profile, "--device", "gpu", status=1)
        check("plans are refused with a GPU", "leave the plans out" in refused, refused)


if __name__ == "__main__":
    main()
