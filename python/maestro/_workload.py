"""`maestro.workload`: a workload file, with a word on each of its parts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._error import Error

_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*")


def workload(
    path: str | os.PathLike[str],
    *,
    components: Mapping[str, str | os.PathLike[str] | Mapping[str, Any]],
    loss: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]],
    edges: Sequence[str | tuple[str, str]] | None = None,
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
    dims: Mapping[str, Mapping[str, Any]] | None = None,
    train: Mapping[str, Any] | None = None,
    **others: Any,
) -> Path:
    """Writes a workload file for `maestro.plan`, which checks it; what is left to defaults stands there as a comment.

    Args:
        path: the file to write, and to replace.
        components: the networks by name: an exported file, or `{"model": "teacher.onnx", "frozen": True}`. Paths are
            relative to the current folder, and relative to the workload file in it.
        loss: the terms of the loss, by kind or as a list: `{"cross_entropy": {"logits": "student.logits", "labels":
            "labels"}}`.
        edges: what feeds what, where names do not say so: `[("vision.features", "language.image_features")]`.
        inputs: data fields that cannot be inferred.
        dims: how a named dim combines over samples, and its bound: `{"seq": {"combine": "max", "max": 2048}}`.
        train: global_batch, optimizer, schedule, clip_grad_norm, precision, seed.
        others: any other part of a workload file.

    Returns:
        The file's path.
    """
    target = Path(path)
    lines = [
        "# Written by maestro.workload. Paths are relative to this file. maestro-plan says which defaults it takes."
    ]
    lines += [
        "components:",
        *_entries({name: _component(name, value, target.parent) for name, value in components.items()}),
    ]
    if edges:
        lines += ["edges:  # an output -> the input that it feeds", *(f"  - {_edge(edge)}" for edge in edges)]
    if inputs:
        lines += [
            "inputs:  # data fields; without more, a graph's input takes the field of its own name",
            *_entries(inputs),
        ]
    if dims:
        lines += [
            "dims:  # sum: samples add rows; max: padded to the longest. `max` bounds one sample",
            *_entries(dims),
        ]
    else:
        lines += [
            "# dims: {batch: {combine: sum}, seq: {combine: max, max: 1024}}    # by default as the graphs name them"
        ]
    lines += ["loss:  # the sum of these, each by its weight (1), over the whole global batch", *_terms(loss)]
    for name, value in others.items():
        lines += [f"{name}: {_flow(value)}"]
    lines += _train(dict(train or {}))
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_text("\n".join(lines) + "\n")
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    return target


def _component(name: str, value: str | os.PathLike[str] | Mapping[str, Any], folder: Path) -> dict[str, Any]:
    entry = dict(value) if isinstance(value, Mapping) else {"model": value}
    if "model" not in entry:
        raise Error(f"components: '{name}' has no model; give the path of an exported file")
    for key in ("model", "weights"):
        if key in entry:
            if not isinstance(entry[key], (str, os.PathLike)):
                raise Error(
                    f"components: '{name}' has a {type(entry[key]).__name__} as its {key}; give a file's path"
                    + (": maestro.export writes one and returns it" if key == "model" else "")
                )
            entry[key] = os.path.relpath(os.fspath(entry[key]), folder)
    return entry


def _edge(edge: str | tuple[str, str]) -> str:
    if isinstance(edge, str):
        return edge
    producer, consumer = edge
    return f"{producer} -> {consumer}"


def _entries(values: Mapping[str, Any]) -> list[str]:
    return [f"  {_scalar(name)}: {_flow(value)}" for name, value in values.items()]


def _listed(loss: Mapping[str, Any] | Sequence[Any]) -> Sequence[Any]:
    return list(loss.values()) if isinstance(loss, Mapping) else loss


def _terms(loss: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]]) -> list[str]:
    if not isinstance(loss, (Mapping, list, tuple)) or not all(isinstance(term, Mapping) for term in _listed(loss)):
        raise Error(
            f"loss is {loss!r}; give its terms by kind, such as "
            '{"cross_entropy": {"logits": "student.logits", "labels": "labels"}}, or as a list of these'
        )
    terms = [{kind: value} for kind, value in loss.items()] if isinstance(loss, Mapping) else list(loss)
    if not terms:
        raise Error("loss has no term")
    lines = []
    for term in terms:
        (first, value), *more = term.items()
        lines.append(f"  - {first}: {_flow(value)}")
        lines += [f"    {name}: {_flow(item)}" for name, item in more]
    return lines


_TRAIN_DEFAULTS = {
    "global_batch": "32",
    "optimizer": "{adamw: {lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.01}}",
    "schedule": "{warmup_steps: 100, decay: cosine, total_steps: 10000, min_lr: 0}    # by default none",
    "clip_grad_norm": "1.0    # by default none",
    "precision": "f32    # or bf16",
    "seed": "0",
}


def _train(train: dict[str, Any]) -> list[str]:
    lines = []
    for name in [*_TRAIN_DEFAULTS, *(name for name in train if name not in _TRAIN_DEFAULTS)]:
        lines.append(f"  {name}: {_flow(train[name])}" if name in train else f"  # {name}: {_TRAIN_DEFAULTS[name]}")
    return (["train:"] if train else ["# train:"]) + lines


def _flow(value: Any) -> str:
    """YAML of one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(name)}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        is_word = _PLAIN.fullmatch(text) and text.lower() not in ("true", "false", "null", "yes", "no", "on", "off")
        return text if is_word else json.dumps(text, ensure_ascii=False)
    raise Error(f"a workload file has no place for a {type(value).__name__}: {value!r}")
