"""A full disk while saving: status 2, one message, the previous checkpoint whole, nothing in the way of resuming.

The disk is a small tmpfs in a mount namespace of its own, where the machine permits one, and a file size limit
(`ulimit -f`) everywhere.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import runs
import shards
from tools import different_files, metrics, newest_checkpoint

CASE = "gpt2_logits"
SKIPPED = 77  # ctest counts it as skipped.


class World:
    """A plan, its data, and a folder of an uninterrupted run to compare with."""

    def __init__(self, scratch):
        self.scratch, self.bench = scratch, scratch.bench()
        case = runs.zoo_case(CASE)
        samples = shards.make_samples(case, 20, seed=5)
        self.data = shards.write_shards(samples, scratch.path / "data")
        self.graph = runs.exported(case)
        self.plan = self.plan_into(scratch.path)
        self.whole = self.bench.run(self.plan, self.data, "whole", "--steps", 4)
        self.checkpoint_bytes = sum(file.stat().st_size for file in newest_checkpoint(self.whole).iterdir())

    def plan_into(self, folder):
        self.bench.succeed("maestro-plan", self.graph, "-o", folder / "plan.mpl", "--set", "train.global_batch=8")
        return folder / "plan.mpl"

    def run(self, out, *arguments, limit=None, plan=None):
        line = [str(runs.BINARIES / "maestro-run"), plan or self.plan, "--data", self.data, "--out", out, *arguments]
        limits = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
        return subprocess.run(list(map(str, line)), capture_output=True, text=True, timeout=200, preexec_fn=limits)

    def refused(self, what, done, *words):
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        absent = [word for word in words if word not in done.stderr]
        self.scratch.check(what, done.returncode == 2 and len(errors) == 1 and not absent,
                           f"status {done.returncode}, lacks {absent}: {errors or done.stderr.strip()[-300:]}")

    def resumable(self, what, out):
        """The previous checkpoint is there, nothing half-written is, and the run goes on to the bytes of a whole one."""
        leftovers = [path.name for path in out.iterdir() if "partial" in path.name]
        self.scratch.check(f"{what}: nothing half-written", not leftovers, f"{leftovers}" if leftovers else "")
        self.scratch.check(f"{what}: the previous checkpoint", newest_checkpoint(out).name == "checkpoint-000002",
                           newest_checkpoint(out).name)

    def resumes(self, what, out):
        done = self.run(out, "--steps", 4, "--resume")
        if self.scratch.check(f"{what}: resumes", done.returncode == 0, done.stderr.strip()[-200:] if done.returncode else ""):
            different = different_files(newest_checkpoint(self.whole), newest_checkpoint(out))
            steps = [line["step"] for line in metrics(out)]
            self.scratch.check(f"{what}: same bytes as never stopped", not different and steps == [1, 2, 3, 4],
                               f"differs: {different}, steps {steps}")


def file_size_limit(world):
    out = world.scratch.path / "limited"
    world.run(out, "--steps", 2)
    done = world.run(out, "--steps", 4, "--resume", limit=world.checkpoint_bytes // 3)
    world.refused("file size limit", done, "File too large", "ulimit -f")
    world.resumable("file size limit", out)
    world.resumes("file size limit", out)


def tmpfs(folder, size):
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)


def full_while_saving(world):
    out = world.scratch.path / "disk"
    tmpfs(out, int(1.6 * world.checkpoint_bytes) + 2 * world.plan.stat().st_size)
    world.scratch.check("full disk: first run", world.run(out, "--steps", 2).returncode == 0)
    done = world.run(out, "--steps", 4, "--resume")
    world.refused("full disk", done, "No space left on device", "free space")
    world.resumable("full disk", out)
    subprocess.run(["mount", "-o", f"remount,size={4 * world.checkpoint_bytes}", str(out)], check=True)
    world.resumes("full disk", out)


def full_from_the_start(world):
    out = world.scratch.path / "full"
    tmpfs(out, world.plan.stat().st_size // 2)
    done = world.run(out, "--steps", 2)
    world.refused("disk full before the first step", done, "No space left on device", "free space")
    leftovers = [path.name for path in out.iterdir() if "partial" in path.name]
    world.scratch.check("disk full before the first step: nothing half-written", not leftovers, f"{leftovers}")


def full_for_metrics(world):
    out = world.scratch.path / "metrics"
    tmpfs(out, 4 * world.checkpoint_bytes)
    plan = world.plan_into(out)  # What lies in --out already is not written again.
    world.run(out, "--steps", 2, plan=plan)
    filler = open(out / "filler", "wb", buffering=0)
    try:
        while filler.write(b"\0" * 4096):
            pass
    except OSError:
        filler.close()
    # The last page of metrics.jsonl has room; behind it there is no disk.
    done = world.run(out, "--steps", 40, "--resume", plan=plan)
    world.refused("disk full for metrics", done, "No space left on device", "free space")
    (out / "filler").unlink()
    world.resumable("disk full for metrics", out)
    world.resumes("disk full for metrics", out)


def inside() -> int:
    scratch = runs.Scratch("full-disk")
    world = World(scratch)
    file_size_limit(world)
    if sys.argv[1:] == ["--mounts"]:
        full_while_saving(world)
        full_from_the_start(world)
        full_for_metrics(world)
        for mounted in ("disk", "full", "metrics"):
            subprocess.run(["umount", "-l", str(scratch.path / mounted)], check=False)
    else:
        print("this machine permits no mounts: only the file size limit was judged")
    status = scratch.finish()
    return status or (0 if sys.argv[1:] == ["--mounts"] else SKIPPED)


def main() -> int:
    if sys.argv[1:]:
        return inside()
    for prefix in (["unshare", "-Urm"], ["unshare", "-m"]):
        probe = [*prefix, "sh", "-c", "mount -t tmpfs none /mnt"]
        if subprocess.run(probe, capture_output=True).returncode == 0:
            return subprocess.run([*prefix, sys.executable, "-B", __file__, "--mounts"]).returncode
    # What could be judged holds, and the rest was not judged.
    return subprocess.run([sys.executable, "-B", __file__, "--limits"]).returncode or SKIPPED


if __name__ == "__main__":
    sys.exit(main())
