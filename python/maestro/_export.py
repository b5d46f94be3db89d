"""`maestro.export`: a PyTorch module as the ONNX file that maestro-plan reads, with what ONNX itself cannot say."""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from . import _calls, _dims, _no_grad, _repeat
from ._error import Error
from ._version import __version__

logger = logging.getLogger("maestro")

OPSET = 23  # The first with an operator for attention.


def export(
    model: torch.nn.Module,
    example: object,
    path: str | os.PathLike[str],
    *,
    weights: bool = True,
    outputs: Sequence[str] | None = None,
    dims: Mapping[str, _dims.Dims] | None = None,
    bounds: Mapping[str, int] | None = None,
    buffers: Mapping[str, torch.Tensor] | None = None,
    train: bool = False,
) -> Path:
    """Writes `model` as a component for `maestro.plan`: its graph, its weights, and what only PyTorch knows of them.

    The model is used as it is and left as it is. The file says which parameters have `requires_grad`, which are tied,
    the values of buffers that no checkpoint holds, and a Hugging Face model's class and config (README.md has the
    keys).

    Args:
        model: any module; a Hugging Face model needs no wrapper. Parameters keep their `state_dict` names.
        example: the arguments of one call: a dict by name (what a tokenizer returns, `model.dummy_inputs`), a tuple, or
            a tensor. Only shapes and element types matter.
        path: the file to write, to which `.onnx` is added where it is missing; its stem names the component. It is
            replaced only once it is whole.
        weights: with the parameters' values. Without, they come from `weights:` in the workload, or from a run's
            `--weights`; the model may then be on the meta device, and of any size.
        outputs: the results to keep, by name: keys of what the model returns, or names for a tensor or tuple. By
            default all but caches, hidden states and attentions.
        dims: the varying dims of inputs that have no usual name: `{"features": ("batch", None, "time")}`. By default
            rows are `batch` and positions of tokens are `seq`.
        bounds: the largest size of a dim in one sample. By default a config's `max_position_embeddings`, unless
            `position_ids` are an input: packed rows are longer than what they hold. Planning takes it where the
            workload gives no `dims.NAME.max`; micro-batches have room for one such sample.
        buffers: values of non-persistent buffers by name, where the model has none (on the meta device) and does not
            know how to make them.
        train: the graph of `train()`, in which dropout drops, rather than of `eval()`.

    Returns:
        The file's path.

    Raises:
        Error: the example does not fit, or PyTorch cannot export the model.
    """
    model = getattr(model, "_orig_mod", model)  # torch.compile wraps.
    target = Path(path) if Path(path).suffix == ".onnx" else Path(f"{os.fspath(path)}.onnx")
    config = model.config if _calls.is_hugging_face(model) else None
    example = _calls.read_example(model, example)
    if weights:
        _refuse_valueless(model)
    call = _calls.on_device(model, example)
    names = _dims.name_dims(call.tensors, dims, config)
    limits = _dims.bounds_of(names, bounds, config)
    call.tensors = _dims.with_room(call.tensors, names)
    program, results = _trace(model, call, names, limits, outputs, train)
    _name_outputs(program, results)
    _fill_buffers(program, model, dict(buffers or {}))
    if not weights:
        _take_weights_out(program)
    _describe(program, model, limits)
    _shorten_traces(program)
    _save(program, target)
    logger.info(
        "%s: %s -> %s",
        target,
        ", ".join(_shown(value) for value in program.model.graph.inputs if value.name in call.tensors),
        ", ".join(_shown(value) for value in program.model.graph.outputs),
    )
    return target


# ---- tracing ----------------------------------------------------------------------------------------------------------


def _refuse_valueless(model: torch.nn.Module) -> None:
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_meta:
            raise Error(
                f"'{name}' is on the meta device and has no value; export with weights=False, or load the model's weights first"
            )


