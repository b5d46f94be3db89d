"""The package is typed: mypy, strict as python/pyproject.toml says, and a program with a user's mistakes, which a checker must
see through the installed types alone (py.typed)."""

import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(os.environ["MAESTRO_SOURCE"]) / "python"
USER = """
import maestro

plan = maestro.plan("kd.yaml", deadline=2.5)
seconds: float = plan.step_seconds
maestro.plan("kd.yaml", dead_line=2)  # no such argument
seconds = plan.name  # text
maestro.run(plan, steps="ten")  # no number
plan.section  # no such attribute
"""
MISTAKES = {6: "dead_line", 7: "assignment", 8: "steps", 9: '"section"'}


def mypy(*words, cwd):
    line = [sys.executable, "-m", "mypy", "--config-file", PACKAGE / "pyproject.toml", *words]
    return subprocess.run(line, cwd=cwd, check=False, capture_output=True, text=True)


with tempfile.TemporaryDirectory() as scratch:
    cache = ["--cache-dir", scratch + "/cache"]
    own = mypy(*cache, cwd=PACKAGE)
    print(own.stdout + own.stderr)
    user = pathlib.Path(scratch, "user.py")
    user.write_text(USER)
    os.environ["MYPYPATH"] = str(PACKAGE)
    seen = mypy(*cache, user, cwd=scratch).stdout
    failed = own.returncode != 0 or not (PACKAGE / "maestro/py.typed").exists()
    for line, what in MISTAKES.items():
        if not any(f"user.py:{line}: error" in text and what in text for text in seen.splitlines()):
            print(f"a user's mistake in line {line} ({what}) is not seen:\n{seen}")
            failed = True
    if seen.count(": error:") != len(MISTAKES):
        print(f"not the {len(MISTAKES)} mistakes alone:\n{seen}")
        failed = True
sys.exit(failed)
