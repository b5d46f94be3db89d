"""What a GPU makes of the project: conformance, parity, determinism, speed, the most valuable first, each part with a limit of its own. Leaves
bench/gpu/DEVICE.json, with the hash of the sources that ran, for the repository.

    python3 bench/gpu/run.py [build/gpu.tar.xz] [--minutes 8] [--fake build/release/test/fake-cuda]

Needs a driver and Python alone; cuBLASLt and cuDNN are looked for where the toolkit and PyTorch keep them. Without cuDNN attention is slow, and
the ledger says so.
"""

from __future__ import annotations

import argparse
import array
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import struct
import sys
import tarfile
import tempfile
import time
import traceback

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from machine import Machine, first  # noqa: E402: found by the line above

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PROFILE_SECONDS = {"each": 0.02}  # A kernel of a size.


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
    passed = len(re.findall(r"\[       OK \]", said))  # Also of one that took too long.
    return {"good": status == 0 and passed > 0, "passed": passed, "failed": failed, **({} if status == 0 else {"status": status, "said": said[-3000:]})}


def metrics(out: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def parity(machine, name, case, seconds):
    """Losses and gradients beside the CPU's, and two runs the same. Ranks are processes, which map each other's memory, and at last threads."""
    cases, found, several = machine.folder / "cases", [], case["devices"] > 1
    deadline = time.monotonic() + seconds
    for attempt in range(3 if several else 2):
        out, threads = cases / f"{name}-out{attempt}", attempt == 2
        # Threads share the GPU's context: a kernel that is loaded when it is first launched may wait for what other ranks' streams wait for.
        status, said = machine.run("maestro-run", case["plans"][machine.kind()], "--data", *case["data"], "--out", out, "--steps", case["steps"], "--save-gradients",
                                   "--quiet", *(["--ranks", "processes"] if several and not threads else []), seconds=min(deadline - time.monotonic(), 20 if threads else seconds), cwd=cases,
                                   settings={"CUDA_MODULE_LOADING": "EAGER"} if threads else {})
        if status and threads:
            return judged(case, found, cases / f"{name}.safetensors") | {"good": False, "threads": {"status": status, "said": said[-1500:]}}
        if status:
            return {"good": False, "status": status, "said": said[-2000:]}
        found.append(out)
    return judged(case, found, cases / f"{name}.safetensors")


def judged(case, found, gradients):
    expected = case["losses"]
    losses = [line["loss"] for line in metrics(found[0])]
    errors = [abs(a - b) / abs(b) for a, b in zip(losses, expected)]
    result = {"losses": losses, "loss_errors": errors}
    good = len(errors) == len(expected) and all(error <= limit for error, limit in zip(errors, case["loss_limits"]))
    own, theirs = safetensors(found[0] / "gradients.safetensors"), safetensors(gradients)
    wrong = {}
    for key, limit in case["gradient_limits"].items():
        over = [error for a, b in zip(own[key], theirs[key]) if not (error := abs(a - b)) <= limit]  # Not numbers, too.
        if over:
            wrong[key] = [over[0], limit]
    result["wrong_gradients"] = wrong
    good = good and not wrong
    same = all((found[0] / relative).read_bytes() == (other / relative).read_bytes() for other in found[1:]
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
        if refused := first(said, r"(processes 0 and 1 share GPU .*, which NCCL [0-9.]+ refuses)"):
            return {"good": None, "transport": transport, "not measured": refused}
        if any(status for status, _ in ends):
            return {"good": False, "transport": transport, "statuses": [status for status, _ in ends], "said": said[-2000:]}
        versions.append(first(said, r"have met: (.*)"))
        saved.append({path.name: path.read_bytes() for path in out.glob("checkpoint-*/*.safetensors")})
    return {"good": saved[0] == saved[1], "ways": versions}


def speed(machine, name, case, seconds):
    """Steps on synthetic data, as many as there is time for; no checkpoint is waited for. Then a few more, kernel by kernel."""
    cases = machine.folder / "cases"
    out, trace = cases / f"{name}-out", cases / f"{name}-trace.json"
    arguments = ["maestro-run", case["plans"][machine.kind()], "--quiet", "--steps"]
    status, said = machine.run(*arguments, case["steps"], "--out", out, seconds=seconds * 0.6, cwd=cases,
                               until=lambda: (out / "metrics.jsonl").exists() and len(metrics(out)) >= case["steps"])
    lines = metrics(out) if (out / "metrics.jsonl").exists() else []
    if len(lines) < 2:
        return {"good": False, "status": status, "said": said[-2000:]}
    steps = sorted(line["step_seconds"] for line in lines[1:])
    median, tokens = steps[len(steps) // 2], lines[-1]["tokens"]
    # Of 989.4 TFLOP/s, an H100's and H200's dense bf16 rate (NVIDIA's datasheet).
    share = case["flops_per_token"] * tokens / median / 989.4e12
    result = {"good": status == 0, "status": status, "attention": slow_attention(said), "step_seconds": median, "steps": steps, "tokens_per_second": tokens / median,
              "share_of_peak": share, "predicted_step_seconds": lines[-1]["predicted_step_seconds"], "peak_bytes": lines[-1]["peak_bytes"],
              "losses": [line["loss"] for line in lines]}
    status, said = machine.run(*arguments, 2, "--trace", trace, seconds=seconds * 0.4, cwd=cases)
    return result | ({"kernels": kernels_of(trace, case["least"])} if status == 0 else {"good": False, "trace": said[-1000:]})


def kernels_of(trace: pathlib.Path, least: dict[str, float]) -> dict[str, dict]:
    """Milliseconds of all calls of a kernel in the last step, beside the least (step.py); the longest first."""
    spent = collections.defaultdict(float)
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") == "kernel":
            spent[event["name"]] += event["dur"] / 1e3
    return {kernel: {"ms": round(spent[kernel] / 2, 3), "least_ms": round(1e3 * least.get(kernel, 0), 3)} for kernel in sorted(spent, key=spent.get, reverse=True)[:24]}


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
        status, said = machine.run("maestro-run", case["plans"][machine.kind()], "--data", *case["data"], "--out", out, "--steps", case["graph_steps"], "--quiet",
                                   seconds=seconds / 2, cwd=cases, settings={"MAESTRO_CUDA_GRAPHS": mode})
        if status:
            return {"good": False, "status": status, "said": said[-2000:]}
        steps = sorted(line["step_seconds"] for line in metrics(out)[case["graph_steps"] // 3:])
        result[f"step_seconds_{mode}"] = steps[len(steps) // 2]
        result[f"losses_{mode}"] = [line["loss"] for line in metrics(out)][-3:]
    result["good"] = result["losses_never"] == result["losses_always"]
    return result


def profile(machine, seconds):
    """Rates for maestro-plan, as users measure them."""
    out = machine.folder / "device.yaml"
    status, said = machine.run("maestro-profile", "-o", out, "--device", "gpu", "--seconds", PROFILE_SECONDS["each"], seconds=seconds)
    return {"good": status == 0, "device_yaml": out.read_text()} if status == 0 else {"good": False, "status": status, "said": said[-2000:]}


def parts_of(machine: Machine, all_cases: dict) -> dict:
    """By name, the most valuable first: the most seconds, and what is done. What goes wrong in one costs its own time alone."""
    def runs(part):
        named = {name: case for name, case in all_cases.items() if bool(case.get("speed")) == (part is speed)}
        return {name: (75 if part is speed else 20 + 20 * case["devices"], lambda seconds, name=name, case=case: part(machine, name, case, seconds)) for name, case in named.items()}

    comparisons = runs(parity)
    single = {name: part for name, part in comparisons.items() if all_cases[name]["devices"] == 1}
    basic = {name: single[name] for name in ("gpt2", "bf16") if name in single}
    parts = {"device": (40, lambda seconds: google_test(machine, "device_test", "Cuda/*", seconds)),
             "kernels": (100, lambda seconds: google_test(machine, "kernels_device_test", "*", seconds))}
    parts |= basic | runs(speed) | single
    if "gpt2" in all_cases:
        parts["graphs"] = (40, lambda seconds: graphs(machine, "graphs", all_cases["gpt2"], seconds))
    parts |= comparisons
    parts["world"] = (60, lambda seconds: google_test(machine, "world_test", "*CudaThreads*:*CudaMapped*", seconds))
    if two := next((name for name, case in all_cases.items() if case["devices"] > 1), None):
        parts["nccl"] = (60, lambda seconds: nccl(machine, "nccl", all_cases[two], seconds))
    return parts | {"profile": (90, lambda seconds: profile(machine, seconds))}


def unpacked(pack: pathlib.Path, folder: pathlib.Path) -> dict:
    with tarfile.open(pack) as archive:
        archive.extractall(folder)
    return json.loads((folder / "pack.json").read_text())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", nargs="?", type=pathlib.Path, default=ROOT / "build" / "gpu.tar.xz")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--parts", default="", help="Only parts whose names have one of these, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT") or ROOT / "bench" / "gpu"))
    parser.add_argument("--fake", type=pathlib.Path, help="A rehearsal on the libraries of this folder, which need no GPU (build/release/test/fake-cuda)")
    options = parser.parse_args()
    if options.fake:
        os.environ |= {"LD_LIBRARY_PATH": str(options.fake.resolve()), "MAESTRO_GPU_NAME": "H100 (fake)", "MAESTRO_FAKE_CUDA_DEVICES": "1", "OMP_WAIT_POLICY": "passive",
                       "MAESTRO_FAKE_CUDA_DELAY_US": "1", "MAESTRO_FAKE_NCCL_VERSION": "23000"}
        PROFILE_SECONDS["each"] = 0.001
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="maestro-gpu-", ignore_cleanup_errors=True) as made:
        folder = pathlib.Path(made)
        pack = unpacked(options.pack, folder)
        machine = Machine(folder)
        ledger = {"device": machine.name, "facts": machine.facts, "sources": pack["sources"], "date": time.strftime("%Y-%m-%d"), "parts": {}}
        target = options.out / f"{re.sub(r'[^a-z0-9]+', '-', machine.name.lower()).strip('-') or 'no-gpu'}.json"
        options.out.mkdir(parents=True, exist_ok=True)
        print(f"{machine.name}: {machine.facts}", flush=True)
        for name, (limit, part) in parts_of(machine, pack["cases"]).items():
            if not any(wanted in name for wanted in options.parts.split(",")):
                continue
            began, left = time.monotonic(), deadline - time.monotonic()
            try:
                result = part(min(limit, left)) if left > 5 else {"good": False, "said": "no time was left"}
            except Exception as failure:  # noqa: BLE001: the other parts are worth as much.
                result = {"good": False, "said": f"{type(failure).__name__}: {failure}", "where": traceback.format_exc()[-1500:]}
            ledger["parts"][name] = {"seconds": round(time.monotonic() - began, 1), **result}
            mark = {True: "ok  ", None: "none"}.get(result["good"], "FAIL")
            print(f"{mark} {name} {json.dumps(ledger['parts'][name])[:1500]}", flush=True)
            target.write_text(json.dumps(ledger, indent=1) + "\n")  # Whatever happens next, this is known.
    print(f"wrote {target}")
    return 0 if all(part["good"] is not False for part in ledger["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
