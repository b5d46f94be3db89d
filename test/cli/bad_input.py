"""What the tools say to bad input: status 1, words that name the thing, no signal, nothing half-written, within a minute.

    python test/cli/bad_input.py [GROUP…] [--binaries DIR] [--only WORD] [--flips 40]

Groups: models, workloads, plans, data, weights, checkpoints, damage. Without any: all. Status 1 if a case failed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy

import good
import wrong_data
import wrong_models
import wrong_plans
import wrong_workloads

LIMIT_SECONDS = 60
CRASHES = ("terminate called", "Assertion", "AddressSanitizer", "runtime error:", "LLVM ERROR", "Stack dump", "PLEASE submit")
MOST_LINES = 12


def file_state(path):
    """What changes when a file is written; None where there is none."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None


class Judge:
    """One scratch folder per case, holding a copy of all valid files; counts what failed and goes on."""

    def __init__(self, binaries, scratch: pathlib.Path, only: str):
        self.binaries, self.scratch, self.only = pathlib.Path(binaries).resolve(), scratch, only
        self.good = scratch / "good"
        self.passed, self.failures, self.number = 0, [], 0
        good.write_all(self.good)

    def wanted(self, name: str) -> bool:
        return self.only in name

    def folder(self) -> pathlib.Path:
        self.number += 1
        folder = self.scratch / f"case{self.number}"
        shutil.copytree(self.good, folder, ignore=shutil.ignore_patterns("run"))
        return folder

    def command(self, folder, tool, *arguments):
        line = [str(self.binaries / tool), *map(str, arguments)]
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        try:
            return subprocess.run(line, cwd=folder, capture_output=True, text=True, errors="replace",
                                  timeout=LIMIT_SECONDS, env=environment)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(line, "timeout", "", f"took longer than {LIMIT_SECONDS} s")

    def verdict(self, name, done, complaints) -> None:
        if not complaints:
            self.passed += 1
            return
        self.failures.append(name)
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        print(f"FAIL {name}: {'; '.join(complaints)}\n     {shlex.join(done.args)}\n     said: {said}", flush=True)

    def refused(self, name, folder, words, tool, *arguments, statuses=(1,), leaves=()):
        """One case: everything that bad input must get. `leaves` may not be written."""
        for path in leaves:
            (folder / path).unlink(missing_ok=True)
        before = {path: file_state(folder / path) for path in leaves}
        done = self.command(folder, tool, *arguments)
        complaints = crash_complaints(done)
        if done.returncode not in statuses:
            complaints.append(f"status {done.returncode}, expected {' or '.join(map(str, statuses))}")
        absent = [word for word in words if not has_word(done.stderr, word)]
        if absent:
            complaints.append(f"the message lacks {absent}")
        if len(done.stderr.strip().splitlines()) > MOST_LINES:
            complaints.append(f"{len(done.stderr.splitlines())} lines instead of one message")
        complaints += [f"left {path} behind" for path in leaves if file_state(folder / path) not in (None, before[path])]
        complaints += [f"left {path.name} behind" for path in folder.glob("*.tmp*")]
        self.verdict(name, done, complaints)
        shutil.rmtree(folder)

    def survived(self, name, folder, tool, *arguments):
        """Random damage: any ordered end will do."""
        done = self.command(folder, tool, *arguments)
        complaints = crash_complaints(done)
        if done.returncode not in (0, 1):
            complaints.append(f"status {done.returncode}")
        elif done.returncode == 1 and not done.stderr.strip():
            complaints.append("said nothing")
        kept = self.scratch / "kept" / name.replace(" ", "-").replace("/", "-")
        if complaints:
            shutil.copytree(folder, kept, dirs_exist_ok=True)
        self.verdict(name, done, complaints)
        shutil.rmtree(folder)


def crash_complaints(done) -> list:
    if isinstance(done.returncode, int) and (done.returncode < 0 or done.returncode >= 126):
        return [f"signal or exec trouble, status {done.returncode}"]
    return [f"says {word!r}" for word in CRASHES if word in done.stderr]


def has_word(text: str, word) -> bool:
    words = word if isinstance(word, tuple) else (word,)
    return any(each.lower() in text.lower() for each in words)


