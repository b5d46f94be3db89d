"""mpirun starts a plan: on one machine, and on two of namespaces, where its daemons are started through nsenter in place of ssh. Processes meet through
PMIx, without a variable or a secret of the user's; what they leave are the bytes of one process, and a killed one ends all with our cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import runs
from machines import Network
from tools import different_files

STEPS = 6
MINE = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "MAESTRO_JOB_SECRET")


def environment(**more):
    """Whoever runs this test may be a job of another launcher."""
    foreign = ("SLURM", "PMIX", "OMPI", "PMI_")
    return {name: value for name, value in os.environ.items() if name not in MINE and not name.startswith(foreign)} | more


def command(processes, *more):
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *as_root, "--oversubscribe", "-n", str(processes), *map(str, more)]


def same(scratch, what, done, out, words):
    different = different_files(*(scratch.path / name / f"checkpoint-{STEPS:06d}" for name in ("alone", out))) if done.returncode == 0 else []
    good = done.returncode == 0 and not different and words in done.stderr
    scratch.check(what, good, "" if good else f"{different} {done.returncode} {done.stderr[-900:]}")


def call(scratch, prefix, line, **variables):
    return subprocess.run([*prefix, *line], cwd=scratch.path, env=environment(**variables), capture_output=True, text=True, timeout=120)


def main() -> int:
    if not shutil.which("mpirun"):
        print("mpirun is not installed: apt-get install openmpi-bin")
        return 77
    scratch = runs.Scratch("mpirun")
    plan = scratch.bench().plan(runs.exported(runs.zoo_case("gpt2_logits")), "gpt2", "--set", "cluster.devices_per_node=4", "--set", "train.global_batch=8",
                                "--pin", "*.dp=2", "--pin", "*.stages=2", "--pin", "*.micro_batch=2")
    program = runs.BINARIES / "maestro-run"
    run = [program, plan, "--steps", STEPS]
    scratch.bench().succeed("maestro-run", *run[1:], "--out", "alone", "--quiet")
    for processes in (2, 4):
        out = f"one-{processes}"
        same(scratch, f"{processes} processes on one machine", call(scratch, [], command(processes, *run, "--out", out)), out,
             f"{processes} processes have met: shared memory")
    out = "one-restarts"
    same(scratch, "with --restarts", call(scratch, [], command(2, *run, "--out", out, "--restarts", 1)), out, "2 processes have met")

    many = call(scratch, [], command(5, *run, "--out", "many"))
    scratch.check("more processes than ranks", many.returncode == 1 and "PMIx has started 5 processes, and the plan has 4 ranks" in many.stderr,
                  f"{many.returncode} {many.stderr[-600:]}")
    # An address of the user's goes before PMIx; half of one is refused.
    half = call(scratch, [], command(2, "-x", "MASTER_ADDR", *run, "--out", "half"), MASTER_ADDR="127.0.0.1")
    scratch.check("half an address", half.returncode == 1 and "MASTER_PORT is not set" in half.stderr, f"{half.returncode} {half.stderr[-600:]}")

    job = subprocess.Popen(command(2, program, plan, "--quiet", "--out", "killed", "--save-every", 20, "--steps", 1_000_000), cwd=scratch.path, env=environment(),
                           stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list((scratch.path / "killed").glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    began = time.monotonic()
    subprocess.run(["pkill", "-KILL", "--newest", "-f", f"^{program} {plan} --quiet --out killed"], check=False)
    said = job.communicate(timeout=60)[1]
    scratch.check("a killed process", job.returncode > 0 and time.monotonic() - began < 10, f"{job.returncode} {said[-600:]}")

    try:
        network = Network(2, scratch.path)
    except (PermissionError, FileNotFoundError) as failure:
        print(f"skip two machines: {failure}", flush=True)
        return scratch.finish()
    try:
        agent = scratch.path / "agent.sh"
        enter = "\n".join(f"machine{number}) exec {' '.join(network.prefix(number))} env TMPDIR={scratch.path}/tmp{number} sh -c \"$*\" ;;" for number in (0, 1))
        agent.write_text(f'#!/bin/sh\nhost=$1; shift\ncase "$host" in\n{enter}\nesac\n')
        agent.chmod(0o755)
        for number in (0, 1):
            (scratch.path / f"tmp{number}").mkdir()
        hosts = ["--host", "machine0:2,machine1:2", "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "net0", "--mca", "btl", "self"]
        done = call(scratch, network.prefix(0), command(4, *hosts, *run, "--out", "two"), TMPDIR=f"{scratch.path}/tmp0")
        same(scratch, "4 processes on two machines", done, "two", "4 processes have met: shared memory within a machine, else libfabric")
    finally:
        network.close()
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
