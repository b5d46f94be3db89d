"""Exports a network as a small graph without weights, for the examples that are committed with theirs. Needs PyTorch
(./dev setup python makes .venv).

What only people read in such a file, stack traces above all, is stripped; everything that Maestro reads stays. A Llama's
rotary frequencies are in no checkpoint (a buffer that is not persistent), so their values stay in the graph.
"""

import onnx
import torch

# Most of an exported file's bytes. `namespace` says again what name_scopes and class_hierarchy say.
FOR_PEOPLE = {"pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node", "namespace"}


def export(module, path, inputs, outputs):
    """`inputs`: name to (example, dims by axis). Dims of one name are one dim."""
    dims = {name: {axis: torch.export.Dim(dim) for axis, dim in axes.items()} for name, (_, axes) in inputs.items()}
    program = torch.onnx.export(
        module.eval(), tuple(example for example, _ in inputs.values()), input_names=list(inputs), output_names=outputs,
        dynamic_shapes=dims, dynamo=True, optimize=False, opset_version=23,
    )
    program.save(path, include_initializers=False, keep_initializers_as_inputs=True)
    before = path.stat().st_size
    finish(module, path)
    print(f"{path.name}: {path.stat().st_size:,} bytes, {before:,} as exported")


def finish(module, path):
    model = onnx.load(path)
    saved = module.state_dict()
    for name, value in module.named_buffers():
        if name not in saved and any(name == known.name for known in model.graph.input):
            model.graph.initializer.append(onnx.numpy_helper.from_array(value.numpy(), name))
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key not in FOR_PEOPLE]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)
