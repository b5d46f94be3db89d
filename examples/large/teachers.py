"""Distillation from two teachers: frozen 70B- and 34B-shaped Llamas and a 13B-shaped student. Graphs without weights,
and the workload.

    ../../.venv/bin/python teachers.py FOLDER [--size tiny] [--layers N]
"""

import argparse
import pathlib

import large
import torch

SIZES = {"large": {"general": "70b", "coder": "34b", "student": "13b"},
         "tiny": {"general": "tiny", "coder": "tiny", "student": "tiny"}}

WORKLOAD = """\
components:
  general: {model: general.onnx, frozen: true}
  coder: {model: coder.onnx, frozen: true}
  student: {model: student.onnx}
dims:
  batch: {combine: sum, max: 1}
  seq: {combine: max, max: 6144, multiple_of: 128}
synthetic:
  seq: lognormal(2400, 0.7)
loss:
  - cross_entropy: {logits: student.logits, labels: labels, weight: 0.4}
  - kl_divergence: {student: student.logits, teacher: general.logits, temperature: 2.0, labels: labels, weight: 0.3}
  - kl_divergence: {student: student.logits, teacher: coder.logits, temperature: 2.0, labels: labels, weight: 0.3}
train:
  global_batch: 512
  optimizer: {adamw: {lr: 1e-4}}
  precision: bf16
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", default="large", choices=SIZES)
    parser.add_argument("--layers", type=int, help="as wide, but with so many layers each: exported sooner")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES[arguments.size].items():
        ids = (torch.zeros(2, 64, dtype=torch.int64, device="meta"), {0: "batch", 1: "seq"})
        network = large.on_meta(lambda: large.NextToken(large.llama_config(size, arguments.layers)))
        large.export(network, arguments.folder / f"{name}.onnx", {"input_ids": ids}, ["logits"])
    (arguments.folder / "workload.yaml").write_text(WORKLOAD)


if __name__ == "__main__":
    main()
