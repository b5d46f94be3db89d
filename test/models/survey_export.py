"""One network of the survey made into files: its graph, its data, and what PyTorch says of them.

    <folder>/<name>.onnx     as `variant` exports it
    <folder>/data/*.tar      a global batch of ragged samples
    <folder>/expected.npz    the gradients, by parameter
    <folder>/expected.json   the loss; which parameters are frozen; other names of tied ones

PyTorch is asked in float64, one sample at a time, and the samples' losses are combined as the loss
says: so each sample means what it means alone, and nothing is padded. What PyTorch's float32
differs from that is kept beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import json
import logging
import pathlib
import re
import types
import warnings
from dataclasses import replace

import numpy
import torch
from torch.nn import functional

import shards
from networks.network import LENGTHS, Called, Network
from zoo import IGNORE

GLOBAL_BATCH = 6
VARIANTS = ("plain", "default")  # torch.onnx.export with optimize=False, and with optimize=True
EXAMPLE_ROWS = 3
PACKAGES = ("torch", "transformers", "timm", "torchvision", "diffusers", "onnxscript")


# ---- the module ----------------------------------------------------------------------------------


def build(network: Network, variant: str) -> Called:
    """The network in eval(). `default` has the values that its constructor gives, whose equal norms
    and zero biases exporters merge and delete; `plain` has values that tell every parameter from
    every other, with gradients clear of rounding.
    """
    torch.manual_seed(sum(network.name.encode()))
    module = Called(network).float().eval()
    if variant == "plain":
        scatter(module)
    return module


def scatter(module: torch.nn.Module) -> None:
    """Vectors moved by a tenth, tables of zeros filled, small tables scaled up; statistics drawn."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            spread = parameter.std().item() if parameter.numel() > 1 else 0.0
            if parameter.dim() < 2:
                parameter.add_(0.1 * noise)
            elif spread == 0.0:
                parameter.add_(0.08 * noise)
            elif spread < 0.08:
                parameter.mul_(0.08 / spread)
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                noise = torch.rand(buffer.shape, generator=generator)
                buffer.copy_(0.5 + noise if name.endswith("var") else noise - 0.5)


def content_key(network: Network, module: Called, variant: str) -> str:
    """What a network's files depend on."""
    digest = hashlib.sha256(variant.encode())
    for package in PACKAGES:
        digest.update(importlib.metadata.version(package).encode())
    for function in (build, scatter, make_samples, evaluate, export, write_graph, shards.draw):
        digest.update(meaning(function).encode())
    for name, tensor in module.state_dict().items():
        digest.update(
            name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes()
            if tensor.dim()
            else name.encode() + repr(tensor.item()).encode()
        )
    own = {  # what these tables define themselves, not a library
        type(part)
        for part in module.modules()
        if "site-packages" not in inspect.getfile(type(part))
    }
    for kind in sorted(own, key=lambda kind: kind.__qualname__):
        for function in vars(kind).values():
            digest.update(
                meaning(function).encode() if isinstance(function, types.FunctionType) else b""
            )
    digest.update(repr([network.fields, network.scalar, network.lengths]).encode())
    digest.update(str(getattr(module.network, "config", module)).encode())
    for function in (network.call, network.build, network.counted):
        digest.update(meaning(function).encode())
    return digest.hexdigest()[:20]


def question_key() -> str:
    """What PyTorch's answers depend on besides."""
    texts = [meaning(function) for function in (gradients, batch_norm_as_meant, write_expected)]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:20]


def meaning(value) -> str:
    """A text that changes when what a function does changes; its comments may."""
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        code = meaning(value.__code__).replace(repr(value.__doc__), "")
        return code + "".join(map(meaning, [*cells, *(value.__defaults__ or ())]))
    if isinstance(value, types.CodeType):
        names = repr(value.co_names)
        return value.co_code.hex() + names + "".join(map(meaning, value.co_consts))
    # An address would be another in each process.
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


# ---- data and what PyTorch says of it ------------------------------------------------------------


