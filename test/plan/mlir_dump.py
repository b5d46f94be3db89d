"""What `maestro-dump --format mlir` prints is MLIR: maestro-opt reads it, whole or of one section, and prints as many operations."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["MAESTRO_SOURCE"])
BIN = pathlib.Path(os.environ["MAESTRO_BIN"])


def run(tool, *words):
    done = subprocess.run([BIN / tool, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{tool} {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def operations(text):
    return sorted(re.findall(r'^ *"(plan\.\w+)"\(\)', text, re.M))


class MlirDump(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory(prefix="maestro-mlir-") as folder:
            file = pathlib.Path(folder) / "plan.mlir"
            file.write_text(text)
            printed = run("maestro-opt", "--allow-unregistered-dialect", file)
        self.assertEqual(operations(printed), operations(text))
        self.assertIn("plan.call", operations(text))

    def test_golden(self):
        self.read((SOURCE / "test/plan/golden/mlir.mlir").read_text())

    def test_frozen(self):
        for plan in sorted((SOURCE / "test/plan/frozen").glob("*.mpl")):
            with self.subTest(plan.name):
                whole, part = (run("maestro-dump", plan, "--format", "mlir", *words) for words in ([], ["--section", "student"]))
                self.read(whole)
                self.read(part)
                self.assertLess(len(part), len(whole))


if __name__ == "__main__":
    unittest.main()
