"""Exports the teacher and the student: two Llamas of transformers over bytes, as graphs without weights.

    ../../.venv/bin/python export.py          # writes teacher.onnx and student.onnx beside this file
"""

import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import weightless  # noqa: E402


class NextByte(transformers.LlamaForCausalLM):
    """Logits alone: the losses are named in the workload, and a tensor exports more plainly than a ModelOutput."""

    def forward(self, input_ids):
        return super().forward(input_ids=input_ids, use_cache=False).logits


def llama(width, layers, heads):
    return NextByte(transformers.LlamaConfig(
        vocab_size=256, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 2, max_position_embeddings=256, tie_word_embeddings=False, use_cache=False,
    ))


def main():
    ids = (torch.zeros(2, 64, dtype=torch.int64), {0: "batch", 1: "seq"})
    for name, network in (("teacher", llama(256, 2, 8)), ("student", llama(96, 2, 4))):
        weightless.export(network, HERE / f"{name}.onnx", {"input_ids": ids}, ["logits"])


if __name__ == "__main__":
    main()