def make_samples(network: Network) -> list:
    """Samples of different lengths; the last has no counted label where labels are per position."""
    random = numpy.random.default_rng(7)
    lengths = LENGTHS | network.lengths
    samples = []
    for index in range(GLOBAL_BATCH):
        drawn = {
            dim: int(random.integers(least, most + 1)) for dim, (least, most) in lengths.items()
        }
        samples.append(
            {
                name: shards.draw(
                    field.kind,
                    field.high,
                    tuple(drawn.get(dim, dim) for dim in field.dims[1:]),
                    random,
                    counted=index < GLOBAL_BATCH - 1,
                )
                for name, field in network.fields.items()
            }
        )
    return samples


def evaluate(network: Network, module: Called, samples: list, dtype) -> float:
    """The loss of the global batch, whose gradients are left in the parameters; each sample by
    itself."""

    def batch_of_one(sample):
        tensors = {
            name: torch.from_numpy(numpy.asarray(sample[name])[None]) for name in network.fields
        }
        return {
            name: value.to(dtype) if value.is_floating_point() else value
            for name, value in tensors.items()
        }

    if network.scalar:
        counts = [float(network.counted(sample)) for sample in samples]
    else:
        counts = [float((sample["labels"] != IGNORE).sum()) for sample in samples]
    total = 0.0
    for sample, count in zip(samples, counts):
        if not count:
            continue
        tensors = batch_of_one(sample)
        value = module(**{name: tensors[name] for name in network.inputs})
        if network.scalar:
            loss = value * (count / sum(counts))
        else:
            loss = functional.cross_entropy(
                value.reshape(-1, value.shape[-1]),
                tensors["labels"].reshape(-1),
                ignore_index=IGNORE,
                reduction="sum",
            ) / sum(counts)
        loss.backward()
        total += loss.item()
    return total


@contextlib.contextmanager
def batch_norm_as_meant():
    """PyTorch 2.15's gradients of a batch of one through batch_norm are those of other pixels where
    the gradient's rows lie as channels_last would have them (flatten(2).transpose(1, 2) behind it);
    finite differences say so. They are right where everything is laid out alike."""
    original = functional.batch_norm

    def laid_out(value, *arguments, **named):
        result = original(value.contiguous(), *arguments, **named)
        if result.requires_grad:
            result.register_hook(lambda gradient: gradient.contiguous())
        return result

    functional.batch_norm = laid_out
    try:
        yield
    finally:
        functional.batch_norm = original


def gradients(network: Network, module: Called, samples: list, dtype) -> tuple:
    """The loss, and the gradients by parameter."""
    module = module.to(dtype)
    module.zero_grad(set_to_none=True)

    def renewed(**inputs):
        # Some keep what they compute from a parameter, until they train: LeViT its biases by position.
        module.train()
        module.eval()
        return module(**inputs)

    with batch_norm_as_meant():
        loss = evaluate(network, renewed, samples, dtype)
    return loss, {
        name: parameter.grad.detach().double().numpy()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }


def write_expected(
    network: Network, module: Called, samples: list, fixed: dict, folder: pathlib.Path
) -> None:
    """float64 where the network can compute in it; some make float32 tensors of their own."""
    loss, single = gradients(network, module, samples, torch.float32)
    expected, kind, rounding = single, "float32", {}
    try:
        loss, expected = gradients(network, module, samples, torch.float64)
        kind = "float64"
        rounding = {
            name: float(numpy.abs(expected[name] - single[name]).max())
            for name in expected
            if name in single
        }
    except (RuntimeError, TypeError, ValueError):
        pass
    module.float()
    listed = {id(parameter): name for name, parameter in module.named_parameters()}
    every = list(module.named_parameters(remove_duplicate=False))
    numpy.savez(folder / "expected.npz", **expected)
    (folder / "expected.json").write_text(
        json.dumps(
            {
                "loss": loss,
                "kind": kind,
                "fixed": fixed,
                "rounding": rounding,
                "parameters": sum(p.numel() for p in module.parameters()),
                "frozen": [name for name, parameter in every if not parameter.requires_grad],
                "aliases": {
                    name: listed[id(parameter)]
                    for name, parameter in every
                    if listed[id(parameter)] != name
                },
            }
        )
    )
    (folder / "asked").write_text(question_key())


# ---- the graph -----------------------------------------------------------------------------------


