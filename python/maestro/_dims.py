"""Which dims of an example vary, and what they are called.

By convention: rows are `batch`, positions of tokens `seq` (an encoder-decoder's are `source` and `target`), images
beside text `images`, samples of sound `time`. Whatever else a model reads has rows that vary and sizes that do not,
unless the user says so. The names are those by which workload files and data refer to dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._error import Error

Dims = Mapping[int, str] | Sequence[str | None]
_SEQUENCES = {
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
    "labels",
    "loss_mask",
    "document_ids",
    "special_tokens_mask",
    "bbox",
}
_TARGETS = {"decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "decoder_position_ids", "labels"}
_IMAGES = {"pixel_values", "image_features", "pixel_mask", "pixel_attention_mask"}


def name_dims(
    tensors: Mapping[str, torch.Tensor], given: Mapping[str, Dims] | None, config: Any = None
) -> dict[str, dict[int, str]]:
    """For each input its varying axes and their names; `given` replaces the convention for the inputs that it names."""
    given = given or {}
    for name in given:
        if name not in tensors:
            raise Error(f"dims names '{name}', which is no input; the inputs: {', '.join(tensors)}")
    has_text = any(name in tensors for name in ("input_ids", "inputs_embeds"))
    has_decoder = bool(getattr(config, "is_encoder_decoder", False))
    dims = {}
    for name, tensor in tensors.items():
        if name in given:
            dims[name] = _as_given(name, tensor, given[name])
        else:
            dims[name] = _by_convention(name, tensor, has_text, has_decoder)
    _check_sizes(tensors, dims)
    return dims


def _as_given(name: str, tensor: torch.Tensor, given: Dims) -> dict[int, str]:
    entries = (
        dict(given) if isinstance(given, Mapping) else {axis: dim for axis, dim in enumerate(given) if dim is not None}
    )
    for axis, dim in entries.items():
        if not isinstance(axis, int) or not -tensor.dim() <= axis < tensor.dim() or not isinstance(dim, str):
            raise Error(
                f"dims of '{name}' names axis {axis!r} as {dim!r}; its axes are 0 to {tensor.dim() - 1}, and names are text"
            )
    return {axis % tensor.dim(): dim for axis, dim in entries.items()}


def _by_convention(name: str, tensor: torch.Tensor, has_text: bool, has_decoder: bool) -> dict[int, str]:
    if tensor.dim() == 0:
        return {}
    rows = "images" if name in _IMAGES and has_text else "batch"
    if tensor.dim() == 1:
        return {0: rows}
    if has_decoder and name in _TARGETS:
        return {0: rows, 1: "target"}
    if name in _SEQUENCES:
        return {0: rows, 1: "source" if has_decoder else "seq"}
    if name == "input_values":
        return {0: rows, 1: "time"}
    if tensor.dim() == 2 and not tensor.is_floating_point():
        return {0: rows, 1: "seq"}
    return {0: rows}


def _check_sizes(tensors: Mapping[str, torch.Tensor], dims: Mapping[str, Mapping[int, str]]) -> None:
    first: dict[str, tuple[str, int]] = {}
    for name, axes in dims.items():
        for axis, dim in axes.items():
            size = tensors[name].shape[axis]
            other, known = first.setdefault(dim, (name, size))
            if size != known:
                raise Error(
                    f"the example's '{other}' and '{name}' disagree about {dim}: {known} and {size}; "
                    f"make them equal, or name the dims with dims={{'{name}': (…)}}"
                )


def bounds_of(
    dims: Mapping[str, Mapping[int, str]], given: Mapping[str, int] | None, config: Any = None
) -> dict[str, int]:
    """The largest size of a dim in one sample, where the user or the model's config says so."""
    names = {dim for axes in dims.values() for dim in axes.values()}
    for dim in given or {}:
        if dim not in names:
            raise Error(f"bounds names '{dim}', which is no dim; the dims: {', '.join(sorted(names))}")
    bounds = {}
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    longest = getattr(text, "max_position_embeddings", None)
    if isinstance(longest, int) and longest > 1 and "position_ids" not in dims:  # Else a row may hold several texts.
        bounds = {dim: longest for dim in ("seq", "source", "target") if dim in names}
    return bounds | dict(given or {})


def with_room(tensors: Mapping[str, torch.Tensor], dims: Mapping[str, Mapping[int, str]]) -> dict[str, torch.Tensor]:
    """The example with at least two of everything that varies: the exporter makes a number of a dim of one. What is
    there is repeated.
    """
    result = dict(tensors)
    for name, axes in dims.items():
        for axis in axes:
            size = result[name].shape[axis]
            if size == 0:
                raise Error(f"the example's '{name}' is empty along axis {axis}; give at least one of everything")
            if size == 1:
                result[name] = torch.cat([result[name]] * 2, dim=axis)
    return result
