"""--restarts: whatever ends a run that is to go on, it goes on from its last checkpoint and ends with the bytes of a run that nothing ended.

A network of milliseconds is killed a hundred times, at random moments, while it saves included; then jobs of three processes lose one, have one
stopped, and lose a cable.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import runs  # First: it says where the others are.

sys.path.insert(0, str(runs.HERE.parent / "cli"))

import good
from machines import Job, Loopback, Network, newest
from tools import different_files, metrics

KILLS = int(os.environ.get("MAESTRO_KILLS", 100))
SAVE_EVERY, JOB_STEPS = 50, 600


def child_of(pid: int) -> int | None:
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def await_that(condition, seconds: float = 60):
    """What the condition returns, once that is true; None where it does not become so."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    return found


class World:
    def __init__(self, scratch):
        self.scratch, self.bench, self.path = scratch, scratch.bench(), scratch.path
        good.write_all(self.path)
        self.plan = self.bench.plan(self.path / "workload.yaml", "plan")
        self.two = self.bench.plan(self.path / "workload.yaml", "two", "--set", "cluster.devices_per_node=3", "--pin", "*.dp=3",
                                   "--pin", "*.micro_batch=1", "--set", "train.global_batch=6")

    def start(self, out, *arguments, plan=None):
        line = [self.bench.binaries / "maestro-run", plan or self.plan, "--data", "shard.tar", "--out", out, "--quiet", *arguments]
        return subprocess.Popen(list(map(str, line)), cwd=self.path, stderr=subprocess.PIPE, text=True)

    def same_as(self, what, out, whole, steps):
        different = different_files(self.path / whole / f"checkpoint-{steps:06d}", self.path / out / f"checkpoint-{steps:06d}")
        numbers = [line["step"] for line in metrics(self.path / out)]
        self.scratch.check(f"{what}: the bytes of a run that nothing ended", not different and numbers == list(range(1, steps + 1)),
                           f"{different} {len(numbers)}" if different else "")


def killed(world):
    """Every kill costs the steps since the last checkpoint at most."""
    rng = random.Random(7)
    run = world.start("killed", "--steps", 10**9, "--save-every", SAVE_EVERY, "--keep-last", 3, "--restarts", KILLS)
    out, kills, lost, saving = world.path / "killed", 0, [], 0
    last = 0
    while kills < KILLS and run.poll() is None:
        # A start takes some tens of milliseconds: some kills come before it has trained, and most while it does.
        time.sleep(rng.uniform(0.02, 0.15))
        child = child_of(run.pid)
        if child is None:
            continue
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue
        kills += 1
        await_that(lambda: child_of(run.pid) not in (None, child) or run.poll() is not None, 5)
        saving += any(path.name.startswith(".checkpoint") for path in out.glob(".*")) if out.exists() else 0
        committed = newest(out) if list(out.glob("checkpoint-*")) else 0
        if committed < last:
            lost.append((last, committed))
        last = committed
    await_that(lambda: newest(out) > last, 30)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=60)[1]
    restarts = said.count("it goes on from its last checkpoint")
    world.scratch.check(f"{kills} kills, {saving} of them while a checkpoint was written", run.returncode == 130 and restarts == kills == KILLS and saving and not lost,
                        "" if run.returncode == 130 and restarts == kills == KILLS and saving else f"status {run.returncode}, {restarts} restarts, lost {lost}, {said[-400:]}")
    steps = newest(out)
    world.start("whole", "--steps", steps, "--save-every", SAVE_EVERY, "--keep-last", 3).communicate(timeout=300)
    world.same_as("killed", "killed", "whole", steps)


