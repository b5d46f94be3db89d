"""What an exported file says about itself, read without the onnx package: the graph, which may be of gigabytes, is
passed over.

ModelProto's metadata_props are field 14, each with a key (1) and a value (2); the numbers are fixed for ever.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ._error import Error

_METADATA = 14


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The file's metadata_props."""
    try:
        with open(path, "rb") as file:
            size = Path(path).stat().st_size
            entries = [_entry(content) for number, content in _fields(file, size, {_METADATA}) if number == _METADATA]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise Error(f"{os.fspath(path)}: not an ONNX file that can be read: {error}") from error
    return dict(entries)


def _varint(file: BinaryIO) -> int:
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 63:
            raise EOFError("it ends within a number")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return value


def _fields(file: BinaryIO, end: int, wanted: set[int]) -> Iterator[tuple[int, bytes]]:
    """The fields up to `end`; of those that are not wanted, no content."""
    while file.tell() < end:
        tag = _varint(file)
        kind = tag & 7
        if kind == 0:
            _varint(file)
        elif kind in (1, 5):
            file.seek(8 if kind == 1 else 4, os.SEEK_CUR)
        elif kind == 2:
            length = _varint(file)
            if length > end - file.tell():
                raise EOFError("a field is longer than the file")
            if tag >> 3 in wanted:
                yield tag >> 3, file.read(length)
            else:
                file.seek(length, os.SEEK_CUR)
        else:
            raise EOFError(f"a field is of kind {kind}")


def _entry(content: bytes) -> tuple[str, str]:
    found = {number: value.decode() for number, value in _fields(io.BytesIO(content), len(content), {1, 2})}
    return found.get(1, ""), found.get(2, "")
