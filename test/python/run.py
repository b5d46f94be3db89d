"""Runs pytest on files of this folder, as ctest wants its tests: run.py test_export.py"""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.exit(
    pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(HERE), *(str(HERE / name) for name in sys.argv[1:])])
)
