"""Distillation: a frozen Llama teacher and a Llama student, as graphs without weights, and the workload.

    ../../.venv/bin/python kd.py FOLDER [--teacher 70b] [--student 8b] [--layers N]
"""

import argparse
import pathlib

import large
import torch

WORKLOAD = """\
components:
  teacher: {model: teacher.onnx, frozen: true}
  student: {model: student.onnx}
dims:
  batch: {combine: sum, max: 1}
  seq: {combine: max, max: 4096, multiple_of: 128}
synthetic:
  seq: lognormal(1600, 0.5)
loss:
  - cross_entropy: {logits: student.logits, labels: labels, weight: 0.5}
  - kl_divergence: {student: student.logits, teacher: teacher.logits, temperature: 2.0, labels: labels, weight: 0.5}
train:
  global_batch: 1024
  optimizer: {adamw: {lr: 1e-4}}
  precision: bf16
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--teacher", default="70b", choices=large.LLAMAS)
    parser.add_argument("--student", default="8b", choices=large.LLAMAS)
    parser.add_argument("--layers", type=int, help="as wide, but with so many layers each: exported sooner")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, size in (("teacher", arguments.teacher), ("student", arguments.student)):
        ids = (torch.zeros(2, 64, dtype=torch.int64, device="meta"), {0: "batch", 1: "seq"})
        network = large.on_meta(lambda: large.NextToken(large.llama_config(size, arguments.layers)))
        large.export(network, arguments.folder / f"{name}.onnx", {"input_ids": ids}, ["logits"])
    (arguments.folder / "workload.yaml").write_text(WORKLOAD)


if __name__ == "__main__":
    main()
