"""`maestro.shards`: samples from anywhere into the WebDataset shards that maestro-run reads.

    source ──chunks──▶ map ──▶ truncate ──▶ next_token, or pack ──▶ arrays ──▶ one shard a chunk, written aside, renamed

A chunk is a fixed number of the source's items and becomes one shard, whatever the number of processes: the same source
gives the same bytes.
"""

from __future__ import annotations

import io
import itertools
import logging
import multiprocessing
import os
import sys
import tarfile
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from ._error import Error
from ._sources import Chunk, chunks
from ._tokens import Made, Recipe, Sample, finished

logger = logging.getLogger("maestro")


@dataclass
class Shards:
    """What was written; `maestro.run` and `maestro.plan` take it as their data."""

    files: list[Path] = field(default_factory=list)
    samples: int = 0
    tokens: int = 0
    """Of the field that holds tokens, where there is one."""
    skipped: int = 0
    """Items of which `map` made no sample, or too short a one."""

    def __str__(self) -> str:
        tokens = f", {self.tokens:,} tokens" if self.tokens else ""
        skipped = f", {self.skipped:,} items skipped" if self.skipped else ""
        return f"{len(self.files)} shards, {self.samples:,} samples{tokens}{skipped}"


def shards(
    source: object,
    path: str | os.PathLike[str],
    *,
    map: Callable[[Any], Any] | None = None,
    per_shard: int = 4096,
    truncate: int | None = None,
    pack: int | None = None,
    next_token: bool | None = None,
    eos: int | None = None,
    boundaries: bool = False,
    tokens: str = "input_ids",
    fields: Sequence[str] | None = None,
    processes: int | None = None,
    overwrite: bool = False,
) -> Shards:
    """Writes samples as WebDataset shards: `path.format(0)`, `path.format(1)` …

    Args:
        source: an iterable of samples, a Hugging Face or PyTorch dataset, or the path (or paths, or a glob) of .jsonl,
            .txt (documents parted by empty lines) or .parquet files.
        path: the shards' name with a place for their number: `"out/{:05d}.tar"`. Without one, there is one shard;
            `.tar` is added where it is missing.
        map: makes a sample of an item: a dict of arrays by field, a list of such dicts, token ids alone, or None to
            leave the item out. It runs in several processes. Without it, items are samples.
        per_shard: the items of the source that make one shard.
        truncate: the most tokens of a sample.
        pack: joins the samples' tokens and cuts them into samples of so many; what is left over at a shard's end is a
            shorter one.
        next_token: makes `labels` what a model that predicts the next token is trained on: each token's label is that
            of the token after it. Labels that a sample has already (-100 over a prompt) are shifted alike, and
            otherwise are the tokens. By default so where `pack` is given. Maestro's losses never shift labels; a
            Hugging Face model's own loss does, and wants `next_token=False`.
        eos: a token to end each sample with before they are joined.
        boundaries: with `pack`, adds `position_ids` that begin again with each sample of the source, and gives no label
            to what would be predicted across. A graph that is exported with `position_ids` among its inputs then
            attends within each sample alone, as far as the model does so (Hugging Face's do). Without, one packed
            sample attends to another, as is usual.
        tokens: the field that holds token ids. Fields as long as it (masks, labels) are cut and joined with it.
        fields: the fields to keep; by default all.
        processes: how many work at a time; by default one a core.
        overwrite: removes the shards of an earlier call, which are an error otherwise.

    Returns:
        The files, and how many samples and tokens they hold.

    Raises:
        Error: an item is no sample; the message names it.
    """
    recipe = Recipe(
        map,
        tokens,
        _positive("truncate", truncate),
        _positive("pack", pack),
        pack is not None if next_token is None else next_token,
        eos,
        boundaries,
        None if fields is None else tuple(fields),
    )
    if boundaries and pack is None:
        raise Error("boundaries are those of samples that pack= joins; without pack= each sample is one by itself")
    if eos is not None and pack is None:
        raise Error("eos= parts the samples that pack= joins; without pack=, add it in map=")
    name = _Name(os.fspath(path), overwrite)
    size = per_shard if name.is_numbered else sys.maxsize
    _positive("per_shard", per_shard)
    result = Shards()
    try:
        for number, made in enumerate(_work(chunks(source, size), recipe, name, processes)):
            if made.samples:
                result.files.append(name.of(number))
            result.samples += made.samples
            result.tokens += made.tokens
            result.skipped += made.skipped
    except BaseException:
        name.remove_all()  # A part of the data would be taken for all of it.
        raise
    if not result.samples:
        raise Error(
            "the source gave no sample"
            + (f"; all of its {result.skipped} items were skipped" if result.skipped else "")
        )
    logger.info("%s: %s", path, result)
    return result


