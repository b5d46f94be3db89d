"""`maestro.load`, `maestro.to_hf`, `maestro.to_onnx`: what a run has learnt, as PyTorch, Hugging Face and ONNX have it.

A checkpoint's file of a component holds f32 tensors by state_dict name. Of tied ones it holds one, and its metadata
says `another name -> that one`, as safetensors' own writers do."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._error import Error
from ._onnx_file import read_metadata
from ._run import Run

if TYPE_CHECKING:
    import torch

RunLike = Run | str | os.PathLike[str]
_AVERAGES = ".ema"  # <component>.ema.safetensors


def load(
    run: RunLike, model: torch.nn.Module, component: str | None = None, *, strict: bool = True, ema: bool = False
) -> list[str]:
    """Loads the newest whole checkpoint of a run into a module of the same `state_dict` names.

    Args:
        run: what `maestro.run` returned, its folder, or the folder of one of its checkpoints.
        model: the module; tied parameters stay tied.
        component: which component it is; may be left out where the run trained one.
        strict: the checkpoint has all of the module's parameters and persistent buffers, and no more; under
            `save: trained`, no more.
        ema: the averages (`train.ema`) in the place of what was averaged.

    Returns:
        The names that the checkpoint lacks and that keep their values.

    Raises:
        Error: no checkpoint, another component, other names or other shapes.
    """
    import torch

    file = _component_file(_checkpoint(run), component, ema)
    values = _with_aliases(*_read(file))
    wanted = model.state_dict()
    missing = sorted(set(wanted) - set(values))
    unknown = sorted(set(values) - set(wanted))
    if strict and ((missing and not _holds_what_trains(file)) or unknown):
        lacks = f"it lacks {_list(missing)}" if missing else ""
        more = f"the model has no {_list(unknown)}" if unknown else ""
        raise Error(
            f"{file} is not of this model: {'; '.join(filter(None, [lacks, more]))} (strict=False loads what fits)"
        )
    if any(tensor.is_meta for tensor in wanted.values()):
        raise Error("the model is on the meta device; give it memory first: model.to_empty(device=…)")
    for name in sorted(set(wanted) & set(values)):
        if wanted[name].shape != values[name].shape:
            raise Error(
                f"{file}: '{name}' has shape {list(values[name].shape)}, and the model's {list(wanted[name].shape)}"
            )
        with torch.no_grad():
            wanted[name].copy_(values[name])
    return missing


def to_hf(
    run: RunLike,
    folder: str | os.PathLike[str],
    component: str | None = None,
    *,
    model: str | os.PathLike[str] | None = None,
    dtype: str = "float32",
    tokenizer: Any = None,
    ema: bool = False,
) -> Path:
    """Writes a folder that Hugging Face's `from_pretrained` loads: the config that `maestro.export` kept, and the
    newest weights.

    Args:
        run: as `load`'s.
        folder: the folder to write; files of other names in it stay.
        component: which component; may be left out where the run trained one.
        model: the component's exported file, where it is not found from the run's plan.
        dtype: of the weights: float32, bfloat16 or float16.
        tokenizer: saved beside them, with its `save_pretrained`.
        ema: the averages (`train.ema`) in the place of what was averaged.

    Returns:
        The folder.
    """
    import safetensors.torch
    import torch

    file = _component_file(_checkpoint(run), component, ema)
    if _holds_what_trains(file):
        raise Error(
            f"{file} holds what trains alone (save: trained); maestro.load it into the model that was exported, and save "
            "that with save_pretrained"
        )
    about = _about(run, _component_of(file), model)
    if "maestro.config" not in about:
        raise Error(
            f"the graph of '{_component_of(file)}' carries no config: it was not exported by maestro.export from a Hugging Face model"
        )
    if about["maestro.class"].startswith("peft."):
        raise Error(
            f"'{_component_of(file)}' is a PEFT model, whose names from_pretrained does not know: maestro.load(run, model), then "
            "model.save_pretrained for the adapters, or model.merge_and_unload().save_pretrained for a model without"
        )
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise Error(f"dtype is {dtype!r}; give float32, bfloat16 or float16")
    values, _ = _read(file)
    listed = json.loads(about.get("maestro.tied", "{}"))  # Another name -> the one under which the module lists it.
    config = json.loads(about["maestro.config"])
    config |= {"architectures": [about["maestro.class"].rpartition(".")[2]], "dtype": dtype}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    # Integer buffers keep their type.
    tensors = {
        listed.get(name, name): value.to(kind) if value.is_floating_point() else value for name, value in values.items()
    }
    texts = {"config.json": json.dumps(config, indent=2) + "\n"}
    if "maestro.generation_config" in about:
        texts["generation_config.json"] = about["maestro.generation_config"]
    aside = Path(tempfile.mkdtemp(prefix=".maestro.", dir=target))
    try:
        safetensors.torch.save_file(tensors, aside / "model.safetensors", metadata={"format": "pt"})
        for name, text in texts.items():
            (aside / name).write_text(text)
        for path in sorted(aside.iterdir()):
            os.replace(path, target / path.name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    if tokenizer is not None:
        tokenizer.save_pretrained(target)
    return target


def to_onnx(
    run: RunLike,
    component: str | None,
    path: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] | None = None,
    ema: bool = False,
) -> Path:
    """Writes the component's exported graph with the newest weights, for whatever runs ONNX.

    Args:
        run: as `load`'s.
        component: which component; None where the run trained one.
        path: the file to write; weights that it cannot hold lie beside it in <name>.data.
        model: the component's exported file, where it is not found from the run's plan.
        ema: the averages (`train.ema`) in the place of what was averaged.
    """
    import onnx
    import onnx.external_data_helper

    file = _component_file(_checkpoint(run), component, ema)
    source = Path(model) if model is not None else _run_of(run).model_file(_component_of(file))
    values = _with_aliases(*_read(file))
    proto = onnx.load(source)
    of_file = {tensor.name: tensor for tensor in proto.graph.initializer}
    valued = {value.name: value.type.tensor_type.elem_type for value in proto.graph.input if value.name in values}
    for name, kind in ({name: tensor.data_type for name, tensor in of_file.items()} | valued).items():
        if name in values:
            array = values[name].numpy().astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
            tensor = onnx.numpy_helper.from_array(array, name)
            if name in of_file:
                of_file[name].CopyFrom(tensor)
            else:
                proto.graph.initializer.append(tensor)
    kept = [value for value in proto.graph.input if value.name not in valued]
    moved = [value for value in proto.graph.input if value.name in valued]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    proto.graph.value_info.extend(moved)
    if empty := [value.name for value in kept if _is_parameter(value)]:
        raise Error(f"{source} has no value of {_list(empty)}, and neither has {file}")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        large = proto.ByteSize() > 1_500_000_000
        onnx.save(
            proto, aside / target.name, save_as_external_data=large, location=f"{target.name}.data" if large else None
        )
        for made in sorted(aside.iterdir(), key=lambda made: made.name == target.name):
            os.replace(made, target.parent / made.name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _is_parameter(value: Any) -> bool:
    return any(
        entry.key.endswith("InputSpec.kind") and entry.value in ("PARAMETER", "BUFFER")
        for entry in value.metadata_props
    )


# ---- finding -------------------------------------------------------------------------------------------------------------


def _run_of(run: RunLike) -> Run:
    if isinstance(run, Run):
        return run
    path = Path(run)
    return Run(path.parent if (path / "state.json").exists() else path)


def _checkpoint(run: RunLike) -> Path:
    if not isinstance(run, Run) and (Path(run) / "state.json").exists():
        return Path(run)
    return _run_of(run).checkpoint


def _component_file(checkpoint: Path, component: str | None, ema: bool = False) -> Path:
    """The component's file, or the index of several; with `ema`, that of its averages."""
    indexes = sorted(checkpoint.glob("*.safetensors.index.json"))
    parts = {part for index in indexes for part in _files_of(index)}
    files = {_set_name(file): file for file in [*sorted(set(checkpoint.glob("*.safetensors")) - parts), *indexes]}
    files.pop("optimizer", None)
    averages = {name.removesuffix(_AVERAGES): file for name, file in files.items() if name.endswith(_AVERAGES)}
    files = averages if ema else {name: file for name, file in files.items() if not name.endswith(_AVERAGES)}
    if ema and not averages:
        raise Error(f"{checkpoint} holds no averages; `train: {{ema: 0.999}}` in the workload asks for them")
    if component is None and len(files) == 1:
        return next(iter(files.values()))
    frozen = _frozen(checkpoint)
    if component in frozen and component not in files:
        raise Error(
            f"component '{component}' is frozen as a whole: the run left its values as they were in {frozen[component]}"
        )
    if component is None:
        raise Error(
            f"{checkpoint} holds several components: {', '.join(files)}; name one with component="
            if files
            else f"{checkpoint} holds no component"
        )
    if component not in files:
        raise Error(f"{checkpoint} holds no component '{component}'; it holds {', '.join(files)}")
    return files[component]


