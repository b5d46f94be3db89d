"""The package's Python is formatted and free of what ruff warns of: `ruff format python` mends the first."""

import os
import subprocess
import sys

failed = False
for words in (["check", "maestro"], ["format", "--diff", "maestro"]):
    line = [sys.executable, "-m", "ruff", words[0], "--no-cache", *words[1:]]
    failed |= subprocess.run(line, cwd=f"{os.environ['MAESTRO_SOURCE']}/python", check=False).returncode != 0
sys.exit(failed)
