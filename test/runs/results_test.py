"""What lies in --out is one run's, whole, and goes on with the same data; runs that are told otherwise are refused and change nothing.

The network is a table and a product; a run takes milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import runs  # First: it says where the others are.

sys.path.insert(0, str(runs.HERE.parent / "cli"))

import good
from tools import different_files, metrics


class World:
    def __init__(self, scratch):
        self.scratch, self.bench, self.path = scratch, scratch.bench(), scratch.path
        good.write_all(self.path)
        self.plan = self.bench.plan(self.path / "workload.yaml", "plan")
        members = good.token_members(32)
        for number in range(4):
            good.write_tar(members[16 * number : 16 * number + 16], self.path / f"part-{number}.tar")
        self.data = [f"part-{number}.tar" for number in range(3)]
        self.two = self.bench.plan(self.path / "workload.yaml", "two", "--set", "cluster.devices_per_node=2", "--pin", "*.dp=2",
                                   "--pin", "*.micro_batch=1")

    def check(self, what, good, detail=""):
        return self.scratch.check(what, good, "" if good else detail)

    def line(self, out, *arguments, data=None):
        shards = self.data if data is None else data
        plan = self.two if "processes" in arguments else self.plan
        return [str(word) for word in (self.bench.binaries / "maestro-run", plan, *(["--data", *shards] if shards else []),
                                       "--out", out, *arguments)]

    def run(self, out, *arguments, data=None, **options):
        return subprocess.run(self.line(out, *arguments, data=data), cwd=self.path, capture_output=True, text=True, timeout=100, **options)

    def checkpoints(self, out):
        return sorted(path.name for path in (self.path / out).glob("*checkpoint-*"))

    def content(self, out):
        return {path.relative_to(self.path): path.read_bytes() for path in (self.path / out).rglob("*") if path.is_file()}

    def succeeds(self, what, done):
        return self.check(what, done.returncode == 0, done.stderr[-300:] if done.returncode else "")

    def refused(self, what, out, *words, arguments=(), data=None):
        """Status 1, one error with the words, and not a byte of the folder changed."""
        before = self.content(out)
        done = self.run(out, *arguments, data=data)
        lacks = [word for word in words if word not in done.stderr]
        self.check(what, done.returncode == 1 and done.stderr.count("error:") == 1 and not lacks and self.content(out) == before,
                           f"status {done.returncode}, lacks {lacks}: {done.stderr[-300:]}")

    def same(self, what, left, right):
        different = different_files(self.path / left, self.path / right)
        self.check(what, not different, f"{different}" if different else "")


def used_folders(world):
    world.succeeds("a first run", world.run("used", "--steps", 6, "--save-every", 2))
    world.refused("a used folder", "used", "--resume", "--overwrite", "checkpoint-000006", arguments=["--steps", 2])
    world.refused("both flags", "used", "--overwrite", arguments=["--resume", "--overwrite"])
    world.refused("bad data leaves the older run alone", "used", "gone.tar", arguments=["--overwrite"], data=["gone.tar"])
    good.write_tar([["s.labels.npy", good.array_bytes(good.numpy.array([1]))]], world.path / "lacks.tar")
    world.refused("bad samples leave the older run alone", "used", "input_ids", arguments=["--overwrite"], data=["lacks.tar"])
    world.succeeds("--overwrite", world.run("used", "--steps", 2, "--overwrite", "--shuffle"))
    world.check("--overwrite removes the older run", world.checkpoints("used") == ["checkpoint-000002"]
                        and [line["step"] for line in metrics(world.path / "used")] == [1, 2], f"{world.checkpoints('used')}")
    world.succeeds("the new run goes on", world.run("used", "--steps", 3, "--resume", "--shuffle"))
    world.check("where it was", [line["step"] for line in metrics(world.path / "used")] == [1, 2, 3])
    # Killed when it had named itself and not yet removed what was there.
    (world.path / "used" / "run.json").write_text('{"version": 1, "run": "another"}\n')
    world.refused("an older run's checkpoints", "used", "of an older run", "--overwrite", arguments=["--resume", "--shuffle"])


def resumes_itself(world):
    """--resume=auto, as a job that is queued again has it."""
    world.succeeds("whole", world.run("whole", "--steps", 6))
    for steps in (2, 4, 6):
        world.succeeds(f"--resume=auto to step {steps}", world.run("auto", "--steps", steps, "--resume=auto"))
    world.same("--resume=auto: the same bytes", "whole/checkpoint-000006", "auto/checkpoint-000006")
    (world.path / "early").mkdir()
    shutil.copy(world.path / "auto" / "metrics.jsonl", world.path / "early")  # Killed before its first checkpoint.
    world.succeeds("--resume=auto without a checkpoint", world.run("early", "--steps", 6, "--resume=auto"))
    world.same("it begins anew", "whole/checkpoint-000006", "early/checkpoint-000006")
    # Killed between the removal of an older checkpoint and the rename of its successor.
    world.succeeds("to step 4", world.run("hidden", "--steps", 4))
    (world.path / "hidden/checkpoint-000004").rename(world.path / "hidden/.checkpoint-000004.partial")
    world.succeeds("a hidden whole checkpoint", world.run("hidden", "--steps", 6, "--resume"))
    world.same("is gone on from", "whole/checkpoint-000006", "hidden/checkpoint-000006")
    world.check("and put in place", world.checkpoints("hidden") == ["checkpoint-000004", "checkpoint-000006"])


def one_at_a_time(world):
    for ranks in ("threads", "processes"):
        out = f"locked-{ranks}"
        running = subprocess.Popen(world.line(out, "--steps", 10**7, "--save-every", 50, "--quiet", "--ranks", ranks), cwd=world.path)
        deadline = time.monotonic() + 60
        while not list((world.path / out).glob("checkpoint-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        for flags in ([], ["--resume"], ["--overwrite"]):
            done = world.run(out, "--steps", 1, *flags)
            world.check(f"a second run in the folder, {flags} ({ranks})", done.returncode == 1
                                and "another maestro-run writes there" in done.stderr, f"{done.returncode} {done.stderr[-200:]}")
        done = world.run(out, "--evaluate", "--resume")  # Reads alone.
        world.check(f"its newest checkpoint is evaluated ({ranks})", done.returncode == 0 and json.loads(done.stdout)["loss"] > 0,
                            done.stderr[-200:])
        running.send_signal(signal.SIGKILL)
        running.wait()
        step = int(sorted((world.path / out).glob("checkpoint-*"))[-1].name[-6:])
        for _ in range(200):  # Its ranks end, too.
            done = world.run(out, "--steps", step + 1, "--resume", "--ranks", ranks)
            if "another maestro-run" not in done.stderr:
                break
        world.succeeds(f"a killed run leaves no lock ({ranks})", done)


def interrupted_evaluation(world):
    """A launcher's SIGTERM goes to all processes: the root ends the job, with 130."""
    line = world.line("none", "--evaluate", "--ranks", "processes", data=world.data * 5000)
    running = subprocess.Popen(line, cwd=world.path, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    os.killpg(running.pid, signal.SIGTERM)
    said = running.communicate(timeout=60)[1]
    world.check("an interrupted evaluation of processes", running.returncode == 130, f"status {running.returncode}: {said[-300:]}")


def other_data(world):
    world.succeeds("three shards", world.run("data", "--steps", 2))
    resume = ["--steps", 5, "--resume"]
    shutil.copy(world.path / "part-1.tar", world.path / "other.tar")
    first, second, third = world.data
    for what, data, words, flags in (
            ("a shard of another name", [first, "other.tar", third], ["shard 1", "part-1.tar", "other.tar"], []),
            ("another order", [second, first, third], ["shard 0", "part-0.tar", "part-1.tar"], []),
            ("a shard less", [first, second], ["3 shards then, 2 shards now"], []),
            ("a shard more", [*world.data, "part-3.tar"], ["3 shards then, 4 shards now"], []),
            ("no --data", [], ["3 shards then", "synthetic"], []),
            ("--shuffle", world.data, ["--shuffle"], ["--shuffle"]),
            ("another seed", world.data, ["seed 0 then", "--seed 7 now"], ["--seed", 7])):
        world.refused(f"resumed with {what}", "data", "--accept-changed-data", *words, arguments=[*resume, *flags], data=data)
    moved = world.path / "moved"
    moved.mkdir()
    for name in world.data:
        shutil.copy(world.path / name, moved)
    for name in ("more", "less"):
        shutil.copytree(world.path / "data", world.path / name)
    world.succeeds("resumed with the same shards elsewhere", world.run("data", *resume, data=[moved / name for name in world.data]))
    for name, data, where in (("more", [*world.data, "part-3.tar"], "reading goes on where it was"), ("less", [third, second], "from its beginning")):
        done = world.run(name, *resume, "--accept-changed-data", data=data)
        world.check(f"--accept-changed-data with {name}", done.returncode == 0 and where in done.stderr, done.stderr[-300:])
    world.same("what was appended is not reached", "data/checkpoint-000005", "more/checkpoint-000005")


def pruned(world):
    world.succeeds("--keep-last", world.run("kept", "--steps", 7, "--save-every", 2, "--keep-last", 2))
    world.check("two are kept", world.checkpoints("kept") == ["checkpoint-000006", "checkpoint-000007"], f"{world.checkpoints('kept')}")
    done = subprocess.run([str(world.bench.binaries / "maestro-run"), str(world.plan), "--steps", "1"], capture_output=True, text=True)
    world.check("without --out it says that nothing is kept", done.stderr.count("no --out") == 1, done.stderr)
    seconds = [line["step_seconds"] for line in metrics(world.path / "kept")]
    world.check("every step took time", min(seconds) > 5e-6, f"{seconds}")


# What libraries say that end the process themselves where memory runs out.
OUT_OF_MEMORY = ("Fatal Internal Error in libarchive: Out of memory", "libgomp: Out of memory")


def failing_machines(world):
    """Status 2 and a message, never a signal, where memory or standard output fail."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(world.line("none", "--evaluate"), cwd=world.path, stdout=full, stderr=subprocess.PIPE, text=True)
    world.check("--evaluate to a full disk", done.returncode == 2 and "No space left" in done.stderr, f"{done.returncode} {done.stderr}")
    megabytes = 1 << 20
    statuses = {}
    for limit in range(80, 130, 2):  # Some of them are met in the middle of anything.
        limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit * megabytes, limit * megabytes))
        done = world.run(f"small-{limit}", "--steps", 2, preexec_fn=limits, env=dict(os.environ, OMP_NUM_THREADS="1"))
        loaded = "error while loading shared libraries" not in done.stderr
        statuses[limit] = done.returncode if loaded else "not started"
        is_ours = done.returncode == 2 and done.stderr.count("error:") == 1
        is_library = done.returncode == 1 and any(text in done.stderr for text in OUT_OF_MEMORY)
        if loaded and done.returncode != 0 and not is_ours and not is_library:
            world.check(f"{limit} MB of address space", False, f"status {done.returncode}: {done.stderr[-300:]}")
    world.check("little memory", 0 in statuses.values(), f"{statuses}")


def waits_for_no_pipe(world):
    folder = world.path / "pipe"
    folder.mkdir()
    shutil.copy(world.plan, folder / "plan.mpl")
    os.mkfifo(folder / "tokens.onnx")
    done = subprocess.run([str(world.bench.binaries / "maestro-run"), "plan.mpl", "--steps", "1"], cwd=folder, capture_output=True,
                          text=True, timeout=20)
    world.check("a pipe in a model's place", done.returncode == 1 and "not a regular file" in done.stderr, done.stderr)


def main() -> int:
    scratch = runs.Scratch("results")
    world = World(scratch)
    for part in (used_folders, resumes_itself, one_at_a_time, interrupted_evaluation, other_data, pruned, failing_machines, waits_for_no_pipe):
        part(world)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
