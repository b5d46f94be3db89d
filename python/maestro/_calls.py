"""How a module is called: from what a user gives as an example to named tensors, and from what the module returns to
named outputs. Knows of Hugging Face what every one of its models has in common, and no model by name.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from ._error import Error

# What Hugging Face returns beside the result, for a next call of `generate` or for people.
_NOT_FOR_TRAINING = {
    "past_key_values",
    "hidden_states",
    "attentions",
    "cross_attentions",
    "decoder_hidden_states",
    "decoder_attentions",
    "encoder_hidden_states",
    "encoder_attentions",
    "encoder_last_hidden_state",
    "mems",
}
_CONFIG_OF_A_CALL = {
    "use_cache": False,
    "return_dict": True,
    "output_hidden_states": False,
    "output_attentions": False,
    "_experts_implementation_internal": "batched_mm",  # A mixture of experts: the one that is operators of ONNX.
}

_ATTENTION = "_attn_implementation_internal"


def is_hugging_face(model: torch.nn.Module) -> bool:
    return hasattr(model, "config") and hasattr(model.config, "to_dict") and hasattr(model, "save_pretrained")


@dataclasses.dataclass
class Call:
    """The arguments of one call: tensors, which become the graph's inputs, and settings, which become part of it."""

    tensors: dict[str, torch.Tensor]
    settings: dict[str, Any]


def read_example(model: torch.nn.Module, example: object) -> Call:
    """A dict of keywords, a tuple of positional arguments, a tuple that ends with a dict of keywords, or one tensor."""
    if not isinstance(model, torch.nn.Module):
        what = (
            f"the class {model.__name__}; make one: {model.__name__}(…)"
            if isinstance(model, type)
            else f"a {type(model).__name__}"
        )
        raise Error(f"a torch.nn.Module is exported, and this is {what}")
    parameters = inspect.signature(model.forward).parameters
    positional: tuple[Any, ...]
    named: dict[str, Any]
    if isinstance(example, torch.Tensor):
        positional, named = (example,), {}
    elif isinstance(example, Mapping):
        positional, named = (), dict(example)
    elif isinstance(example, (tuple, list)):
        ends_with_keywords = bool(example) and isinstance(example[-1], Mapping)
        positional = tuple(example[:-1] if ends_with_keywords else example)
        named = dict(example[-1]) if ends_with_keywords else {}
    else:
        raise Error(
            f"the example is a {type(example).__name__}; give a dict of tensors by argument name, or a tuple of tensors"
        )
    order = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    variable = next(
        (name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL), None
    )
    if variable is not None and len(positional) > len(order):
        raise Error(
            f"{type(model).__name__}.forward takes *{variable}, whose tensors have no names; "
            "give it a forward that names its arguments"
        )
    if len(positional) > len(order):
        raise Error(
            f"the example has {len(positional)} positional arguments, and {type(model).__name__}.forward takes "
            f"{len(order)}: {', '.join(order)}"
        )
    arguments = dict(zip(order, positional, strict=False)) | named
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in arguments:
        if name not in parameters and not takes_any:
            raise Error(f"{type(model).__name__}.forward has no argument '{name}'; it takes {', '.join(parameters)}")
        if name not in parameters and (
            near := difflib.get_close_matches(name, set(parameters) - set(arguments), 1, 0.8)
        ):
            raise Error(f"{type(model).__name__}.forward names no argument '{name}'; did you mean '{near[0]}'?")
    call = Call({}, {})
    for name, value in arguments.items():
        value = _as_tensor(value)
        if isinstance(value, torch.Tensor):
            call.tensors[name] = value
        elif value is None or isinstance(value, (bool, int, float, str)):
            call.settings[name] = value
        else:
            raise Error(
                f"the example's '{name}' is a {type(value).__name__}, not a tensor or a plain value; "
                "wrap the model in one whose forward takes tensors"
            )
    if not call.tensors:
        raise Error(
            "the example holds no tensor; give tensors by argument name, such as "
            f"{{'{next(iter(order), 'x')}': torch.…}}"
        )
    return call


def _as_tensor(value: Any) -> Any:
    """Arrays and lists of numbers as tensors; anything else as it is."""
    if not isinstance(value, (list, numpy.ndarray)):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):  # Of text, or ragged.
        return value


def on_device(model: torch.nn.Module, call: Call) -> Call:
    """The same example where the model's parameters are, which may be the meta device."""
    held = [*model.parameters(), *model.buffers()]
    device = held[0].device if held else torch.device("cpu")
    return Call({name: value.detach().to(device) for name, value in call.tensors.items()}, call.settings)