def _trace(
    model: torch.nn.Module,
    call: _calls.Call,
    dims: dict[str, dict[int, str]],
    bounds: dict[str, int],
    outputs: Sequence[str] | None,
    train: bool,
) -> tuple[Any, list[str]]:
    symbols = {
        dim: torch.export.Dim(dim, max=bounds[dim]) if dim in bounds else torch.export.Dim(dim)
        for axes in dims.values()
        for dim in axes.values()
    }
    shapes = {name: {axis: symbols[dim] for axis, dim in axes.items()} for name, axes in dims.items()}
    mode = torch.onnx.TrainingMode.TRAINING if train else torch.onnx.TrainingMode.EVAL

    def exported() -> Any:
        with _quiet_exporter(), _no_grad.detached():
            return torch.onnx.export(
                model,
                (),
                kwargs=dict(call.tensors),
                dynamic_shapes=shapes,
                opset_version=OPSET,
                training=mode,
                dynamo=True,
                optimize=False,
                verbose=False,
            )

    def traced(eager: bool) -> tuple[Any, list[str]]:
        with _calls.in_mode(model, train), _calls.called_by_name(model, call, outputs, eager=eager) as results:
            program = _repeat.traced(model, exported) or exported()
            return program, list(results)

    try:
        program, results = traced(eager=False)
    except Exception as error:
        if _is_ours(error) or not _calls.has_fused_attention(model):
            raise Error(_cause(model, error)) from error
        try:  # Of some masks and layouts, the exporter cannot make what PyTorch's own attention does.
            program, results = traced(eager=True)
        except Exception:
            raise Error(_cause(model, error)) from error
        reason = _cause(model, error).splitlines()[0]
        logger.warning("%s: attention as single operators (eager), since otherwise: %s", type(model).__name__, reason)
    _refuse_fixed(program, dims)
    return program, results


def _innermost(error: BaseException) -> BaseException:
    """The exporter wraps what went wrong several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _is_ours(error: BaseException) -> bool:
    return isinstance(_innermost(error), Error)


def _cause(model: torch.nn.Module, error: BaseException) -> str:
    error = _innermost(error)
    if isinstance(error, Error):
        return str(error)
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return f"PyTorch cannot export {type(model).__name__}: {type(error).__name__}: " + "\n".join(lines[:12])


def _refuse_fixed(program: Any, dims: dict[str, dict[int, str]]) -> None:
    """The exporter makes a number of a dim, without a word, where the model's code compares it with one."""
    for value in program.model.graph.inputs:
        for axis, dim in dims.get(value.name, {}).items():
            if isinstance(value.shape[axis], int):
                raise Error(
                    f"the model is traced for {dim} = {value.shape[axis]} alone (axis {axis} of '{value.name}'): its code "
                    f"depends on that size; leave the axis out with dims={{'{value.name}': (…)}}, or change the code"
                )


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Without the exporter's remarks on absent packages and on its own deprecations."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


# ---- the graph ---------------------------------------------------------------------------------------------------------


def _name_outputs(program: Any, names: list[str]) -> None:
    graph = program.model.graph
    for name in names:
        if any(value.name == name for value in graph.inputs):
            raise Error(
                f"'{name}' is an input and an output; give the output another name with outputs= or rename the argument"
            )
    taken = {value.name: value for node in graph for value in node.outputs}
    for value, name in zip(graph.outputs, names, strict=True):
        other = taken.get(name)
        if other is not None and other is not value:
            other.name = f"{name}.inner"
        value.name = name
        taken[name] = value


def _metadata_kind(value: Any) -> str:
    return str(value.metadata_props.get("pkg.torch.export.graph_signature.InputSpec.kind", ""))


def _is_of_checkpoints(value: Any) -> bool:
    persistent = value.metadata_props.get("pkg.torch.export.graph_signature.InputSpec.persistent")
    return _metadata_kind(value) == "PARAMETER" or (_metadata_kind(value) == "BUFFER" and persistent != "False")


def _fill_buffers(program: Any, model: torch.nn.Module, given: dict[str, torch.Tensor]) -> None:
    """Values for what no checkpoint holds, where the model is on the meta device."""
    own = dict(model.named_buffers(remove_duplicate=False))
    for name in given:
        if name not in own:
            raise Error(
                f"buffers names '{name}', which is no buffer of the model; its buffers: {', '.join(own) or 'none'}"
            )
    values = {}
    for name, value in program.model.graph.initializers.items():
        if name in given:
            values[name] = given[name]
        elif not _is_of_checkpoints(value) and getattr(getattr(value.const_value, "raw", None), "is_meta", False):
            found = _computed_buffer(model, name) if _metadata_kind(value) == "BUFFER" else None
            if found is None:
                raise Error(
                    f"'{name}' is in no checkpoint and has no value on the meta device; give it with "
                    f"buffers={{'{name}': tensor}}, or build the model with values"
                )
            values[name] = found
    if values:
        program.apply_weights({name: value.detach().cpu().contiguous() for name, value in values.items()})