def _set_name(file: Path) -> str:
    return file.name.partition(".safetensors")[0]


def _component_of(file: Path) -> str:
    return _set_name(file).removesuffix(_AVERAGES)


def _files_of(file: Path) -> list[Path]:
    """The file itself, or those that an index names."""
    if file.suffix != ".json":
        return [file]
    return [file.with_name(name) for name in sorted(set(json.loads(file.read_text())["weight_map"].values()))]


def _frozen(checkpoint: Path) -> dict[str, str]:
    """Components of which values are not held, and where those came from."""
    return json.loads((checkpoint / "state.json").read_text()).get("frozen") or {}


def _holds_what_trains(file: Path) -> bool:
    return _component_of(file) in _frozen(file.parent)


def _about(run: RunLike, component: str, model: str | os.PathLike[str] | None) -> dict[str, str]:
    return read_metadata(model if model is not None else _run_of(run).model_file(component))


def _read(file: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors, and further names of them."""
    import safetensors

    values: dict[str, torch.Tensor] = {}
    names: dict[str, str] = {}
    try:
        for part in _files_of(file):
            with safetensors.safe_open(part, framework="pt") as opened:
                values |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
                names |= opened.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise Error(f"{file}: {error}") from error
    return values, {name: kept for name, kept in names.items() if kept in values and name not in values}


def _with_aliases(values: dict[str, torch.Tensor], aliases: Mapping[str, str]) -> dict[str, torch.Tensor]:
    return values | {name: values[kept] for name, kept in aliases.items()}


def _list(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")
