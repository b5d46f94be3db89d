"""Judges the files of one network: plans and runs them and compares loss and gradients with
PyTorch's.

Of one export, the verdict is the worst of its runs:

    right     losses within 1e-5, gradients within 1e-4 of each parameter's largest + 1e-6 of the
    global norm refused   maestro-plan or maestro-run ends with 1 and says why
    cannot    the exporter failed, or took too long
    WRONG     another loss or gradient
    CRASH     a signal, another status, or no end
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "parity"))
import tools  # noqa: E402

from survey_export import GLOBAL_BATCH, LENGTHS, CannotExport, prepare, with_fixed  # noqa: E402

SEVERITY = ["right", "cannot", "refused", "WRONG", "CRASH"]
ONE, SOME = ["*.micro_batch=1"], ["*.micro_batch=4"]  # 4 of 6 samples leave a smaller micro-batch.
STAGES = ["*.micro_batch=2", "*.stages=2", "*.dp=1"]
FREE = ["*.micro_batch=3"]  # Nearly always replicas: the search chooses.
LOSS_TOLERANCE = 1e-5
TOOL_SECONDS = 1800  # of a clock; of a core, a row has survey.py's limit
ROUNDING = 4  # how many times PyTorch's own float32 error is allowed where that is the larger


class Refused(Exception):
    pass


class Crashed(Exception):
    pass


def call_tool(binaries: pathlib.Path, folder: pathlib.Path, tool: str, *arguments) -> None:
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    line = [str(binaries / tool), *map(str, arguments)]
    try:
        done = subprocess.run(
            line,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=TOOL_SECONDS,
        )
    except subprocess.TimeoutExpired as expired:
        raise Crashed(f"{tool} took longer than {TOOL_SECONDS} s") from expired
    if done.returncode == 0:
        return
    said = done.stderr.strip() or done.stdout.strip() or "nothing said"
    if done.returncode == 1:
        raise Refused(f"{tool}: {said[-1500:]}")
    raise Crashed(f"{tool} status {done.returncode}: {said[-600:]}")


def runs_of(network) -> dict:
    """What a run is called: its devices, and what is pinned. Two stages take longer to plan than all
    the rest, so every fourth network has them, and the quick ones."""
    staged = network.quick or sum(network.name.encode()) % 4 == 0
    two = {"2 stages": (2, STAGES)} if staged else {"2 devices": (2, FREE)}
    return {"mb 1": (1, ONE), "mb 4": (1, SOME)} | two


def write_workload(network, expected: dict, folder: pathlib.Path) -> pathlib.Path:
    """What PyTorch's module knows and a graph does not say is said here: what is frozen, and how
    long sequences are."""
    named = {
        dim for field in network.fields.values() for dim in field.dims if isinstance(dim, str)
    } - {"batch"}
    lengths = LENGTHS | network.lengths
    dims = ", ".join(
        ["batch: {max: 1}", *(f"{dim}: {{max: {lengths[dim][1]}}}" for dim in sorted(named))]
    )
    loss = (
        f"output: {network.name}.loss"
        if network.scalar
        else f"cross_entropy: {{logits: {network.name}.logits, labels: labels}}"
    )
    pads = "".join(
        f"inputs: {{{field}: {{pad: {value}}}}}\n" for field, value in network.pads.items()
    )
    path = folder / "workload.yaml"
    frozen = json.dumps(expected["frozen"])
    path.write_text(
        f"components: {{{network.name}: {{model: {network.name}.onnx, frozen: {frozen}}}}}\n"
        f"{pads}dims: {{{dims}}}\nloss: [{{{loss}}}]\ntrain: {{global_batch: {GLOBAL_BATCH}}}\n"
    )
    return path


def compare(network, expected: dict, folder: pathlib.Path, out: pathlib.Path) -> tuple:
    """What is wrong, in words, and the largest error as a part of what is allowed."""
    wrong = []
    loss = tools.metrics(out)[0]["loss"]
    loss = math.nan if loss is None else loss  # JSON has no word for it.
    error = abs(loss - expected["loss"]) / max(abs(expected["loss"]), 1e-30)
    if not error <= LOSS_TOLERANCE:
        wrong.append(f"loss {loss:.8g}, PyTorch {expected['loss']:.8g}")
    tensors, _ = tools.safetensors(out / "gradients.safetensors")
    found = {name.removeprefix(network.name + "."): value for name, value in tensors.items()}
    found = {expected["aliases"].get(name, name): value for name, value in found.items()}
    truth = dict(numpy.load(folder / "expected.npz"))
    norm = float(numpy.sqrt(sum(float((value**2).sum()) for value in truth.values())))
    worst = error / LOSS_TOLERANCE
    for name, value in truth.items():
        largest = float(numpy.abs(value).max(initial=0.0))
        if name not in found:
            if largest > 1e-12 * norm:
                wrong.append(f"no gradient of {name} (largest {largest:.3g})")
            continue
        if found[name].shape != value.shape:
            wrong.append(f"{name} has shape {found[name].shape}, PyTorch {value.shape}")
            continue
        allowed = max(
            1e-4 * largest + 1e-6 * norm, ROUNDING * expected["rounding"].get(name, 0.0), 1e-30
        )
        off = float(numpy.abs(found[name] - value).max(initial=0.0)) / allowed
        worst = max(worst, off)
        if not off <= 1:
            wrong.append(
                f"{name} off by {off * allowed:.3g} (largest {largest:.3g}, allowed {allowed:.3g})"
            )
    for name in sorted(set(found) - set(truth)):
        if numpy.abs(found[name]).max(initial=0.0) > 1e-6 * norm:
            wrong.append(f"{name} has a gradient, PyTorch none")
    return wrong, worst


def judge_run(network, expected, folder, binaries, devices, pins) -> tuple:
    plan, out = folder / "plan.mpl", folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    pinned = [word for pin in pins for word in ("--pin", pin)]
    call_tool(
        binaries,
        folder,
        "maestro-plan",
        "workload.yaml",
        "-o",
        plan,
        "--set",
        f"cluster.devices_per_node={devices}",
        *pinned,
    )
    call_tool(
        binaries,
        folder,
        "maestro-run",
        plan,
        "--data",
        "data/*.tar",
        "--out",
        out,
        "--steps",
        1,
        "--seed",
        0,
        "--save-gradients",
    )
    wrong, worst = compare(network, expected, folder, out)
    shutil.rmtree(out, ignore_errors=True)
    plan.unlink(missing_ok=True)
    return (
        ("WRONG" if wrong else "right"),
        "; ".join(wrong[:4]) + (f"; {len(wrong)} in all" if len(wrong) > 4 else ""),
        worst,
    )


def judge(network, variant: str, folder: pathlib.Path, binaries: pathlib.Path, phase) -> dict:
    """{verdict, reason, worst, parameters, runs}; `phase` is told what is being done, for when this
    process is ended."""
    phase("exporting")
    try:
        prepare(network, variant, folder)
    except CannotExport as error:
        return {
            "verdict": "cannot",
            "reason": last_line(str(error)),
            "worst": 0.0,
            "parameters": 0,
            "runs": {},
        }
    phase("judging")
    expected = json.loads((folder / "expected.json").read_text())
    network = with_fixed(network, expected["fixed"])
    write_workload(network, expected, folder)
    runs, worst, reason = {}, 0.0, ""
    for run, (devices, pins) in runs_of(network).items():
        try:
            try:
                verdict, said, off = judge_run(network, expected, folder, binaries, devices, pins)
            except Refused:
                if pins != STAGES:
                    raise
                # Not every network can be cut in two.
                run = "2 devices"
                verdict, said, off = judge_run(network, expected, folder, binaries, devices, FREE)
            worst = max(worst, off)
        except Refused as error:
            verdict, said = "refused", str(error)
        except (Crashed, OSError, KeyError, ValueError, IndexError) as error:
            verdict, said = "CRASH", str(error)
        if SEVERITY.index(verdict) > max(
            [SEVERITY.index(other) for other in runs.values()], default=0
        ):
            reason = f"{run}: {said}" if verdict in ("WRONG", "CRASH") else said
        runs[run] = verdict
        if verdict == "refused" and run == "mb 1":
            break  # What one sample at a time cannot do, more cannot either.
    verdict = max(runs.values(), key=SEVERITY.index)
    return {
        "verdict": verdict,
        "reason": reason,
        "worst": worst,
        "parameters": expected["parameters"],
        "runs": runs,
        "kind": expected["kind"],
        "fixed": expected["fixed"],
    }


def last_line(text: str) -> str:
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in text.strip().splitlines()]
    lines = [line for line in lines if line]
    said = [line for line in lines if re.search(r"Error|Exception|not supported|cannot", line)]
    return (said or lines or ["nothing said"])[-1][:300]