def _positive(what: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise Error(f"{what} is {value}; it must be at least 1")
    return value


class _Name:
    """The shards' names, none of which an earlier call may have left."""

    def __init__(self, pattern: str, overwrite: bool) -> None:
        self.highest = -1
        self.pattern = pattern if pattern.endswith(".tar") else f"{pattern}.tar"
        try:
            self.is_numbered = pattern.format(0) != pattern.format(1)
        except (IndexError, KeyError, ValueError) as error:
            raise Error(
                f"{pattern}: not a name with one place for a number, such as out/{{:05d}}.tar: {error}"
            ) from None
        self.of(0).parent.mkdir(parents=True, exist_ok=True)
        for number in itertools.count():
            if not self.of(number).exists():
                break
            if not overwrite:
                raise Error(f"{self.of(number)} exists; give another path, or overwrite=True")
            self.of(number).unlink()
            if not self.is_numbered:
                break

    def of(self, number: int) -> Path:
        return Path(self.pattern.format(number))

    def next(self, number: int) -> Path:
        """The name of a shard that is now to be made."""
        self.highest = number
        return self.of(number)

    def remove_all(self) -> None:
        for number in range(self.highest + 1):
            self.of(number).unlink(missing_ok=True)


# ---- processes -----------------------------------------------------------------------------------------------------------


def _work(pieces: Iterator[Chunk], recipe: Recipe, name: _Name, processes: int | None) -> Iterator[Made]:
    """In order. One chunk, or one process, is worked on here."""
    count = processes or len(os.sched_getaffinity(0))
    first = list(itertools.islice(pieces, 2))
    numbered = enumerate(itertools.chain(first, pieces))
    if count == 1 or len(first) < 2:
        for number, chunk in numbered:
            yield _make_shard(chunk, recipe, name.next(number), number)
        return
    # Forked, so that `map` may be a lambda; it lies in a global of the children.
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_child, initargs=(recipe, first[0]))
    waiting: deque[Future[Made]] = deque()
    try:
        for number, chunk in numbered:
            waiting.append(pool.submit(_make_in_child, _portable(chunk, first[0]), name.next(number), number))
            if len(waiting) > 2 * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_recipe: Recipe | None = None
_source: Any = None


def _begin_child(recipe: Recipe, first: Chunk) -> None:
    global _recipe, _source
    _recipe, _source = recipe, getattr(first, "source", None)
    if "torch" in sys.modules:  # Its threads did not come along.
        sys.modules["torch"].set_num_threads(1)


def _portable(chunk: Any, first: Any) -> tuple[str, Any]:
    """Of an indexed dataset, which the children have, a range alone is sent."""
    if getattr(chunk, "source", None) is not None and chunk.source is first.source:
        return "range", (chunk.begin, chunk.end)
    return "chunk", chunk


def _make_in_child(portable: tuple[str, Any], file: Path, number: int) -> Made:
    from ._sources import _Range

    assert _recipe is not None
    kind, value = portable
    return _make_shard(_Range(_source, *value) if kind == "range" else value, _recipe, file, number)


