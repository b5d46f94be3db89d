"""What becomes of samples of tokens on their way into a shard: cut, shifted by one, or joined and cut anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from ._error import Error

IGNORED = -100
Sample = dict[str, numpy.ndarray[Any, Any]]


@dataclass(frozen=True)
class Recipe:
    """What happens to each item of a source; the same in every process."""

    map: Callable[[Any], Any] | None
    tokens: str
    truncate: int | None
    pack: int | None
    next_token: bool
    eos: int | None
    boundaries: bool
    fields: tuple[str, ...] | None


@dataclass
class Made:
    """What one shard holds."""

    samples: int = 0
    tokens: int = 0
    skipped: int = 0


def finished(samples: Iterable[Sample], recipe: Recipe, made: Made) -> Iterator[Sample]:
    if recipe.pack is not None:
        return _packed(samples, recipe, made)
    return _separate(samples, recipe, made)


def _along(sample: Sample, recipe: Recipe) -> set[str]:
    """The fields that have an entry a token."""
    if recipe.tokens not in sample:
        raise Error(
            f"a sample has no field '{recipe.tokens}', whose tokens pack=, truncate= and next_token= are about; it has "
            f"{', '.join(sample)}. tokens= names another"
        )
    ids = sample[recipe.tokens]
    if ids.ndim != 1:
        raise Error(
            f"'{recipe.tokens}' has shape {list(ids.shape)}; a sample's tokens are one row: leave out return_tensors in map="
        )
    return {name for name, array in sample.items() if array.ndim and array.shape[0] == len(ids)}


def _separate(samples: Iterable[Sample], recipe: Recipe, made: Made) -> Iterator[Sample]:
    for sample in samples:
        if recipe.truncate is None and not recipe.next_token:
            yield sample
            continue
        along = _along(sample, recipe)
        if recipe.next_token:
            if len(sample[recipe.tokens]) < 2:
                made.skipped += 1
                continue
            sample = _shifted(sample, along, recipe)
            along |= {"labels"}
        yield {name: array[: recipe.truncate] if name in along else array for name, array in sample.items()}


def _shifted(sample: Sample, along: set[str], recipe: Recipe) -> Sample:
    """Every token but the last, and as its label that of the token after it."""
    labels = sample["labels"] if "labels" in along else sample[recipe.tokens]
    result = {name: array[:-1] if name in along else array for name, array in sample.items()}
    result["labels"] = labels[1:]
    return result


def _packed(samples: Iterable[Sample], recipe: Recipe, made: Made) -> Iterator[Sample]:
    """One long row, of which each window shares a token with the next: its last label is the next one's first token."""
    assert recipe.pack is not None
    extra = 1 if recipe.next_token else 0
    row: Sample = {}
    for sample in samples:
        along = _along(sample, recipe)
        if foreign := [name for name in sample if name not in along]:
            raise Error(f"pack= joins tokens, and '{foreign[0]}' has no entry a token; choose the fields with fields=")
        if not len(sample[recipe.tokens]):
            made.skipped += 1
            continue
        sample = _ended(sample, recipe)
        if row and set(sample) != set(row):
            raise Error(
                f"samples that pack= joins have the same fields, and one has {', '.join(sample)} after {', '.join(row)}"
            )
        row = {name: numpy.concatenate([row[name], array]) if row else array for name, array in sample.items()}
        while len(row[recipe.tokens]) >= recipe.pack + extra:
            yield _window({name: array[: recipe.pack + extra] for name, array in row.items()}, recipe)
            row = {name: array[recipe.pack :] for name, array in row.items()}
    if row and len(row[recipe.tokens]) > extra:
        yield _window(row, recipe)


_START = "document start"


def _ended(sample: Sample, recipe: Recipe) -> Sample:
    """With `eos` behind it, and its beginning marked."""
    if recipe.truncate is not None:
        sample = {name: array[: recipe.truncate] for name, array in sample.items()}
    if recipe.eos is not None:
        ends = {name: recipe.eos if name in (recipe.tokens, "labels") else 1 for name in sample}
        sample = {
            name: numpy.concatenate([array, numpy.full((1, *array.shape[1:]), ends[name], array.dtype)])
            for name, array in sample.items()
        }
    if recipe.boundaries:
        start = numpy.zeros(len(sample[recipe.tokens]), bool)
        start[0] = True
        sample = sample | {_START: start}
    return sample


def _window(row: Sample, recipe: Recipe) -> Sample:
    row = dict(row)
    start = row.pop(_START, None)
    if recipe.next_token and start is not None:
        labels = row.get("labels", row[recipe.tokens]).copy()
        labels[start] = IGNORED  # The first token of a sample follows from none.
        row["labels"] = labels
    if start is not None:
        places = numpy.arange(len(start), dtype=numpy.int32)
        row["position_ids"] = places - numpy.maximum.accumulate(numpy.where(start, places, 0))
    return _shifted(row, set(row), recipe) if recipe.next_token else row