def select_outputs(result: object, asked: Sequence[str] | None) -> dict[str, torch.Tensor]:
    """What a call returned, by name. Mappings (a ModelOutput is one), dataclasses and named tuples have names; others
    are given `asked`, in order. Without `asked`, all tensors but what only a next call needs."""
    fields = getattr(result, "_fields", None)
    found: dict[str, Any]
    if isinstance(result, Mapping):
        found = dict(result)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        found = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    elif fields is not None and isinstance(result, tuple):
        found = dict(zip(fields, result, strict=True))
    else:
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        names = (
            list(asked)
            if asked is not None
            else [_default_name(value, index, len(values)) for index, value in enumerate(values)]
        )
        if len(names) > len(values):
            raise Error(f"outputs names {len(names)} tensors ({', '.join(names)}), and the model returns {len(values)}")
        found = dict(zip(names, values, strict=False))
    if asked is not None:
        for name in asked:
            if not isinstance(found.get(name), torch.Tensor):
                known = ", ".join(key for key, value in found.items() if isinstance(value, torch.Tensor))
                raise Error(f"the model returns no tensor '{name}'; it returns {known}")
        return {name: found[name] for name in asked}
    tensors = {
        name: value
        for name, value in found.items()
        if isinstance(value, torch.Tensor) and name not in _NOT_FOR_TRAINING
    }
    if not tensors:
        raise Error(
            f"the model returns a {type(result).__name__} without tensors that a loss could read; name them with outputs="
        )
    return tensors


def _default_name(value: object, index: int, count: int) -> str:
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return "loss" if count == 1 else f"loss_{index}"
    return "output" if count == 1 else f"output_{index}"


@contextmanager
def called_by_name(
    model: torch.nn.Module, call: Call, outputs: Sequence[str] | None, *, eager: bool = False
) -> Iterator[list[str]]:
    """Within it, `model(**tensors)` returns a list of tensors, whose names are in the list that is yielded once it was
    called. `eager`: a Hugging Face model's attention as single operators. The model's own forward, and all that is set
    here, is as before afterwards."""
    forward: Callable[..., Any] = model.forward
    names: list[str] = []

    def named(**tensors: torch.Tensor) -> list[torch.Tensor]:
        found = select_outputs(forward(**tensors, **call.settings), outputs)
        names[:] = found
        return list(found.values())

    # The exporter reads the signature, binds by it and passes what it bound by position.
    def by_position(*values: torch.Tensor, **tensors: torch.Tensor) -> list[torch.Tensor]:
        return named(**dict(zip(call.tensors, values, strict=False)), **tensors)

    by_position.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in call.tensors]
    )
    own = model.__dict__.get("forward")
    with _config_of_a_call(model, _CONFIG_OF_A_CALL | ({_ATTENTION: "eager"} if eager else {})):
        model.__dict__["forward"] = by_position
        try:
            yield names
        finally:
            del model.__dict__["forward"]
            if own is not None:
                model.__dict__["forward"] = own


@contextmanager
def _config_of_a_call(model: torch.nn.Module, settings: Mapping[str, Any]) -> Iterator[None]:
    """Hugging Face: no cache, results by name, and what can be exported, in every part of the model."""
    changed: list[tuple[Any, str, Any]] = []
    try:
        for config in configs(model):
            for name, value in settings.items():
                if vars(config).get(name) not in (None, value):
                    changed.append((config, name, getattr(config, name)))
                    setattr(config, name, value)
        yield
    finally:
        for config, name, value in reversed(changed):
            setattr(config, name, value)


def configs(model: torch.nn.Module) -> list[Any]:
    parts = [part.config for part in model.modules() if hasattr(getattr(part, "config", None), "to_dict")]
    return list({id(config): config for config in parts}.values())


def has_fused_attention(model: torch.nn.Module) -> bool:
    """Whether a Hugging Face model asks PyTorch for attention in one piece, for which `eager` is another way."""
    return any(vars(config).get(_ATTENTION) not in (None, "eager") for config in configs(model))


@contextmanager
def in_mode(model: torch.nn.Module, train: bool) -> Iterator[None]:
    """train() or eval() for a while; every part then returns to the mode it had."""
    modes = [(part, part.training) for part in model.modules()]
    try:
        model.train(train)
        yield
    finally:
        for part, mode in modes:
            part.training = mode