def export(network: Network, module: Called):
    """The exporter's program, before its optimiser."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    lengths = LENGTHS | network.lengths
    # Distinct sizes, of which none is a width: the exporter takes equal ones for the same.
    sizes = {"batch": EXAMPLE_ROWS} | {
        dim: least + (most - least) // 2 for dim, (least, most) in lengths.items()
    }
    random = numpy.random.default_rng(3)
    examples, dims = {}, {}
    for name in network.inputs:
        field = network.fields[name]
        shape = tuple(sizes.get(dim, dim) for dim in field.dims)
        value = shards.draw(
            "ids" if field.kind == "class" else field.kind, field.high, shape, random, True
        )
        examples[name] = torch.from_numpy(numpy.asarray(value))
        dims[name] = {
            axis: torch.export.Dim(dim)
            for axis, dim in enumerate(field.dims)
            if isinstance(dim, str)
        }
    # The exporter reads a forward's own parameters.
    module.forward = named_forward(module, network.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(
            module,
            (),
            kwargs=examples,
            dynamo=True,
            optimize=False,
            verbose=False,
            input_names=list(network.inputs),
            output_names=[network.output],
            dynamic_shapes=dims,
        )


def named_forward(module: Called, names: tuple):
    def forward(*values, **named):
        return module.call(module.network, **dict(zip(names, values)), **named)

    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return forward


def fixed_dims(network: Network, program) -> dict:
    """The named dims that the exporter made numbers of, without a word, and these numbers."""
    shapes = {value.name: value.shape for value in program.model.graph.inputs}
    return {
        dim: found
        for name in network.inputs
        for dim, found in zip(network.fields[name].dims, shapes.get(name, []))
        if isinstance(dim, str) and isinstance(found, int)
    }


def with_fixed(network: Network, fixed: dict) -> Network:
    """The network whose data are of the one length that its graph is for."""
    fields = {
        name: replace(field, dims=tuple(fixed.get(dim, dim) for dim in field.dims))
        for name, field in network.fields.items()
    }
    return replace(network, fields=fields)


class CannotExport(Exception):
    pass


def prepare(network: Network, variant: str, folder: pathlib.Path) -> None:
    """Makes the files of every variant, those beside `folder` too, unless they are there and of the
    same key. Where only the way of asking PyTorch changed, PyTorch alone is asked again. Raises
    CannotExport where the exporter fails."""
    module = build(network, variant)
    if read(folder / "key") != content_key(network, module, variant):
        make(network, folder.parent)
    elif not (folder / "cannot").exists() and read(folder / "asked") != question_key():
        fixed = json.loads((folder / "expected.json").read_text())["fixed"]
        samples = make_samples(with_fixed(network, fixed))
        write_expected(network, module, samples, fixed, folder)
    if (folder / "cannot").exists():
        raise CannotExport((folder / "cannot").read_text())


def read(path: pathlib.Path) -> str:
    return path.read_text() if path.exists() else ""


def make(network: Network, root: pathlib.Path) -> None:
    """The key comes last: what was stopped is made again."""
    modules = {variant: build(network, variant) for variant in VARIANTS}
    keys = {variant: content_key(network, module, variant) for variant, module in modules.items()}
    for variant in VARIANTS:
        folder = root / variant
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("key", "asked", "cannot", "result.json"):
            (folder / name).unlink(missing_ok=True)
        for old in folder.glob("data/*.tar"):
            old.unlink()
    try:
        program = export(network, modules["default"])
        fixed = fixed_dims(network, program)
        failure = "the exporter made a number of the batch" if "batch" in fixed else None
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    samples = [] if failure else make_samples(with_fixed(network, fixed))
    for variant, module in modules.items():
        folder, said = root / variant, failure
        if not failure:
            shards.write_shards(samples, folder / "data")
            write_expected(network, module, samples, fixed, folder)
            try:
                write_graph(network, module, program, variant, folder)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
        if said:
            (folder / "cannot").write_text(said)
        (folder / "key").write_text(keys[variant])


def write_graph(network, module: Called, program, variant: str, folder: pathlib.Path) -> None:
    """`optimize=True` is `optimize=False` and then the optimiser: one export serves both variants,
    with the weights of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.apply_weights(module.state_dict())
    if variant == "default":
        program.optimize()
    program.save(folder / f"{network.name}.onnx", external_data=True)
