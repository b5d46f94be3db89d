"""The machine with the GPU: what it has, and programs of the pack run on it."""

from __future__ import annotations

import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

PYTHON_PLACES = [*sys.path, "/usr/lib/python3*/*-packages", "/usr/local/lib/python3*/*-packages", "/opt/*/lib/python3*/site-packages", "/opt/*/.venv/lib/python3*/site-packages",
                 os.path.expanduser("~/.local/lib/python3*/site-packages")]
# By name of a fact: the file, where packages of Python keep it. cuDNN compiles by nvrtc.
LIBRARIES = {"cublasLt": ("libcublasLt.so.1[23]", ("cublas", "cu13", "cu12")), "cudnn": ("libcudnn.so.9", ("cudnn",)),
             "nvrtc": ("libnvrtc.so.1[23]", ("cuda_nvrtc", "cu13", "cu12")), "nccl": ("libnccl.so.2", ("nccl",)), "driver library": ("libcuda.so.1", ())}


def first(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def loaders_folders() -> list[str]:
    """Where this machine's loader looks."""
    said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout if shutil.which("ldconfig") else ""
    return [os.path.dirname(path) for path in re.findall(r"=> (/\S+)", said)]


class Machine:
    def __init__(self, folder: pathlib.Path):
        self.folder, self.bin = folder, folder / "bin"
        said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader"], capture_output=True,
                              text=True, check=False).stdout if shutil.which("nvidia-smi") else ""
        self.facts = dict(zip(("name", "driver", "memory", "clock", "power"), (said.splitlines() or [""])[0].split(", ")))
        self.name = self.facts.get("name") or os.environ.get("MAESTRO_GPU_NAME", "")
        named = [place for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place]
        system = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu",
                  "/usr/lib64", *dict.fromkeys(loaders_folders())]
        found = []
        for fact, (file, parts) in LIBRARIES.items():
            patterns = named + [f"{place}/nvidia/{part}/lib" for place in PYTHON_PLACES for part in parts] + system
            places = [place for pattern in patterns for place in sorted(glob.glob(pattern), reverse=True) if glob.glob(f"{place}/{file}")]
            self.facts[fact] = places[0] if places else "not found"
            found += places[:1]
        self.libraries = list(dict.fromkeys([*named, str(self.bin), *found]))

    def kind(self) -> str:
        return "h200" if "H200" in self.name else "h100-sxm"

    def start(self, program: str, *arguments, cwd=None, settings=None, **streams) -> subprocess.Popen:
        """By the loader that was packed, since the machine's own C library may be older."""
        line = [self.bin / "ld-linux-x86-64.so.2", "--library-path", ":".join(self.libraries), self.bin / program, *arguments]
        # Else maestro-run sets it and starts itself anew, which here is the loader.
        environment = os.environ | (settings or {}) | {"GOMP_SPINCOUNT": "10000"}
        return subprocess.Popen([*map(str, line)], cwd=cwd, env=environment, start_new_session=True, text=True, errors="replace", stdin=subprocess.DEVNULL, **streams)

    def run(self, program: str, *arguments, seconds: float, cwd=None, settings=None, until=lambda: False) -> tuple[int, str]:
        """Its status and what it said. 124: it took too long. 0 as soon as `until()` holds, which is asked now and then; either ends all processes."""
        log = self.folder / f"said-{program}-{os.urandom(4).hex()}.txt"
        with log.open("w") as said:
            process = self.start(program, *arguments, cwd=cwd, settings=settings, stdout=said, stderr=subprocess.STDOUT)
            deadline, status = time.monotonic() + seconds, None
            try:
                while status is None:
                    try:
                        status = process.wait(timeout=0.2)
                    except subprocess.TimeoutExpired:
                        status = 0 if until() else 124 if time.monotonic() > deadline else None
            finally:
                end_all(process)
        return status, log.read_text(errors="replace")


def end_all(process: subprocess.Popen) -> None:
    """The process and those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
