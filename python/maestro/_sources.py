"""Where samples come from: files, datasets, any iterable. Cut into chunks of which each becomes one shard, so that what
a chunk holds depends on the source alone and not on who works on it.
"""

from __future__ import annotations

import glob
import gzip
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from ._error import Error

Chunk = Callable[[], Iterable[Any]]
"""Gives its items; called in the process that works on them."""


def chunks(source: object, size: int) -> Iterator[Chunk]:
    """`source` in pieces of `size` items, in order."""
    files = _files(source)
    if files is not None:
        return _cut(itertools.chain.from_iterable(_read(file) for file in files), size)
    if isinstance(source, Mapping) or (hasattr(source, "keys") and hasattr(source, "items")):
        splits = ", ".join(map(str, cast(Mapping[str, Any], source).keys()))
        raise Error(f"the source is a mapping of {splits}; give one of its splits, or a list of samples")
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _ranges(cast(Sequence[Any], source), size)
    if isinstance(source, Iterable):
        return _cut(source, size)
    raise Error(
        f"the source is a {type(source).__name__}; give an iterable of samples, or the path of a .jsonl, .txt or .parquet file"
    )


class _Range:
    """A part of an indexed dataset. Items are made where they are used: a dataset that decodes images does so there."""

    def __init__(self, source: Sequence[Any], begin: int, end: int) -> None:
        self.source, self.begin, self.end = source, begin, end

    def __call__(self) -> Iterable[Any]:
        return (self.source[index] for index in range(self.begin, self.end))


class _Items:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __call__(self) -> Iterable[Any]:
        return (item.parsed() if isinstance(item, _Line) else item for item in self.items)


class _Line:
    """A line of a jsonl file, parsed where it is used."""

    def __init__(self, text: bytes, file: str, number: int) -> None:
        self.text, self.file, self.number = text, file, number

    def parsed(self) -> Any:
        try:
            item = json.loads(self.text)
        except UnicodeDecodeError as error:
            raise Error(
                f"{self.file}:{self.number}: byte {error.start} of the line, {error.object[error.start]:#04x}, is not UTF-8; "
                f"convert the file: iconv -f latin1 -t utf-8"
            ) from None
        except ValueError as error:
            raise Error(f"{self.file}:{self.number}: not JSON: {error}") from None
        if isinstance(item, list) and item and isinstance(item[0], Mapping):
            raise Error(
                f"{self.file}:{self.number}: the line is a list of {len(item)} objects, and each is a sample: write an object "
                "a line, or give the list itself, json.load(open(…))"
            )
        return item


def _ranges(source: Sequence[Any], size: int) -> Iterator[Chunk]:
    for begin in range(0, len(source), size):
        yield _Range(source, begin, min(begin + size, len(source)))


def _cut(items: Iterable[Any], size: int) -> Iterator[Chunk]:
    iterator = iter(items)
    while piece := list(itertools.islice(iterator, size)):
        yield _Items(piece)


# ---- files -------------------------------------------------------------------------------------------------------------


def _files(source: object) -> list[str] | None:
    """The files that a path, a glob or a list of them names, in order; None where the source is no path."""
    if isinstance(source, (str, os.PathLike)):
        named = [os.fspath(source)]
    elif (
        isinstance(source, (list, tuple))
        and source
        and all(isinstance(item, os.PathLike) or _is_file_name(item) for item in source)
    ):
        named = [os.fspath(item) for item in source]
    else:
        return None
    files: list[str] = []
    for name in named:
        found = [str(name)] if os.path.exists(name) else sorted(glob.glob(str(name), recursive=True))
        if not found:
            raise Error(f"{name}: no such file")
        files += found
    return files


def _is_file_name(item: object) -> bool:
    return isinstance(item, str) and item.endswith((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".txt", ".parquet"))


def _read(file: str) -> Iterator[Any]:
    name = file.removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return _lines(file)
    if name.endswith(".txt"):
        return _texts(file)
    if file.endswith(".parquet"):
        return _rows(file)
    raise Error(
        f"{file}: what kind of file is it? Known by their names are .jsonl, .txt (each also .gz) and .parquet; "
        "read others yourself and give the samples"
    )


def _open(file: str) -> IO[bytes]:
    try:
        return cast(IO[bytes], gzip.open(file, "rb")) if file.endswith(".gz") else open(file, "rb")
    except OSError as error:
        raise Error(f"{file}: {error.strerror}") from error


def _lines(file: str) -> Iterator[_Line]:
    with _open(file) as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _Line(line, file, number)


def _texts(file: str) -> Iterator[dict[str, str]]:
    """Documents of a text file, which empty lines part."""
    with _open(file) as stream:
        document: list[str] = []
        for line in itertools.chain(stream, [b""]):
            text = line.decode("utf-8", "replace")
            if text.strip():
                document.append(text)
            elif document:
                yield {"text": "".join(document)}
                document = []


def _rows(file: str) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise Error(f"{file}: reading parquet needs pyarrow: pip install pyarrow") from None
    with pyarrow.parquet.ParquetFile(Path(file)) as table:
        for batch in table.iter_batches():
            yield from batch.to_pylist()