def kept_to(world):
    """What is not the machine's fault ends the run; so does who asks for it, and one failure more than is allowed."""
    for what, arguments, status, words in (
            ("bad input", ["--steps", 3, "--seed", 1, "--accept-changed-data", "--weights", "nosuch=nowhere"], 1, "nosuch"),
            ("no --out", None, 1, "--out")):
        line = arguments or ["--steps", 3]
        if arguments is None:
            done = subprocess.run([str(world.bench.binaries / "maestro-run"), str(world.plan), "--restarts", "2", "--steps", "3"], cwd=world.path,
                                  capture_output=True, text=True, timeout=60)
            returned, said = done.returncode, done.stderr
        else:
            run = world.start(what.replace(" ", "-"), *line, "--restarts", 2)
            said, returned = run.communicate(timeout=60)[1], run.returncode
        world.scratch.check(f"{what} is not tried again", returned == status and words in said and "restart" not in said.replace("--restarts", ""),
                            "" if returned == status else f"{returned} {said[-300:]}")
    run = world.start("asked", "--steps", 10**6, "--save-every", 50, "--restarts", 2)
    began = await_that(lambda: list((world.path / "asked").glob("checkpoint-*")))
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=30)[1]
    world.scratch.check("a run that is asked to end is saved, and ends", bool(began) and run.returncode == 130 and "is saved" in said,
                        "" if run.returncode == 130 else f"{run.returncode} {said[-300:]}")
    run = world.start("worn", "--steps", 10**6, "--save-every", 50, "--restarts", 1)
    for _ in range(2):
        began = await_that(lambda: list((world.path / "worn").glob("checkpoint-*")) and child_of(run.pid))
        os.kill(child_of(run.pid), signal.SIGKILL)
        time.sleep(0.5)
    said = run.communicate(timeout=30)[1]
    world.scratch.check("the second kill of one that may start again once", run.returncode == 2 and "signal 9" in said,
                        "" if run.returncode == 2 else f"{run.returncode} {said[-300:]}")


def older_results_stay(world):
    """A run that replaces another and is killed before its first step goes on as itself, not as the other."""
    world.start("older", "--steps", 3).communicate(timeout=60)
    run = world.start("older", "--steps", 6, "--overwrite", "--seed", 5, "--restarts", 3)
    child = await_that(lambda: child_of(run.pid), 5)
    os.kill(child, signal.SIGKILL)
    said = run.communicate(timeout=60)[1]
    world.start("newer", "--steps", 6, "--seed", 5).communicate(timeout=60)
    world.scratch.check("one that replaces another goes on as itself", run.returncode == 0, f"{run.returncode} {said[-300:]}")
    world.same_as("one that replaces another", "older", "newer", 6)


def jobs(world):
    scratch, steps = world.scratch, JOB_STEPS
    arguments = [world.two, "--data", "shard.tar", "--quiet", "--save-every", 10, "--keep-last", 2, "--steps", steps]
    scratch.bench().succeed("maestro-run", *arguments, "--out", "job-whole")
    network = None
    try:
        network = Network(3, scratch.path)
    except (PermissionError, FileNotFoundError) as failure:
        print(f"skip machines: {failure}", flush=True)
    place = network or Loopback()

    def plugged(job):
        network.unplug(2)
        time.sleep(9)
        network.plug(2)

    def send(process, number):
        return lambda job: os.kill(child_of(job.pid(process)), number)

    cases = [("process 2 is killed", send(2, signal.SIGKILL), 2 + 5 + 15), ("process 0 is killed", send(0, signal.SIGKILL), 2 + 5 + 15),
             ("process 1 is stopped", send(1, signal.SIGSTOP), 10 + 5 + 15), ("process 0 is stopped", send(0, signal.SIGSTOP), 10 + 5 + 15)]
    if network:
        cases.append(("a cable is pulled, and put back after 9 s", plugged, 10 + 5 + 15))
    try:
        for what, disturb, most_seconds in cases:
            out = what.replace(" ", "-").replace(",", "")
            job = Job(scratch, place, 3, *arguments, "--out", out, "--restarts", 3)
            if not job.await_checkpoint(out):
                job.kill()
                scratch.check(what, False, "it did not begin")
                continue
            before = newest(scratch.path / out)
            began = time.monotonic()
            disturb(job)
            # Training again: a checkpoint that was not there.
            again = await_that(lambda: newest(scratch.path / out) > max(before, 10) + 10 and goes_on(job), most_seconds + 30)
            seconds = time.monotonic() - began
            statuses, said = job.end(120)
            scratch.check(f"{what}: training again after {seconds:.1f} s", bool(again) and statuses == [0] * 3 and seconds < most_seconds and
                          all("restart 1 of 3" in text for text in said),
                          f"{statuses} {seconds:.1f} s {said}" if statuses != [0] * 3 or not again else "")
            world.same_as(what, out, "job-whole", steps)
    finally:
        if network:
            network.close()


