"""What a run reads, as the tools' --data takes it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Union

from ._error import Error
from ._shards import Shards

Data = Union[str, "os.PathLike[str]", Shards, Sequence[Union[str, "os.PathLike[str]"]]]
"""A path, a glob, what `maestro.shards` returned, or several paths."""


def data_arguments(flag: str, data: Data | None) -> list[object]:
    if data is None:
        return []
    if isinstance(data, Shards):
        paths = [os.fspath(file) for file in data.files]
    elif isinstance(data, (str, os.PathLike)):
        paths = [os.fspath(data)]
    else:
        paths = [os.fspath(file) for file in data]
    if not paths:
        raise Error("data names no shard")
    return [flag, *_ranged(paths)]


def _ranged(paths: list[str]) -> list[str]:
    """Numbered shards as one range, out/{00000..09999}.tar: a command line has its limits."""
    numbered = re.fullmatch(r"(.*?)(\d+)(\D*)", paths[0], re.DOTALL)
    if len(paths) < 3 or numbered is None or re.search(r"[{}*?\[]", paths[0]):
        return paths
    begin, first, end = numbered.groups()
    names = [f"{begin}{number:0{len(first)}d}{end}" for number in range(int(first), int(first) + len(paths))]
    if names != paths or len(names[-1]) != len(names[0]):
        return paths
    return [f"{begin}{{{first}..{int(first) + len(paths) - 1:0{len(first)}d}}}{end}"]