# ---- groups -------------------------------------------------------------------------------------------------------


def models(judge):
    for name, (write, words) in wrong_models.MODELS.items():
        if judge.wanted(name):
            folder = judge.folder()
            judge.refused(name, folder, words, "maestro-plan", write(folder), "-o", "plan.mpl", leaves=["plan.mpl"])


def workloads(judge):
    edits = list(wrong_workloads.misspelt_edits())
    edits += [(name, text, words) for name, (text, words) in wrong_workloads.FILES.items()]
    for name, text, words in edits:
        if judge.wanted(name):
            folder = judge.folder()
            (folder / "workload.yaml").write_text(text)
            judge.refused(name, folder, words, "maestro-plan", "workload.yaml", "-o", "plan.mpl", leaves=["plan.mpl"])
    flags = dict(wrong_workloads.PLAN_FLAGS)
    for setting, values in wrong_workloads.SETTINGS.items():
        for value in values:
            flags[f"setting {setting}={value}"] = (["--set", f"{setting}={value}"], [setting.split(".")[-1]])
    for name, (arguments, words) in flags.items():
        if judge.wanted(name):
            judge.refused(name, judge.folder(), words, "maestro-plan", "workload.yaml", "-o", "plan.mpl", *arguments,
                          leaves=["plan.mpl"])
    for name, (text, words) in wrong_workloads.CLUSTERS.items():
        if judge.wanted(name):
            folder = judge.folder()
            (folder / "cluster.yaml").write_text(text)
            (folder / "device.yaml").write_text(wrong_workloads.OTHER_PROFILE)
            judge.refused(name, folder, words, "maestro-plan", "workload.yaml", "--cluster", "cluster.yaml", "-o", "plan.mpl",
                          leaves=["plan.mpl"])
    for stages in (1, 2, 3, 4):
        name = f"pin {stages} stages, as many as there can be"
        if judge.wanted(name):
            folder = judge.folder()
            done = judge.command(folder, "maestro-plan", "workload.yaml", "-o", "plan.mpl", "--set", "cluster.devices_per_node=4", "--pin",
                                 f"tokens.stages={stages}")
            judge.verdict(name, done, [] if done.returncode == 0 else [f"status {done.returncode}"])
    muon = '[{muon: {parameters: ["*weight"]}}, sgd]'
    for name, flags, words in (
        ("muon of vectors", ["--set", "train.optimizer=muon"], ["bias", "has the shape", "Muon", "parameters"]),
        ("muon of what devices share", ["--set", f"train.optimizer={muon}", "--pin", "mlp.tensor=2", "--set", "cluster.devices_per_node=2"],
         ["weight", "2 devices", "Muon", "tensor=1"]),
    ):
        if judge.wanted(name):
            judge.refused(name, judge.folder(), words, "maestro-plan", "mlp.onnx", "-o", "plan.mpl", *flags, leaves=["plan.mpl"])
    for source, pin in (("workload.yaml", "tokens.dp=1"), ("mlp.onnx", "mlp.tensor=2")):
        name = f"pin {pin} is compared with what is found without"
        if judge.wanted(name):
            judge.verdict(name, *pinned_beside(judge, source, pin))
    for name, case in (("output over the model", lambda name: output_over_input(judge, name, "mlp.onnx")),
                       ("output over the workload", lambda name: output_over_input(judge, name, "workload.yaml")),
                       ("output above the file size limit", lambda name: plan_above_file_size(judge, name))):
        if judge.wanted(name):
            case(name)
    name = "output in no folder"
    if judge.wanted(name):
        judge.refused(name, judge.folder(), ["nowhere"], "maestro-plan", "workload.yaml", "-o", "nowhere/plan.mpl",
                      statuses=(1, 2))


def output_over_input(judge, name, file):
    """What the plan points at stays."""
    folder = judge.folder()
    before = (folder / file).read_bytes()
    done = judge.command(folder, "maestro-plan", file, "-o", f"./{file}")
    complaints = crash_complaints(done) + ([] if "another file" in done.stderr and file in done.stderr else ["names no remedy"])
    if done.returncode != 1 or (folder / file).read_bytes() != before:
        complaints.append(f"status {done.returncode}, or the file is lost")
    judge.verdict(name, done, complaints)


