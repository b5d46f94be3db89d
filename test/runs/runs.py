"""What the judges of whole runs share: models as files, plans of them, and what maestro-run left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent / "parity"), str(HERE.parent.parent / "bench")]

from tools import Bench  # noqa: E402: found by the line above

BINARIES = pathlib.Path(os.environ.get("MAESTRO_BIN", HERE.parent.parent / "build" / "release" / "bin"))


class Scratch:
    """A folder for one judge, removed by finish() unless something failed."""

    def __init__(self, name: str, path: pathlib.Path | None = None):
        self.path = path or pathlib.Path(tempfile.mkdtemp(prefix=f"maestro-{name}-"))
        self.failures = []

    def bench(self, timeout: float = 280) -> Bench:
        return Bench(BINARIES, self.path, timeout)

    def check(self, what: str, good: bool, detail: str = "") -> bool:
        print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + detail if detail else ''}", flush=True)
        if not good:
            self.failures.append(what)
        return good

    def finish(self) -> int:
        if self.failures:
            print(f"{len(self.failures)} claims do not hold; files are in {self.path}")
            return 1
        shutil.rmtree(self.path, ignore_errors=True)
        return 0


def zoo_case(name: str):
    """A case of the zoo, or one of the benchmark's larger models."""
    import compare_pytorch
    import zoo

    if name in compare_pytorch.SETTINGS:
        return dataclasses.replace(compare_pytorch.make_case(name), max_lengths={"seq": compare_pytorch.SEQUENCE})
    return zoo.all_cases()[name]


def exported(case) -> pathlib.Path:
    import export

    return export.export_variant(case, "opset20", export.models_folder())


def summary(bench: Bench, plan: pathlib.Path) -> dict:
    return json.loads(bench.succeed("maestro-dump", plan, "--format", "json").stdout)


def multiplies_bf16() -> bool:
    """Whether the processor has the instructions for which the CPU library's products of bf16 need no copies."""
    return "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text().split() and "DNNL_MAX_CPU_ISA" not in os.environ
