"""Slurm itself (munge, slurmctld, two slurmd on two machines of namespaces) runs a plan: with srun the bytes of one process, a killed task ends the
step with our cause, and a job that is requeued goes on where it was."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time

import runs
from machines import Network
from tools import different_files

STEPS = 6
CONF = """
ClusterName=test
SlurmctldHost=machine0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
TmpFS={folder}/tmp-%n
KillWait=5
SchedulerParameters=sched_interval=1
NodeName=machine[0-1] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --requeue --output={folder}/job.log --open-mode=append
srun {binaries}/maestro-run {plan} --quiet --out requeued --save-every 20 --resume=auto --steps {steps}
"""


class Slurm:
    def __init__(self, scratch):
        self.folder, self.daemons = scratch.path, []
        self.network = Network(2, scratch.path)
        for name in ("state", "tmp-machine0", "tmp-machine1"): # Shared by two machines, PMIx's sockets would have the same names.
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(CONF.format(folder=self.folder))
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        # Whoever runs this test may be a Slurm job, whose variables must not count.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")} | {
            "SLURM_CONF": str(self.folder / "slurm.conf"), "MAESTRO_JOB_SECRET": secrets.token_hex(16)}
        self.start(0, "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed", f"--log-file={self.folder}/munged.log")
        self.wait_for(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.start(0, "slurmctld", "-D")
        for machine in (0, 1):
            self.start(machine, "slurmd", "-D", "-N", f"machine{machine}")
        self.wait_for(lambda: self.call("sinfo", "--noheader", "--format=%T").stdout.split() == ["idle"], "idle nodes")

    def start(self, machine, *command):
        with open(self.folder / f"{command[0]}-{machine}.out", "wb") as log:
            self.daemons.append(subprocess.Popen([*self.network.prefix(machine), *command], env=self.environment, stdout=log, stderr=log))

    def call(self, *command, timeout=90, without=()):
        environment = {name: value for name, value in self.environment.items() if name not in without}
        return subprocess.run([*self.network.prefix(0), *map(str, command)], env=environment, capture_output=True, text=True, timeout=timeout)

    def wait_for(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in self.daemons):
                logs = {path.name: path.read_text(errors="replace")[-600:] for path in (*self.folder.glob("*.log"), *self.folder.glob("*.out"))}
                raise RuntimeError(f"no {what} after {seconds} s: {logs}")
            time.sleep(0.1)

    def close(self):
        self.call("scancel", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.network.close()


def judge(scratch, slurm):
    plan = scratch.bench().plan(runs.exported(runs.zoo_case("gpt2_logits")), "gpt2", "--set", "cluster.devices_per_node=4", "--set", "train.global_batch=8",
                                "--pin", "*.dp=2", "--pin", "*.stages=2", "--pin", "*.micro_batch=2")
    program = runs.BINARIES / "maestro-run"
    scratch.bench().succeed("maestro-run", plan, "--steps", STEPS, "--out", "alone", "--quiet")
    for tasks, *more in ((2,), (4,), (2, "--mpi=pmix"), (4, "--mpi=pmix")):
        out = "".join(["srun", str(tasks), *more])
        # PMIx carries a secret of its own.
        done = slurm.call("srun", "--nodes=2", f"--ntasks={tasks}", *more, program, plan, "--steps", STEPS, "--out", out,
                          without=("MAESTRO_JOB_SECRET",) if more else ())
        different = different_files(*(scratch.path / name / f"checkpoint-{STEPS:06d}" for name in ("alone", out))) if done.returncode == 0 else []
        good = done.returncode == 0 and not different and f"{tasks} processes have met" in done.stderr
        scratch.check(f"{out} on 2 nodes", good, "" if good else f"{different} {done.returncode} {done.stderr[-900:]}")

    step = subprocess.Popen([*slurm.network.prefix(0), "srun", "--nodes=2", "--ntasks=2", str(program), str(plan), "--quiet", "--out", "killed", "--save-every", "20",
                             "--steps", "1000000"], env=slurm.environment, stderr=subprocess.PIPE, text=True)
    slurm.wait_for(lambda: list((scratch.path / "killed").glob("checkpoint-*")), "checkpoint")
    began = time.monotonic()
    subprocess.run(["pkill", "-KILL", "--oldest", "-f", f"^{program} {plan} --quiet --out killed"], check=False)
    said = step.communicate(timeout=60)[1]
    scratch.check("a killed task", step.returncode > 0 and time.monotonic() - began < 15, f"{step.returncode} after {time.monotonic() - began:.0f} s: {said[-600:]}")

    script, steps = scratch.path / "job.sh", 400
    script.write_text(SCRIPT.format(folder=scratch.path, binaries=runs.BINARIES, plan=plan, steps=steps))
    submitted = slurm.call("sbatch", "--parsable", script)
    job = submitted.stdout.strip()
    slurm.wait_for(lambda: list((scratch.path / "requeued").glob("checkpoint-*")), "checkpoint", 60)
    slurm.call("scontrol", "requeue", job)
    state = lambda: slurm.call("squeue", "--noheader", "--format=%T %r", "--jobs", job).stdout.strip()
    slurm.wait_for(lambda: "PENDING" in state(), "requeued job", 60)
    first = len(list((scratch.path / "requeued").glob("checkpoint-*")))
    time.sleep(2)  # Slurm counts in seconds: in the one in which it revoked a job's credential it starts that job no more.
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")
    slurm.wait_for(lambda: (scratch.path / "requeued" / f"checkpoint-{steps:06d}").exists() or state() == "", "end of the requeued job", 120)
    log = (scratch.path / "job.log").read_text()
    scratch.bench().succeed("maestro-run", plan, "--steps", steps, "--out", "unbroken", "--quiet")
    whole = (scratch.path / "requeued" / f"checkpoint-{steps:06d}").exists()
    different = different_files(*(scratch.path / out / f"checkpoint-{steps:06d}" for out in ("unbroken", "requeued"))) if whole else ["all of it"]
    scratch.check("a requeued job", whole and first < steps / 20 and not different, f"{different}, {first} checkpoints before; {log[-600:]}" if different else "")


def main() -> int:
    if any(not shutil.which(program) for program in ("munged", "slurmctld", "slurmd", "srun")):
        print("Slurm is not installed: apt-get install slurmctld slurmd slurm-client munge")
        return 77
    scratch = runs.Scratch("slurm")
    try:
        slurm = Slurm(scratch)
    except PermissionError as failure:
        print(failure)
        return 77
    try:
        judge(scratch, slurm)
    finally:
        slurm.close()
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
