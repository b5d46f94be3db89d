"""Exports the zoo as users do, once: torch.onnx.export takes seconds a model, so files are kept by what made them.

    python test/models/export.py [--case NAME]… [--folder DIR]     # default: every case and variant

A variant is one way of calling the exporter: opset 18, 20 or 23; `optimize`; `meta` (no weights); `anonymous` dims; weights in
bf16 or f16.
Files go to MAESTRO_MODELS_DIR, or build/models; index.json there lists them, and `<file>.ops.txt` tells which operators
each has (operators.txt, which files need one). A file is exported again when its source here, the way of exporting, or the versions of torch and transformers change.
"""

from __future__ import annotations

import argparse
import collections
import gc
import hashlib
import inspect
import json
import logging
import os
import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
gc.set_threshold(200_000)  # An export makes millions of objects that stay: looking for garbage every 700 of them takes a tenth of its time.

VARIANTS = {
    "opset20": dict(opset=20),
    "opset18": dict(opset=18),
    "opset23": dict(opset=23),
    "optimized": dict(opset=20, optimize=True),
    "optimized23": dict(opset=23, optimize=True),
    "meta": dict(opset=20, meta=True),
    "anonymous": dict(opset=20, anonymous=True),
    "bf16": dict(opset=20, dtype="bfloat16"),
    "f16": dict(opset=20, dtype="float16"),
    "optimized_bf16": dict(opset=20, optimize=True, dtype="bfloat16"),
    "meta_bf16": dict(opset=20, meta=True, dtype="bfloat16"),
}
# Beyond opset 20 for everything: the variants that have something to say for a case.
EXTRA = {
    "gpt2_logits": ["opset18", "opset23", "optimized", "optimized23", "meta", "anonymous"],
    "gpt2_loss": ["opset18", "opset23"],
    "gpt2_mask": ["opset23"],
    "llama_logits": ["opset18", "opset23", "optimized", "optimized23", "meta", "anonymous"],
    "llama_loss": ["opset18", "opset23"],
    "llama_mask": ["opset18", "opset23"],
    "llama_tied_logits": ["optimized", "meta"],
    "qwen3_logits": ["opset18", "opset23", "optimized"],
    "gemma2_mask": ["opset23"],
    "vit_logits": ["opset18", "opset23", "optimized"],
    "bert_mask": ["opset23"],
    "bart_logits": ["opset18", "opset23"],
    "t5_logits": ["opset18", "opset23"],
    "mlp_logits": ["optimized", "meta"],
    "convnet_logits": ["opset18", "opset23"],
    "llava_logits": ["opset18", "opset23", "optimized"],
    "speech_logits": ["opset23"],
}


def models_folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get("MAESTRO_MODELS_DIR", ROOT / "build" / "models"))


def content_key(case) -> str:
    """What the exported bytes depend on."""
    import torch
    import transformers

    digest = hashlib.sha256(b"".join((HERE / source).read_bytes() for source in sorted({"zoo.py", case.source})))
    for function in (build_module, example_inputs, dynamic_shapes, export):
        digest.update(inspect.getsource(function).encode())
    digest.update(f"{torch.__version__} {transformers.__version__}".encode())
    return digest.hexdigest()[:16]


def build_module(case, meta: bool = False, fresh: bool = False, dtype: str = "float32"):
    """The case's network with its seeded weights, in the mode in which it is exported. `fresh`: norms are all ones and
    biases all zero, as in a model never trained, which is what exporters' optimisers merge and delete. `dtype`: of the
    weights, rounded from the same f32."""
    import torch
    import zoo

    torch.manual_seed(0)
    if meta:
        with torch.device("meta"):
            module = case.build()
    else:
        module = zoo.initialise(case.build(), seed=sum(case.name.encode()), fresh=fresh)
    return module.to(getattr(torch, dtype)).train(case.train_mode)


def zoo_module(case):
    """The case's network as its constructor leaves it: what a checkpoint is loaded into."""
    return case.build()


def example_inputs(case, dtype: str = "float32"):
    import torch

    sizes = {"batch": 3, "seq": 7, "source": 9, "target": 6, "images": 2, "clips": 2}
    inputs = {}
    for name in case.inputs:
        field = case.fields[name]
        shape = [sizes.get(dim, dim) for dim in field.dims]
        if field.kind == "normal":
            inputs[name] = torch.randn(shape).to(getattr(torch, dtype))
        elif field.kind in ("mask01", "ones"):
            inputs[name] = torch.ones(shape, dtype=field.dtype)
        else:
            inputs[name] = torch.randint(2, field.high, shape)
    return inputs