CLUSTER = """
name: three machines
device: cpu
nodes: 3
devices_per_node: 1
links: [{name: lan, spans: 3, bandwidth: 1 GB/s, latency: 10 us}]
"""


def lost(world):
    """A machine that does not come back: the others go on under the plan that was made for it, as one process with that plan would from there."""
    scratch, path, steps = world.scratch, world.path, 3000
    (path / "three.yaml").write_text(CLUSTER)
    plan = world.bench.plan(path / "workload.yaml", "spared", "--cluster", path / "three.yaml", "--pin", "*.dp=2", "--pin", "*.micro_batch=1",
                            "--set", "train.global_batch=6", "--spare-nodes", 1)
    try:
        network = Network(3, path)
    except (PermissionError, FileNotFoundError) as failure:
        print(f"skip lost machines: {failure}", flush=True)
        return
    try:
        arguments = [plan, "--data", "shard.tar", "--quiet", "--save-every", 50, "--out", "lost", "--restarts", 3, "--steps", steps]
        job = Job(scratch, network, 3, *arguments)
        if not job.await_checkpoint("lost"):
            job.kill()
            return scratch.check("a machine is lost", False, "it did not begin")
        job.processes[1].kill()  # Its child ends with it.
        began = time.monotonic()
        statuses, said = job.end(120)
        seconds = time.monotonic() - began
        words = "1 of 3 machines has not come back: the job goes on with 2"
        good_end = statuses == [0, -9, 0] and words in said[0]
        scratch.check(f"a machine is lost: the others have ended after {seconds:.0f} s", good_end, "" if good_end else f"{statuses} {said}")
    finally:
        network.close()
    if not good_end:
        return
    # From the checkpoint with which they went on: the first two metrics of a step say which it was.
    kept = json.loads((path / "lost" / f"checkpoint-{steps:06d}" / "state.json").read_text())["plan_hash"]
    last = max(number for number in range(50, steps, 50)
               if json.loads((path / "lost" / f"checkpoint-{number:06d}" / "state.json").read_text())["plan_hash"] != kept)
    shutil.copytree(path / "lost", path / "ref")
    for folder in (path / "ref").glob("checkpoint-*"):
        if int(folder.name[-6:]) > last:
            shutil.rmtree(folder)
    shutil.move(path / "ref" / "plan.mpl", path / "two_nodes.mpl")
    world.bench.succeed("maestro-run", path / "two_nodes.mpl", "--data", "shard.tar", "--quiet", "--save-every", 50, "--out", "ref", "--resume", "--steps", steps)
    different = different_files(path / "ref" / f"checkpoint-{steps:06d}", path / "lost" / f"checkpoint-{steps:06d}")
    scratch.check(f"a machine is lost: from step {last} on as one process under the plan for two", not different, f"{different}" if different else "")


def goes_on(job) -> bool:
    return all(process.poll() is None and child_of(process.pid) for process in job.processes) or all(
        process.poll() == 0 for process in job.processes)


def main() -> int:
    scratch = runs.Scratch("restarts")
    world = World(scratch)
    kept_to(world)
    older_results_stay(world)
    killed(world)
    jobs(world)
    lost(world)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
