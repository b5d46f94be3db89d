"""Valid input in its smallest form: two graphs, their workload, shards. Cases damage copies of it."""

from __future__ import annotations

import io
import pathlib
import tarfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY = 16
CLASSES = 3


def weights(shape, seed: int) -> numpy.ndarray:
    return (numpy.random.default_rng(seed).standard_normal(shape) * 0.3).astype(numpy.float32)


def mlp_graph() -> onnx.GraphProto:
    """features [batch, 4] → logits [batch, 3]; nodes carry names, as exporters write them."""
    nodes = [
        helper.make_node("MatMul", ["features", "first.weight"], ["product"], name="node_first"),
        helper.make_node("Add", ["product", "first.bias"], ["sum"], name="node_bias"),
        helper.make_node("Relu", ["sum"], ["hidden"], name="node_relu"),
        helper.make_node("MatMul", ["hidden", "second.weight"], ["logits"], name="node_second"),
    ]
    initializers = [
        numpy_helper.from_array(weights((4, 8), 1), "first.weight"),
        numpy_helper.from_array(weights((8,), 2), "first.bias"),
        numpy_helper.from_array(weights((8, CLASSES), 3), "second.weight"),
    ]
    return helper.make_graph(
        nodes, "mlp", [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])], initializers,
    )


def tokens_graph() -> onnx.GraphProto:
    """input_ids [batch, seq] → logits [batch, seq, 16]."""
    nodes = [
        helper.make_node("Gather", ["embed.weight", "input_ids"], ["embedded"], name="node_embed"),
        helper.make_node("MatMul", ["embedded", "head.weight"], ["logits"], name="node_head"),
    ]
    initializers = [
        numpy_helper.from_array(weights((VOCABULARY, 8), 4), "embed.weight"),
        numpy_helper.from_array(weights((8, VOCABULARY), 5), "head.weight"),
    ]
    return helper.make_graph(
        nodes, "tokens", [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "seq"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "seq", VOCABULARY])], initializers,
    )


def model(graph: onnx.GraphProto, opset: int = 20, ir_version: int = 10) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def write_model(graph: onnx.GraphProto, path: pathlib.Path, **options) -> pathlib.Path:
    path.write_bytes(model(graph, **options).SerializeToString())
    return path


WORKLOAD = """\
components:
  tokens: {model: tokens.onnx}
inputs:
  labels: {dtype: int64, shape: [batch, seq], pad: -100}
dims:
  batch: {combine: sum}
  seq: {combine: max, max: 12, multiple_of: 2}
loss:
  - cross_entropy: {logits: tokens.logits, labels: labels, ignore_index: -100, weight: 1.0}
train:
  global_batch: 4
  optimizer: {adamw: {lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1, no_decay: ["*.bias"]}}
  schedule: {warmup_steps: 2, decay: cosine, total_steps: 10, min_lr: 1e-4}
  clip_grad_norm: 1.0
  precision: f32
  seed: 0
"""


def array_bytes(array: numpy.ndarray) -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def token_members(count: int = 8) -> list:
    """(member name, bytes) of a shard for the token model."""
    random = numpy.random.default_rng(0)
    members = []
    for index in range(count):
        length = int(random.integers(2, 12))
        for name in ("input_ids", "labels"):
            ids = random.integers(0, VOCABULARY, length).astype(numpy.int64)
            members.append([f"sample{index}.{name}.npy", array_bytes(ids)])
    return members


def write_tar(members: list, path: pathlib.Path) -> pathlib.Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def write_all(folder: pathlib.Path) -> None:
    """mlp.onnx, tokens.onnx, workload.yaml and shard.tar in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(mlp_graph(), folder / "mlp.onnx")
    write_model(tokens_graph(), folder / "tokens.onnx")
    (folder / "workload.yaml").write_text(WORKLOAD)
    write_tar(token_members(), folder / "shard.tar")
