"""What a run reads, as the tools' --data takes it."""

from __future__ import annotations

import os
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
    return [flag, *paths]
