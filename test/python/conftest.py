"""The package as it stands in the tree, and what several tests share."""

from __future__ import annotations

import gc
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path[:0] = [str(HERE), str(SOURCE / "python"), str(SOURCE / "test" / "models"), str(SOURCE / "test" / "parity")]

os.environ.setdefault("MAESTRO_BIN", str(SOURCE / "build" / "release" / "bin"))
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
gc.set_threshold(200_000)  # As in test/models/export.py.


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """The tools, run without the package, so that it does not judge itself."""
    from tools import Bench

    return Bench(pathlib.Path(os.environ["MAESTRO_BIN"]), tmp_path_factory.mktemp("bench"))
