"""A crash at any moment of saving leaves the last checkpoint that was promised, with its bytes, and no run takes another.

What maestro-run does to its folder is recorded call by call. Then every prefix of it is a crash: what a file or a folder was
told since it was last forced to disk is there in part, not at all, or, for a file, as so many zeros; and names may be older
than contents. In each of many such states the newest checkpoint that looks whole must be one of the bytes that were
saved, of the run that run.json names, and no older than the last one whose folder was forced to disk. On some of them the
program itself goes on, and must end with the bytes of a run that was never stopped.
"""

from __future__ import annotations

import copy
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import runs  # First: it says where the others are.

sys.path.insert(0, str(runs.HERE.parent / "cli"))

import good
from tools import different_files

STATES_PER_CRASH, STEPS = 12, 3


class File:
    def __init__(self, content=b""):
        self.now = self.forced = content

    def after_crash(self, rng):
        return self.now if self.now == self.forced else rng.choice([self.forced, self.now, bytes(len(self.now)), self.now[: len(self.now) // 2]])


class Folder:
    """Names, and what was done to them since they were last forced to disk."""

    def __init__(self):
        self.now, self.history = {}, [{}]

    def changed(self):
        self.history.append(dict(self.now))

    def force(self):
        self.history = [dict(self.now)]

    def after_crash(self, rng):
        return rng.choice([self.history[0], self.history[-1], rng.choice(self.history)])


class Disk:
    def __init__(self, root: pathlib.Path, source: pathlib.Path):
        """What lies in `source` is on disk, as if it were `root`."""
        self.root, self.top = root, Folder()
        for path in sorted(source.rglob("*")) if source.exists() else []:
            parent, name = self.place(root / path.relative_to(source))
            parent.now[name] = Folder() if path.is_dir() else File(path.read_bytes())
            parent.force()

    def place(self, path):
        """(folder, name) of a path below the root; (None, None) of the root."""
        parts = pathlib.Path(path).relative_to(self.root).parts
        folder = self.top
        for part in parts[:-1]:
            folder = folder.now[part]
        return (folder, parts[-1]) if parts else (None, None)

    def find(self, path):
        folder, name = self.place(path)
        return folder.now[name] if folder else self.top

    def apply(self, line):
        kind, path, *rest = line.split("\t")
        folder, name = self.place(path)
        if kind in ("create", "mkdir"):
            if folder:
                folder.now[name] = File() if kind == "create" else Folder()
                folder.changed()
        elif kind == "truncate":
            file = folder.now[name]
            file.now = file.now[: int(rest[0])].ljust(int(rest[0]), b"\0")
        elif kind == "write":
            file, at, data = folder.now[name], int(rest[0]), bytes.fromhex(rest[1])
            file.now = file.now[:at].ljust(at, b"\0") + data + file.now[at + len(data) :]
        elif kind == "sync":
            node = self.find(path)
            if isinstance(node, Folder):
                node.force()
            else:
                node.forced = node.now
        elif kind in ("rename", "exchange"):
            to, name_to = self.place(rest[0])
            left, right = folder.now[name], to.now.get(name_to)
            to.now[name_to] = left
            if kind == "exchange":
                folder.now[name] = right
            else:
                del folder.now[name]
            folder.changed()
            assert to is folder
        elif kind == "remove":
            del folder.now[name]
            folder.changed()

    def after_crash(self, rng, node=None):
        """{name: bytes or {…}}: one of the states that may be found."""
        names = (node or self.top).after_crash(rng)
        return {name: child.after_crash(rng) if isinstance(child, File) else self.after_crash(rng, child) for name, child in names.items()}


def resumable(tree):
    """(step, files) of the checkpoint that a run would go on from, by directory.h's rules; (0, None) where there is none."""
    run = json.loads(tree["run.json"])["run"] if tree.get("run.json") else ""
    found = []
    for name, files in tree.items():
        if not (match := re.fullmatch(r"(\.?)checkpoint-(\d+)(\.partial)?", name)) or bool(match[1]) != bool(match[3]) or not isinstance(files, dict):
            continue
        try:
            state = json.loads(files["state.json"])
            whole = all(len(files[file]) == size for file, size in state["files"].items()) and state["step"] == int(match[2])
        except (KeyError, ValueError, TypeError):
            continue
        if whole and (not run or state["run"] == run):
            found.append((state["step"], match[1] == "", files))
    return max(found, key=lambda item: item[:2])[::2] if found else (0, None)


def contents(disk, lines):
    """{step: [files]}: the checkpoints that lines make, when all goes well, and what lay there."""
    known = {}
    for line in ["", *lines]:
        if line:
            disk.apply(line)
        for entry, node in disk.top.now.items():
            if isinstance(node, Folder) and re.fullmatch(r"checkpoint-\d+", entry) and "state.json" in node.now:
                known.setdefault(int(entry[-6:]), []).append({file: child.now for file, child in node.now.items()})
    return known


def losses(name, disk, lines, replaces=False):
    """(what is wrong in states after a crash, the steps that were promised, some of the states). `replaces`: the run gives an
    older one up when it names itself."""
    known, rng = contents(copy.deepcopy(disk), lines), random.Random(name)
    wrong, promised, states, renamed = [], [resumable(disk.after_crash(rng))[0]], [], None
    for number, line in enumerate(lines):
        disk.apply(line)
        kind, *words = line.split("\t")
        if kind in ("rename", "exchange") and (match := re.search(r"/checkpoint-(\d+)$", words[-1])):
            renamed = int(match[1])
        if kind == "rename" and words[-1].endswith("/run.json") and replaces:
            promised.append(0)
        if kind == "sync" and words[0] == str(disk.root) and renamed:
            promised.append(renamed)
            renamed = None
        for _ in range(STATES_PER_CRASH):
            tree = disk.after_crash(rng)
            step, files = resumable(tree)
            if (files is not None and files not in known.get(step, [])) or step < promised[-1]:
                wrong.append(f"after line {number} ({line[:80]}) step {step} of {promised[-1]} is found, or not what was saved")
        if kind != "write" and files is not None:
            states.append(tree)
    return wrong, [step for step in promised[1:] if step], states


class World:
    def __init__(self, scratch, library):
        self.scratch, self.bench, self.library = scratch, scratch.bench(), library
        good.write_all(scratch.path)
        self.plan = self.bench.plan(scratch.path / "workload.yaml", "plan")
        self.whole = self.run("whole", "--steps", STEPS + 1)

    def run(self, out, *arguments, **environment):
        line = [self.bench.binaries / "maestro-run", self.plan, "--data", self.scratch.path / "shard.tar", "--out", self.scratch.path / out,
                "--quiet", *arguments]
        done = subprocess.run(list(map(str, line)), capture_output=True, text=True, env=dict(os.environ, **environment), timeout=100)
        if done.returncode != 0:
            raise RuntimeError(f"{out}: status {done.returncode}: {done.stderr}")
        return self.scratch.path / out

    def recorded(self, name, *arguments, **environment):
        """(what was there before, the lines of what happened)."""
        out, before, log = (self.scratch.path / word for word in (name, f"{name}-before", f"{name}.log"))
        if out.exists():
            shutil.copytree(out, before)
        self.run(name, *arguments, LD_PRELOAD=str(self.library), MAESTRO_RECORD_BELOW=str(out), MAESTRO_RECORD_TO=str(log), **environment)
        return Disk(out, before), log.read_text().splitlines()

    def judge(self, name, disk, lines, saved, replaces=False):
        """`saved`: the steps that this run saves. Some of the states that were found."""
        wrong, promised, states = losses(name, disk, lines, replaces)
        self.scratch.check(f"{name}: {len(lines)} calls, {STATES_PER_CRASH} states each", not wrong, f"{len(wrong)}: {wrong[:2]}" if wrong else "")
        self.scratch.check(f"{name}: every save is promised", promised == saved, f"{promised}")
        return states

    def continues(self, name, tree):
        out = self.scratch.path / name
        write(out, tree)
        self.run(name, "--resume", "--steps", STEPS + 1)
        different = different_files(self.whole / f"checkpoint-{STEPS + 1:06}", out / f"checkpoint-{STEPS + 1:06}")
        self.scratch.check(f"{name} goes on", not different, f"{different}" if different else "")


def write(folder, tree):
    folder.mkdir()
    for name, content in tree.items():
        if isinstance(content, dict):
            write(folder / name, content)
        else:
            (folder / name).write_bytes(content)


def main() -> int:
    scratch = runs.Scratch("lost-writes")
    world = World(scratch, sys.argv[1])
    disk, lines = world.recorded("fresh", "--steps", STEPS, "--save-every", 1)
    states = world.judge("fresh", disk, lines, [1, 2, 3])
    for what, forgotten in (("files", r"sync\t.*\.(safetensors|json)$"), ("a checkpoint's names", r"sync\t.*checkpoint-\d+\.partial$")):
        forgetful = [line for line in lines if not re.match(forgotten, line)]
        fresh = Disk(disk.root, scratch.path / "nothing")
        scratch.check(f"the judge sees {what} that are not forced to disk", bool(losses("forgetful", fresh, forgetful)[0]))
    for number, tree in enumerate(random.Random(1).sample(states, min(8, len(states)))):
        world.continues(f"state-{number}", tree)
    disk, lines = world.recorded("pruned", "--steps", STEPS, "--save-every", 1, "--keep-last", 1)
    world.judge("pruned", disk, lines, [1, 2, 3])
    for name, environment in (("replaced", {}), ("replaced-without-exchange", {"MAESTRO_RECORD_NO_EXCHANGE": "1"})):
        world.run(name, "--steps", STEPS, "--save-every", 1)
        (scratch.path / name / f"checkpoint-{STEPS:06}" / "state.json").unlink()  # Damaged: its step is done again.
        disk, lines = world.recorded(name, "--steps", STEPS, "--resume", **environment)
        scratch.check(f"{name}: how", any(line.startswith("exchange") for line in lines) == (not environment))
        world.judge(name, disk, lines, [STEPS])
    world.run("overwritten", "--steps", STEPS, "--save-every", 1)
    disk, lines = world.recorded("overwritten", "--steps", 2, "--save-every", 1, "--overwrite")
    world.judge("overwritten", disk, lines, [1, 2], replaces=True)
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
