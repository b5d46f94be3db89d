"""What a GPU makes of the project: conformance, parity, determinism, speed, the most valuable first, each part with a limit of its own. Leaves
bench/gpu/DEVICE.json, with the hash of the sources that ran, for the repository.

    python3 bench/gpu/run.py [build/gpu.tar.xz] [--minutes 8]

Needs a driver and Python alone; cuBLASLt and cuDNN are looked for where the toolkit and PyTorch keep them. Without cuDNN attention is slow, and
the ledger says so.
"""

from __future__ import annotations

import argparse
import array
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARY_PLACES = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu", *(
    f"{place}/nvidia/{part}/lib" for place in ("/usr/lib/python3*/*-packages", "/usr/local/lib/python3*/*-packages", "/opt/*/lib/python3*/site-packages",
                                               os.path.expanduser("~/.local/lib/python3*/site-packages"), *sys.path) for part in ("cublas", "cudnn", "cuda_nvrtc", "cu13", "cu12", "nccl"))]


def first(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


class Machine:
    def __init__(self, folder: pathlib.Path):
        self.folder, self.bin = folder, folder / "bin"
        said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader"], capture_output=True,
                              text=True, check=False).stdout if shutil.which("nvidia-smi") else ""
        self.facts = dict(zip(("name", "driver", "memory", "clock", "power"), (said.splitlines() or [""])[0].split(", ")))
        self.name = self.facts.get("name") or os.environ.get("MAESTRO_GPU_NAME", "")
        found = []
        for fact, file in (("cublasLt", "libcublasLt.so.1*"), ("cudnn", "libcudnn.so.9"), ("nvrtc", "libnvrtc.so.1*"), ("nccl", "libnccl.so.2")):  # cuDNN compiles by the last.
            places = [place for pattern in LIBRARY_PLACES for place in sorted(glob.glob(pattern), reverse=True) if glob.glob(f"{place}/{file}")]
            self.facts[fact] = places[0] if places else "not found"
            found += places[:1]
        drivers = glob.glob("/usr/lib/x86_64-linux-gnu/libcuda.so.1") + glob.glob("/usr/local/nvidia/lib64/libcuda.so.1") + glob.glob("/usr/lib64/libcuda.so.1")
        self.libraries = [place for place in (os.environ.get("LD_LIBRARY_PATH"), str(self.bin), *dict.fromkeys(found), *(os.path.dirname(path) for path in drivers[:1])) if place]

    def kind(self) -> str:
        return "h200" if "H200" in self.name else "h100-sxm"

    def run(self, program: str, *arguments, seconds: float, cwd=None, settings=None) -> tuple[int, str]:
        """By the loader that was packed, since the machine's own C library may be older. Status 124: it took too long."""
        line = [self.bin / "ld-linux-x86-64.so.2", "--library-path", ":".join(self.libraries), self.bin / program, *map(str, arguments)]
        environment = os.environ | (settings or {}) | {"GOMP_SPINCOUNT": "10000"}  # Else maestro-run sets it and starts itself anew, which here is the loader.
        try:
            done = subprocess.run([*map(str, line)], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired as late:
            return 124, (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return done.returncode, done.stdout


def safetensors(path: pathlib.Path) -> dict[str, array.array]:
    """f32 tensors by name."""
    bytes_ = path.read_bytes()
    length = struct.unpack("<Q", bytes_[:8])[0]
    tensors = {}
    for name, facts in json.loads(bytes_[8:8 + length]).items():
        if name != "__metadata__" and facts["dtype"] == "F32":
            tensors[name] = array.array("f", bytes_[8 + length + facts["data_offsets"][0]:8 + length + facts["data_offsets"][1]])
    return tensors


def google_test(machine, program, filter_, seconds):
    status, said = machine.run(program, f"--gtest_filter={filter_}", seconds=seconds, cwd=machine.folder)
    failed = sorted(set(re.findall(r"\[  FAILED  \] (\S+)", said)))
    passed = int(first(said, r"\[  PASSED  \] (\d+)") or 0)
    return {"good": status == 0 and passed > 0, "passed": passed, "failed": failed, **({} if status == 0 else {"status": status, "said": said[-3000:]})}


def metrics(out: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def parity(machine, name, case, seconds):
    """Losses and gradients beside the CPU's, and two runs the same: ranks as processes, which map each other's memory, and as threads."""
    cases, found = machine.folder / "cases", []
    for attempt in range(2):
        out = cases / f"{name}-out{attempt}"
        status, said = machine.run("maestro-run", case["plans"][machine.kind()], "--data", *case["data"], "--out", out, "--steps", case["steps"], "--save-gradients",
                                   "--quiet", *(["--ranks", "processes"] if case["devices"] > 1 and attempt == 0 else []), seconds=seconds / 2, cwd=cases)
        if status:
            return {"good": False, "status": status, "said": said[-2000:]}
        found.append(out)
    expected = case["losses"]
    losses = [line["loss"] for line in metrics(found[0])]
    errors = [abs(a - b) / abs(b) for a, b in zip(losses, expected)]
    result = {"losses": losses, "loss_errors": errors}
    good = len(errors) == len(expected) and all(error <= limit for error, limit in zip(errors, case["loss_limits"]))
    own, theirs = safetensors(found[0] / "gradients.safetensors"), safetensors(cases / f"{name}.safetensors")
    wrong = {}
    for key, limit in case["gradient_limits"].items():
        over = [error for a, b in zip(own[key], theirs[key]) if not (error := abs(a - b)) <= limit]  # Not numbers, too.
        if over:
            wrong[key] = [over[0], limit]
    result["wrong_gradients"] = wrong
    good = good and not wrong
    same = all((found[0] / relative).read_bytes() == (found[1] / relative).read_bytes()
               for relative in (path.relative_to(found[0]) for path in found[0].glob("checkpoint-*/*.safetensors")))
    return {"good": good and same, "repeats": same, **result}


def nccl(machine, name, case, seconds):
    """Two processes on one GPU, as an engine starts them: what NCCL moves gives the same bits as memory that both map."""
    cases, saved, versions = machine.folder / "cases", [], []
    for transport in ("auto", "nccl"):
        out, port = cases / f"{name}-{transport}", str(20000 + os.getpid() % 20000)
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "MAESTRO_JOB_SECRET": os.urandom(16).hex()}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ends = list(pool.map(lambda rank: machine.run("maestro-run", case["plans"][machine.kind()], "--data", *case["data"], "--out", out, "--steps", 2, "--transport",
                                                          transport, seconds=seconds / 2, cwd=cases, settings={**common, "RANK": str(rank)}), range(2)))
        said = "\n".join(text for _, text in ends)
        if any(status for status, _ in ends):
            return {"good": False, "transport": transport, "statuses": [status for status, _ in ends], "said": said[-2000:]}
        versions.append(first(said, r"have met: (.*)"))
        saved.append({path.name: path.read_bytes() for path in out.glob("checkpoint-*/*.safetensors")})
    return {"good": saved[0] == saved[1], "ways": versions}


def speed(machine, name, case, seconds):
    cases = machine.folder / "cases"
    out = cases / f"{name}-out"
    status, said = machine.run("maestro-run", case["plans"][machine.kind()], "--out", out, "--steps", case["steps"], "--quiet", seconds=seconds, cwd=cases)
    if status:
        return {"good": False, "status": status, "said": said[-2000:]}
    steps = sorted(line["step_seconds"] for line in metrics(out)[1:])
    median, tokens = steps[len(steps) // 2], metrics(out)[-1]["tokens"]
    # Of 989.4 TFLOP/s, an H100's and H200's dense bf16 rate (NVIDIA's datasheet).
    share = case["flops_per_token"] * tokens / median / 989.4e12
    return {"good": True, "device": device_of(out), "attention": slow_attention(said), "step_seconds": median, "tokens_per_second": tokens / median, "share_of_peak": share, "predicted_step_seconds": metrics(out)[-1]["predicted_step_seconds"],
            "peak_bytes": metrics(out)[-1]["peak_bytes"]}


def device_of(out: pathlib.Path) -> dict:
    """GPU, driver and libraries, as the run's checkpoint records them."""
    states = sorted(out.glob("checkpoint-*/state.json"))
    return json.loads(states[-1].read_text()).get("device", {}) if states else {}


def slow_attention(said: str) -> str:
    """Why attention was not cuDNN's, or that it was."""
    return first(said, r"without tensor cores[^:]*: (.*)") or "cuDNN"


def graphs(machine, name, case, seconds):
    """A small model's steps, whose launches are the limit: kernel by kernel, and as graphs."""
    cases, result = machine.folder / "cases", {"good": True}
    for mode in ("never", "always"):
        out = cases / f"{name}-{mode}"
        status, said = machine.run("maestro-run", case["plans"][machine.kind()], "--data", *case["data"], "--out", out, "--steps", 60, "--quiet", *case["arguments"],
                                   seconds=seconds / 2, cwd=cases, settings={"MAESTRO_CUDA_GRAPHS": mode})
        if status:
            return {"good": False, "status": status, "said": said[-2000:]}
        steps = sorted(line["step_seconds"] for line in metrics(out)[20:])
        result[f"step_seconds_{mode}"] = steps[len(steps) // 2]
        result[f"losses_{mode}"] = [line["loss"] for line in metrics(out)][-3:]
    result["good"] = result["losses_never"] == result["losses_always"]
    return result


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", nargs="?", type=pathlib.Path, default=ROOT / "build" / "gpu.tar.xz")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--parts", default="", help="Only parts whose names have this")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT") or ROOT / "bench" / "gpu"))
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="maestro-gpu-") as made:
        folder = pathlib.Path(made)
        with tarfile.open(options.pack) as archive:
            archive.extractall(folder)
        pack = json.loads((folder / "pack.json").read_text())
        machine = Machine(folder)
        ledger = {"device": machine.name, "facts": machine.facts, "sources": pack["sources"], "date": time.strftime("%Y-%m-%d"), "parts": {}}
        target = options.out / f"{re.sub(r'[^a-z0-9]+', '-', machine.name.lower()).strip('-') or 'no-gpu'}.json"
        options.out.mkdir(parents=True, exist_ok=True)
        print(f"{machine.name}: {machine.facts}", flush=True)
        parts = {"device": (60, lambda seconds: google_test(machine, "device_test", "Cuda/*", seconds)),
                 "kernels": (150, lambda seconds: google_test(machine, "kernels_device_test", "*", seconds))}
        for name, case in pack["cases"].items():
            part = speed if case.get("speed") else parity
            parts[name] = (90, lambda seconds, part=part, name=name, case=case: part(machine, name, case, seconds))
        parts["graphs"] = (60, lambda seconds: graphs(machine, "graphs", pack["cases"]["gpt2"], seconds))
        parts["world"] = (90, lambda seconds: google_test(machine, "world_test", "*CudaThreads*:*CudaMapped*", seconds))
        if two := next((name for name, case in pack["cases"].items() if case.get("devices", 1) > 1), None):
            parts["nccl"] = (60, lambda seconds: nccl(machine, "nccl", pack["cases"][two], seconds))
        for name, (limit, part) in parts.items():
            if options.parts not in name:
                continue
            began, left = time.monotonic(), deadline - time.monotonic()
            try:
                result = part(min(limit, left)) if left > 5 else {"good": False, "said": "no time was left"}
            except Exception as failure:  # noqa: BLE001: the other parts are worth as much.
                result = {"good": False, "said": f"{type(failure).__name__}: {failure}"}
            ledger["parts"][name] = {"seconds": round(time.monotonic() - began, 1), **result}
            print(f"{'ok  ' if result['good'] else 'FAIL'} {name} {json.dumps(ledger['parts'][name])[:1500]}", flush=True)
            target.write_text(json.dumps(ledger, indent=1) + "\n")  # Whatever happens next, this is known.
    print(f"wrote {target}")
    return 0 if all(part["good"] for part in ledger["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
