"""Samples for a case, as WebDataset shards that maestro-run reads and as the padded batch that PyTorch is given.

Both come from the same list of samples, so that a difference between the two runs is never the data's. numpy only.
"""

from __future__ import annotations

import io
import pathlib
import tarfile

import numpy

LOWEST_ID = 3  # ids below are pad, begin and end of sequence in some models
IGNORE = -100


def draw(kind: str, high: int, shape: tuple, random: numpy.random.Generator, counted: bool) -> numpy.ndarray:
    if kind == "normal":
        return random.standard_normal(shape).astype(numpy.float32)
    if kind == "ones":
        return numpy.ones(shape, numpy.int64)
    if kind == "class":
        return numpy.array(random.integers(0, high), numpy.int64)
    if kind == "mask01":
        return ((random.random(shape) < 0.7) & counted).astype(numpy.float32)
    ids = random.integers(LOWEST_ID, high, shape)
    if kind == "labels":
        ids = numpy.where((random.random(shape) < 0.2) | (not counted), IGNORE, ids)
    return ids.astype(numpy.int64)


def make_samples(case, count: int, seed: int) -> list:
    """`count` samples of lengths from 3 to the maximum; every seventh has no counted label, where labels are per position."""
    random = numpy.random.default_rng(seed)
    if case.sample:
        return [case.sample(case.fields, random, index, draw) for index in range(count)]
    fields, max_lengths = case.fields, case.max_lengths
    samples = []
    for index in range(count):
        lengths = {dim: int(random.integers(3, longest + 1)) for dim, longest in max_lengths.items()}
        sample = {}
        for name, field in fields.items():
            shape = tuple(lengths.get(dim, dim) for dim in field.dims[1:])
            sample[name] = draw(field.kind, field.high, shape, random, counted=index % 7 != 5)
        samples.append(sample)
    return samples


def make_chains(fields: dict, longest: int, count: int, seed: int) -> list:
    """Samples of input_ids and labels, the next id, from a noisy chain: a loss that falls without being learned by heart."""
    random = numpy.random.default_rng(seed)
    span = fields["input_ids"].high - LOWEST_ID
    samples = []
    for _ in range(count):
        chain = [int(random.integers(0, span))]
        for noise in random.integers(0, 8, int(random.integers(4, longest + 1))):
            chain.append((3 * chain[-1] + int(noise)) % span)
        ids = numpy.array(chain, numpy.int64) + LOWEST_ID
        samples.append({"input_ids": ids[:-1], "labels": ids[1:]})
    return samples


def collate(fields: dict, samples: list) -> dict:
    """One batch, padded on the right to the longest sample: labels with their `pad`, all else with 0. Rows of other dims
    than `batch` are joined; a sample without the field has none."""
    batch = {}
    for name, field in fields.items():
        if field.dims[0] != "batch":
            none = numpy.zeros((0, *field.dims[1:]), numpy.float32)
            batch[name] = numpy.concatenate([none, *(sample[name] for sample in samples if name in sample)])
            continue
        arrays = [sample[name] for sample in samples]
        shape = [max(sizes) for sizes in zip(*(array.shape for array in arrays))]
        padded = numpy.full([len(arrays), *shape], field.pad, arrays[0].dtype)
        for row, array in enumerate(arrays):
            padded[(row, *(slice(size) for size in array.shape))] = array
        batch[name] = padded
    return batch


def array_bytes(array: numpy.ndarray) -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, array)
    return buffer.getvalue()


def add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def write_shards(samples: list, folder: pathlib.Path, per_shard: int = 16) -> str:
    """Writes `folder/part-0000.tar` and so on; returns the pattern for --data."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(samples), per_shard):
        with tarfile.open(folder / f"part-{start // per_shard:04d}.tar", "w") as tar:
            for index, sample in enumerate(samples[start : start + per_shard], start):
                for name, array in sample.items():
                    if name == "labels" and array.ndim == 0:
                        add_member(tar, f"sample{index:06d}.{name}.cls", str(int(array)).encode())
                    else:
                        add_member(tar, f"sample{index:06d}.{name}.npy", array_bytes(array))
    return str(folder / "part-*.tar")