def _computed_buffer(model: torch.nn.Module, name: str) -> torch.Tensor | None:
    """A Hugging Face model makes such values itself after it was loaded; asked here for one module alone. Twice, from
    different contents: what stays as it was has not been made."""
    initialise = getattr(model, "_init_weights", None)
    module_name, _, leaf = name.rpartition(".")
    module = model.get_submodule(module_name)
    if initialise is None:
        return None
    results = []
    for content in (0, 1):
        clone = copy.copy(module)
        clone.__dict__["_buffers"] = {
            key: None if value is None else torch.full_like(value, content, device="cpu")
            for key, value in module._buffers.items()
        }
        with torch.no_grad():
            initialise(clone)
        results.append(clone._buffers[leaf])
    made = results[0] is not None and results[1] is not None and torch.equal(results[0], results[1])
    return results[0] if made else None


def _take_weights_out(program: Any) -> None:
    """What checkpoints hold becomes inputs, whose metadata says PARAMETER or BUFFER."""
    graph = program.model.graph
    for name in [name for name, value in graph.initializers.items() if _is_of_checkpoints(value)]:
        value = graph.initializers.pop(name)
        value.const_value = None
        graph.inputs.append(value)


# ---- what ONNX cannot say -----------------------------------------------------------------------------------------------


def _describe(program: Any, model: torch.nn.Module, bounds: Mapping[str, int]) -> None:
    graph = program.model.graph
    values = {value.name: value for value in [*graph.inputs, *graph.initializers.values()]}
    by_tensor: dict[int, list[str]] = {}
    every = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for name, tensor in every:
        by_tensor.setdefault(id(tensor), []).append(name)
    tied = {other: names[0] for names in by_tensor.values() for other in names[1:]}
    for name, tensor in every:
        value = values.get(name)
        if value is None:
            continue
        others = [other for other in by_tensor[id(tensor)] if other != name]
        if others:
            value.metadata_props["maestro.aliases"] = repr(others)
        if isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad:
            value.metadata_props["maestro.requires_grad"] = "False"
    about = program.model.metadata_props
    about["maestro.version"] = __version__
    about["maestro.class"] = f"{type(model).__module__}.{type(model).__qualname__}"
    if tied:
        about["maestro.tied"] = json.dumps(tied)
    if bounds:
        about["maestro.bounds"] = json.dumps(dict(bounds))
    if _calls.is_hugging_face(model):
        config: Any = model.config
        generation: Any = getattr(model, "generation_config", None)
        about["maestro.config"] = config.to_json_string(use_diff=False)
        if generation is not None:
            about["maestro.generation_config"] = generation.to_json_string()


def _shorten_traces(program: Any) -> None:
    """The planner reads which of a library's lines a node came from; where the library lies is this machine's own."""
    places = {str(Path(torch.__file__).parents[1]): "site-packages", str(Path.cwd()): ".", os.path.expanduser("~"): "~"}
    key = "pkg.torch.onnx.stack_trace"
    for nodes in (program.model.graph, *program.model.functions.values()):
        for node in nodes:
            if trace := node.metadata_props.get(key):
                for place, name in places.items():
                    trace = trace.replace(f'File "{place}/', f'File "{name}/')
                node.metadata_props[key] = trace


def _shown(value: Any) -> str:
    return f"{value.name} [{', '.join(str(dim) for dim in value.shape)}]"


def _save(program: Any, target: Path) -> None:
    """Aside first, then renamed; values that one file cannot hold lie beside it in <name>.data."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        program.save(aside / target.name)
        for file in sorted(aside.iterdir(), key=lambda file: file.name == target.name):  # The graph comes last.
            os.replace(file, target.parent / file.name)
    except OSError as error:
        raise Error(f"{target}: {error.strerror or error}", status=2) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
