"""Exports the demo's model: a small GPT-2 of transformers over bytes, as a graph without weights.

    ../../.venv/bin/python export.py          # writes gpt.onnx beside this file; ./dev setup python makes .venv

The same few lines export a model of any size: on the meta device no weight ever exists. What only people read in such
a file, stack traces above all, is stripped before it is committed; everything that Maestro reads stays.
"""

import pathlib

import onnx
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
CONTEXT = 256
CONFIG = transformers.GPT2Config(
    vocab_size=256, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4, use_cache=False,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
)
# Most of an exported file's bytes. `namespace` says again what name_scopes and class_hierarchy say.
FOR_PEOPLE = {"pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node", "namespace"}


class NextByte(transformers.GPT2LMHeadModel):
    """Logits alone: the loss is named in workload.yaml, and a tensor exports more plainly than a ModelOutput."""

    def forward(self, input_ids):
        return super().forward(input_ids=input_ids, use_cache=False).logits


def export(path):
    with torch.device("meta"):
        model = NextByte(CONFIG).eval()
        input_ids = torch.zeros(2, 64, dtype=torch.int64)
    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq", max=CONTEXT)
    program = torch.onnx.export(
        model, (input_ids,), input_names=["input_ids"], output_names=["logits"],
        dynamic_shapes={"input_ids": {0: batch, 1: seq}}, dynamo=True, optimize=False, opset_version=20,
    )
    program.save(path, include_initializers=False, keep_initializers_as_inputs=True)


def strip(path):
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key not in FOR_PEOPLE]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    path = HERE / "gpt.onnx"
    export(path)
    before = path.stat().st_size
    strip(path)
    print(f"{path.name}: {path.stat().st_size:,} bytes, {before:,} as exported")


if __name__ == "__main__":
    main()