# ---- one shard -----------------------------------------------------------------------------------------------------------


def _make_shard(chunk: Chunk, recipe: Recipe, file: Path, number: int) -> Made:
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    made = Made()
    try:
        with tarfile.open(aside, "w", format=tarfile.USTAR_FORMAT) as shard:
            for index, sample in enumerate(finished(_samples(chunk, recipe, number, made), recipe, made)):
                _add(shard, f"{number:05d}-{index:06d}", sample)
                made.samples += 1
                made.tokens += sample[recipe.tokens].size if recipe.tokens in sample else 0
        if made.samples:
            os.replace(aside, file)
    except OSError as error:
        raise Error(f"{file}: {error.strerror or error}", status=2) from error
    finally:
        aside.unlink(missing_ok=True)
    return made


def _add(shard: tarfile.TarFile, key: str, sample: Sample) -> None:
    for name, array in sample.items():
        numpy.save(content := io.BytesIO(), array, allow_pickle=False)
        member = tarfile.TarInfo(f"{key}.{name}.npy")
        member.size = content.tell()
        content.seek(0)
        shard.addfile(member, content)


def _samples(chunk: Chunk, recipe: Recipe, number: int, made: Made) -> Iterator[Sample]:
    """The items' samples, as arrays."""
    for index, item in enumerate(chunk()):
        where = f"item {index} of shard {number}"
        try:
            mapped = recipe.map(item) if recipe.map else item
        except Error:
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            has = f"; the item has {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
            raise Error(
                f"{where}: map raised {type(error).__name__}: {error} ({last.filename}:{last.lineno})"
                + (has if isinstance(error, KeyError) else "")
            ) from None
        found = 0
        for value in _several(mapped):
            yield _arrays(value, recipe, where)
            found += 1
        made.skipped += not found


def _several(mapped: Any) -> Iterable[Any]:
    if mapped is None:
        return ()
    is_batch = isinstance(mapped, (list, tuple, Iterator)) and not _are_numbers(mapped)
    return mapped if is_batch else (mapped,)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], (int, float, numpy.number))


def _arrays(value: Any, recipe: Recipe, where: str) -> Sample:
    if not isinstance(value, Mapping) and not (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        value = {recipe.tokens: value}
    names = list(value.keys())
    if recipe.fields is not None:
        for name in recipe.fields:
            if name not in names:
                raise Error(f"{where} has no field '{name}'; it has {', '.join(map(str, names))}")
        names = list(recipe.fields)
    return {name: _array(value[name], name, name in (recipe.tokens, "labels"), where) for name in names}


def _array(value: Any, name: Any, is_tokens: bool, where: str) -> numpy.ndarray[Any, Any]:
    """As maestro-run reads it, which widens integers to what the graph takes."""
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
        raise Error(f"{where} has a field named {name!r}; names are of letters, digits, _ and -")
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        array = numpy.asarray(value)
    except ValueError as error:
        raise Error(f"{where}: '{name}' is no array: {error}") from None
    if array.size == 0 and array.dtype == numpy.float64:
        array = array.astype(numpy.int32)
    if array.dtype.kind not in "biuf":
        raise Error(
            f"{where}: '{name}' is {_short(value)}, not numbers; make them in map=, or choose the fields with fields="
        )
    if array.dtype == numpy.float64:
        return array.astype(numpy.float32)
    widened = array.dtype.kind == "u" and array.dtype.itemsize > 1
    narrowed = array.dtype.itemsize > 4 and not isinstance(value, numpy.ndarray)
    if array.dtype.kind in "iu" and (is_tokens or widened or narrowed):
        fits = array.size == 0 or (array.min() >= -(1 << 31) and array.max() < 1 << 31)
        return array.astype(numpy.int32 if fits else numpy.int64)
    return array


def _short(value: Any) -> str:
    text = repr(value)
    return f"the {type(value).__name__} {text[:40]}{'…' if len(text) > 40 else ''}"