def plan_above_file_size(judge, name):
    """A file size limit is like a full disk: status 2, one message, nothing half-written."""
    folder = judge.folder()
    line = ["sh", "-c", 'ulimit -f 4; exec "$@"', "sh", str(judge.binaries / "maestro-plan"), "mlp.onnx", "-o", "small.mpl"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    left = [path.name for path in folder.glob("small.mpl*")]
    judge.verdict(name, done, crash_complaints(done) + ([] if done.returncode == 2 and not left and "small.mpl" in done.stderr
                                                        else [f"status {done.returncode}, left {left}"]))


def pinned_beside(judge, source, pin):
    """(what was run, complaints): a pinned layout is the first of the comparison, the rest says that it obeys no pins."""
    folder = judge.folder()
    done = judge.command(folder, "maestro-plan", source, "-o", "plan.mpl", "--set", "cluster.devices_per_node=2", "--pin", pin)
    if done.returncode != 0:
        return done, [f"status {done.returncode}"]
    plan = json.loads(judge.command(folder, "maestro-dump", "plan.mpl", "--format", "json").stdout)
    subjects = [row["subject"] for row in plan["candidates"] if row["kind"] == "Layout"]
    complaints = [] if subjects[0] == "pinned" and "search without pins" in subjects else [f"compares {subjects}"]
    complaints += [f"{subject} is said to obey" for subject in subjects[1:] if not subject.endswith(" without pins")]
    return done, complaints


def plans(judge):
    content = (judge.good / "plan.mpl").read_bytes()
    for name, (change, words) in wrong_plans.PLANS.items():
        if not judge.wanted(name):
            continue
        folder = judge.folder()
        (folder / "wrong.mpl").write_bytes(change(content))
        judge.refused(name, folder, words, "maestro-run", "wrong.mpl", "--data", "shard.tar", "--steps", 1, "--out", "out",
                      leaves=["out/metrics.jsonl"])
    if judge.wanted("plan for another machine"):
        folder = judge.folder()
        (folder / "cluster.yaml").write_text("devices_per_node: 8\ndevice: h100-sxm\n")
        judge.command(folder, "maestro-plan", "workload.yaml", "--cluster", "cluster.yaml", "-o", "other.mpl")
        judge.refused("plan for another machine", folder, ["8 devices", "h100-sxm", "78000000000", "cluster.device=cpu"], "maestro-run", "other.mpl",
                      "--data", "shard.tar", "--steps", 1, "--out", "out", statuses=(2,), leaves=["out/metrics.jsonl"])
    for degree, value in (("zero_stage", 3), ("context_parallel", 2), ("expert_parallel", 4)):
        if judge.wanted(name := f"plan with {degree}"):
            folder = judge.folder()
            judge.command(folder, "../test/edit_plan", "plan.mpl", "edited.mpl", f"{degree}={value}")
            judge.refused(name, folder, ["tokens", f"{degree} {value}"], "maestro-run", "edited.mpl", "--data", "shard.tar", "--steps", 1)
    if judge.wanted("plan missing"):
        judge.refused("plan missing", judge.folder(), ["gone.mpl"], "maestro-run", "gone.mpl", "--data", "shard.tar")
    if judge.wanted("plan model changed"):
        folder = judge.folder()
        (folder / "tokens.onnx").write_bytes((folder / "tokens.onnx").read_bytes() + b"\0" * 8)
        judge.refused("plan model changed", folder, ["tokens.onnx"], "maestro-run", "plan.mpl", "--data", "shard.tar")
    if judge.wanted("plan model gone"):
        folder = judge.folder()
        (folder / "tokens.onnx").unlink()
        judge.refused("plan model gone", folder, ["tokens.onnx"], "maestro-run", "plan.mpl", "--data", "shard.tar")


def data(judge):
    for name, (write, words) in wrong_data.DATA.items():
        if judge.wanted(name):
            folder = judge.folder()
            judge.refused(name, folder, words, "maestro-run", "plan.mpl", "--data", write(folder), "--steps", 4, "--out", "out",
                          leaves=["out/metrics.jsonl", "out/plan.mpl"])
            planning = judge.folder()  # Headers alone are read: values are not complained of.
            arguments = ["maestro-plan", "workload.yaml", "-o", "sized.mpl", "--data", write(planning)]
            if name.startswith(("id ", "label ")):
                judge.survived(f"{name}, planning", planning, *arguments)
            else:
                judge.refused(f"{name}, planning", planning, words, *arguments, leaves=["sized.mpl"])
    for name, (arguments, words) in wrong_data.RUN_FLAGS.items():
        if judge.wanted(name):
            judge.refused(name, judge.folder(), words, "maestro-run", "plan.mpl", "--data", "shard.tar", *arguments,
                          statuses=(1, 2) if "writable" in name else (1,))
    if judge.wanted("data id found late"):
        found_late(judge, "data id found late")


def found_late(judge, name):
    """An id whose use is not followed (it is doubled first) is beyond the table: the message names the samples at work."""
    folder = judge.folder()
    graph = good.tokens_graph()
    graph.initializer.append(good.numpy_helper.from_array(numpy.array(2, numpy.int64), "two"))
    graph.node.insert(0, good.helper.make_node("Mul", ["input_ids", "two"], ["doubled"], name="node_double"))
    graph.node[1].input[1] = "doubled"
    good.write_model(graph, folder / "tokens.onnx")
    members = [[f"{key}.{field}.npy", good.array_bytes(numpy.array([1, value]))]
               for key, value in (("first", 2), ("second", 9)) for field in ("input_ids", "labels")]
    good.write_tar(members, folder / "late.tar")
    judge.command(folder, "maestro-plan", "workload.yaml", "-o", "late.mpl", "--pin", "*.micro_batch=1")
    judge.refused(name, folder, ["gather", "18", "second", "late.tar"], "maestro-run", "late.mpl", "--data", "late.tar", "--steps", 1)


def weights(judge):
    for name, (write, words) in wrong_data.WEIGHTS.items():
        if judge.wanted(name):
            folder = judge.folder()
            judge.refused(name, folder, words, "maestro-run", "plan.mpl", "--data", "shard.tar", "--steps", 1,
                          "--weights", write(folder))


def checkpoints(judge):
    whole = judge.good / "run"
    done = judge.command(judge.good, "maestro-run", "plan.mpl", "--data", "shard.tar", "--steps", 2, "--out", "run")
    if done.returncode != 0:
        judge.verdict("checkpoint to damage", done, [f"status {done.returncode}"])
        return
    if judge.wanted("checkpoint without frozen values"):
        frozen_values_forgotten(judge, "checkpoint without frozen values")
    if judge.wanted("checkpoint of another workload"):
        folder = judge.folder()
        wrong_data.copy_run(whole, folder / "run")
        judge.command(folder, "maestro-plan", "workload.yaml", "-o", "other.mpl", "--set", "train.global_batch=3")
        judge.refused("checkpoint of another workload", folder, ["another workload", "maestro-dump diff run/plan.mpl", "--weights COMPONENT=run/"],
                      "maestro-run", "other.mpl", "--data", "shard.tar", "--steps", 3, "--out", "run", "--resume")
    if judge.wanted("checkpoint beyond the steps"):
        folder = judge.folder()
        wrong_data.copy_run(whole, folder / "run")
        done = judge.command(folder, "maestro-run", "plan.mpl", "--data", "shard.tar", "--steps", 1, "--out", "run", "--resume")
        told = "--steps 1: the run has come to step 2" in done.stderr + done.stdout
        judge.verdict("checkpoint beyond the steps", done, [] if told and done.returncode == 0 else ["nothing is said of --steps 1"])
    for name, (change, words) in wrong_data.CHECKPOINTS.items():
        if judge.wanted(name):
            folder = judge.folder()
            change(wrong_data.copy_run(whole, folder / "run"))
            judge.refused(name, folder, words, "maestro-run", "plan.mpl", "--data", "shard.tar", "--steps", 3, "--out",
                          "run", "--resume")


TWICE = """\
components: {teacher: {model: tokens.onnx, frozen: true}, student: {model: tokens.onnx}}
dims: {seq: {max: 12}}
loss: [{kl_divergence: {student: student.logits, teacher: teacher.logits}}]
inputs: {input_ids: {to: [teacher.input_ids, student.input_ids]}}
train: {global_batch: 4}
"""


def frozen_values_forgotten(judge, name):
    """A frozen component is not in the checkpoint: a resumed run needs the --weights of the first one."""
    folder = judge.folder()
    (folder / "twice.yaml").write_text(TWICE)
    weights = wrong_data.weights()(folder).replace("tokens=", "teacher=")
    judge.command(folder, "maestro-plan", "twice.yaml", "-o", "twice.mpl")
    first = judge.command(folder, "maestro-run", "twice.mpl", "--data", "shard.tar", "--steps", 1, "--out", "twice", "--weights", weights)
    again = judge.command(folder, "maestro-run", "twice.mpl", "--data", "shard.tar", "--steps", 2, "--out", "twice", "--resume", "--weights", weights)
    if first.returncode or again.returncode:
        judge.verdict(name, again, [f"statuses {first.returncode} and {again.returncode} with the weights: {first.stderr[-200:]}"])
        return
    judge.refused(name, folder, ["teacher", "wrong.safetensors", "--weights"], "maestro-run", "twice.mpl", "--data", "shard.tar", "--steps", 3,
                  "--out", "twice", "--resume")


def damage(judge, count):
    """Random damage to a graph, a workload, a plan, a shard."""
    targets = [
        ("mlp.onnx", "maestro-plan", ["mlp.onnx", "-o", "plan.mpl"]),
        ("workload.yaml", "maestro-plan", ["workload.yaml", "-o", "plan.mpl"]),
        ("plan.mpl", "maestro-run", ["plan.mpl", "--data", "shard.tar", "--steps", 1]),
        ("shard.tar", "maestro-run", ["plan.mpl", "--data", "shard.tar", "--steps", 1]),
    ]
    for file, tool, arguments in targets:
        content = (judge.good / file).read_bytes()
        damaged = [*wrong_plans.cuts(content, 12), *wrong_plans.flips(content, count, seed=len(content))]
        for index, bytes_ in enumerate(damaged):
            name = f"damage {file} {index}"
            if judge.wanted(name):
                folder = judge.folder()
                (folder / file).write_bytes(bytes_)
                judge.survived(name, folder, tool, *arguments)


def valid_first(judge) -> bool:
    """The unchanged files plan and run; without that no complaint means anything."""
    steps = [("maestro-plan", ["workload.yaml", "-o", "plan.mpl"]), ("maestro-plan", ["mlp.onnx", "-o", "mlp.mpl"]),
             ("maestro-run", ["plan.mpl", "--data", "shard.tar", "--steps", 3])]
    for tool, arguments in steps:
        done = judge.command(judge.good, tool, *arguments)
        if done.returncode != 0:
            judge.verdict("valid input", done, [f"status {done.returncode}"])
            return False
    return True


def main() -> int:
    groups = {"models": models, "workloads": workloads, "plans": plans, "data": data, "weights": weights,
              "checkpoints": checkpoints}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--flips", type=int, default=40, help="randomly damaged copies of each kind of file")
    arguments = parser.parse_args()
    unknown = set(arguments.groups) - {*groups, "damage"}
    if unknown:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(groups)}, damage")
    with tempfile.TemporaryDirectory(prefix="maestro-bad-input-") as scratch:
        judge = Judge(arguments.binaries, pathlib.Path(scratch), arguments.only)
        if not valid_first(judge):
            return 1
        for name in arguments.groups or [*groups, "damage"]:
            damage(judge, arguments.flips) if name == "damage" else groups[name](judge)
        print(f"{judge.passed} cases got what bad input must get, {len(judge.failures)} did not")
        if (judge.scratch / "kept").exists():
            kept = pathlib.Path(tempfile.mkdtemp(prefix="maestro-bad-input-kept-"))
            shutil.copytree(judge.scratch / "kept", kept, dirs_exist_ok=True)
            print(f"files of failed damage: {kept}")
    return 1 if judge.failures or not judge.passed else 0


if __name__ == "__main__":
    sys.exit(main())