def dynamic_shapes(case, anonymous: bool):
    from torch.export import Dim

    named = {name: Dim(name) for field in case.fields.values() for name in field.dims if isinstance(name, str)}
    return {
        name: {
            axis: Dim.DYNAMIC if anonymous else named[dim]
            for axis, dim in enumerate(case.fields[name].dims)
            if isinstance(dim, str)
        }
        for name in case.inputs
    }


def export(case, path: pathlib.Path, opset: int, optimize=False, meta=False, anonymous=False, dtype="float32"):
    import torch

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of each absent torchvision operator
    module = build_module(case, meta, fresh=optimize, dtype=dtype)
    inputs = example_inputs(case, dtype)
    if meta:
        inputs = {name: value.to("meta") for name, value in inputs.items()}
    mode = torch.onnx.TrainingMode.TRAINING if case.train_mode else torch.onnx.TrainingMode.EVAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, (), kwargs=inputs, dynamo=True, optimize=optimize, opset_version=opset, verbose=False,
            input_names=list(case.inputs), output_names=list(case.outputs),
            dynamic_shapes=dynamic_shapes(case, anonymous), training=mode,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if meta:
        program.save(path, include_initializers=False, keep_initializers_as_inputs=True)
    else:
        program.save(path, external_data=True)


def operator_histogram(path: pathlib.Path) -> str:
    import onnx

    model = onnx.load(path, load_external_data=False)
    count = collections.Counter()

    def walk(nodes):
        for node in nodes:
            count[(f"{node.domain}::" if node.domain else "") + node.op_type] += 1

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    opsets = ", ".join(f"{entry.domain or 'onnx'} {entry.version}" for entry in model.opset_import)
    lines = [f"# {path.name}: {sum(count.values())} nodes, opsets {opsets}, {len(model.functions)} functions"]
    lines += [f"{number:5d} {name}" for name, number in sorted(count.items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join(lines) + "\n"


def export_variant(case, variant: str, folder: pathlib.Path) -> pathlib.Path:
    """The file of one variant, exported now if what is there is of another key. Its stem names the component."""
    path = folder / variant / f"{case.name}.onnx"
    stamp = path.with_suffix(".key")
    key = content_key(case)
    if path.exists() and stamp.exists() and stamp.read_text() == key:
        return path
    export(case, path, **VARIANTS[variant])
    path.with_suffix(".ops.txt").write_text(operator_histogram(path))
    stamp.write_text(key)
    return path


def write_index(folder: pathlib.Path) -> None:
    entries = []
    for variant, options in VARIANTS.items():
        for path in sorted((folder / variant).glob("*.onnx")):
            entries.append({"model": path.stem, "opset": options["opset"], "variant": variant,
                            "file": str(path.relative_to(folder))})
    (folder / "index.json").write_text(json.dumps(entries, indent=1) + "\n")
    users = collections.defaultdict(list)
    for listing in sorted(folder.glob("*/*.ops.txt")):
        for line in listing.read_text().splitlines()[1:]:
            users[line.split()[1]].append(f"{listing.parent.name}/{listing.name.removesuffix('.ops.txt')}")
    lines = [f"{name:28s} {len(files):3d} files: {', '.join(files[:4])}" for name, files in sorted(users.items())]
    (folder / "operators.txt").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", help="only this case (repeatable)")
    parser.add_argument("--variant", action="append", help="only this variant (repeatable)")
    parser.add_argument("--folder", type=pathlib.Path, default=models_folder())
    arguments = parser.parse_args()
    import time
    import zoo

    failures = 0
    for name, case in zoo.all_cases().items():
        if arguments.case and name not in arguments.case:
            continue
        for variant in arguments.variant or ["opset20", *EXTRA.get(name, [])]:
            start = time.time()
            try:
                path = export_variant(case, variant, arguments.folder)
                print(f"{path.relative_to(arguments.folder)}  {time.time() - start:.1f} s", flush=True)
            except Exception as error:  # one model's trouble must not keep the others from being written
                failures += 1
                print(f"{name} {variant}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            write_index(arguments.folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
