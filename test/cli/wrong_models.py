"""Graphs that cannot be trained, and files that are no graphs. Each case: name, file's bytes or builder, words expected."""

from __future__ import annotations

import os
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import good

FLOAT = TensorProto.FLOAT


def changed(change, **options):
    """The mlp with one change made to its graph."""

    def write(folder: pathlib.Path) -> pathlib.Path:
        graph = good.mlp_graph()
        change(graph)
        return good.write_model(graph, folder / "model.onnx", **options)

    return write


def raw(content: bytes):
    def write(folder):
        path = folder / "model.onnx"
        path.write_bytes(content)
        return path

    return write


def replace_relu(node):
    """A change that puts `node` (reads "sum", gives "hidden") where the Relu was."""

    def change(graph):
        del graph.node[2]
        graph.node.insert(2, node)

    return change


def node(operator, inputs=("sum",), outputs=("hidden",), name="node_wrong", **attributes):
    return helper.make_node(operator, list(inputs), list(outputs), name=name, **attributes)


def branch(name):
    value = helper.make_tensor_value_info(f"{name}_out", FLOAT, None)
    return helper.make_graph([helper.make_node("Identity", ["sum"], [f"{name}_out"])], name, [], [value])


def conditional(graph):
    """A branch that values choose."""
    graph.initializer.append(numpy_helper.from_array(numpy.array(0, numpy.float32), "zero"))
    del graph.node[2]
    for added in (node("If", ["condition"], then_branch=branch("then"), else_branch=branch("otherwise")), node("Greater", ["total", "zero"], ["condition"], "compares"),
                  node("ReduceSum", ["sum"], ["total"], "sums", keepdims=0)):
        graph.node.insert(2, added)


def loop(graph):
    graph.initializer.append(numpy_helper.from_array(numpy.array(3, numpy.int64), "trips"))
    graph.initializer.append(numpy_helper.from_array(numpy.array(True), "condition"))
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Relu", ["state"], ["next"])], "body",
        [helper.make_tensor_value_info("trip", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", FLOAT, None)],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", FLOAT, None)],
    )
    graph.node.insert(2, node("Loop", ["trips", "condition", "sum"], body=body))
    del graph.node[3]


def cycle(graph):
    graph.node[0].input[0] = "hidden"


def duplicate_value(graph):
    graph.node.append(node("Relu", ["sum"], ["product"], name="node_again"))


def duplicate_initializer(graph):
    graph.initializer.append(numpy_helper.from_array(good.weights((4, 8), 9), "first.weight"))


def undefined_input(graph):
    graph.node[3].input[0] = "nowhere"


def integer_weight(graph):
    graph.initializer[0].CopyFrom(numpy_helper.from_array(numpy.ones((4, 8), numpy.int64), "first.weight"))


def wrong_inner_size(graph):
    graph.initializer[0].CopyFrom(numpy_helper.from_array(good.weights((5, 8), 9), "first.weight"))


def contradicting_output(graph):
    graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7


def short_value(graph):
    graph.initializer[0].raw_data = graph.initializer[0].raw_data[:20]


def negative_dim(graph):
    graph.initializer[0].dims[0] = -4


def huge_dims(graph):
    del graph.initializer[0].dims[:]
    graph.initializer[0].dims.extend([1 << 62, 1 << 62])


def string_weight(graph):
    graph.initializer[0].CopyFrom(helper.make_tensor("first.weight", TensorProto.STRING, [1], [b"text"]))


def no_outputs(graph):
    del graph.output[:]


def no_nodes(graph):
    del graph.node[:]


def two_outputs(graph):
    graph.output.append(helper.make_tensor_value_info("hidden", FLOAT, ["batch", 8]))


def parameters_unreached(graph):
    """logits come from the features alone: every parameter is a dead end."""
    del graph.node[:]
    del graph.initializer[:]
    graph.node.append(helper.make_node("Slice", ["features", "zero", "three", "one"], ["logits"], name="node_slice"))
    for name, value in (("zero", 0), ("three", 3), ("one", 1)):
        graph.initializer.append(numpy_helper.from_array(numpy.array([value], numpy.int64), name))


def across_samples(graph):
    """Subtracts the mean over the batch: what a sample gives depends on its company."""
    graph.initializer.append(numpy_helper.from_array(numpy.array([0], numpy.int64), "axis"))
    graph.node[2].CopyFrom(node("ReduceMean", ["sum", "axis"], ["mean"], name="node_mean", keepdims=1))
    graph.node.insert(3, node("Sub", ["sum", "mean"], ["hidden"], name="node_centre"))


def external(location, length=128, offset=0, data=b"\0" * 128, link=None):
    """first.weight lies in a file beside the graph; `data` None: there is no such file."""

    def write(folder):
        graph = good.mlp_graph()
        tensor = graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        path = good.write_model(graph, folder / "model.onnx")
        target = folder / location if not location.startswith("/") else None
        if data is not None and target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            if link:
                (folder / link).write_bytes(data)
                os.symlink(folder / link, target)
            else:
                target.write_bytes(data)
        return path

    return write


def directory(folder):
    (folder / "model.onnx").mkdir()
    return folder / "model.onnx"


def missing(folder):
    return folder / "no_such_model.onnx"


def whole() -> bytes:
    return good.model(good.mlp_graph()).SerializeToString()


# name: (writer, words of which all must appear in the message). A tuple among the words: any of them.
MODELS = {
    "model missing": (missing, ["no_such_model.onnx"]),
    "model empty": (raw(b""), ["model.onnx"]),
    "model text": (raw(b"This is a letter, not a graph.\n" * 40), ["model.onnx"]),
    "model png": (raw(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8), ["model.onnx"]),
    "model directory": (directory, ["model.onnx"]),
    "model half": (raw(whole()[: len(whole()) // 2]), ["model.onnx"]),
    "model unknown domain": (changed(replace_relu(node("Frobnicate", domain="com.example"))),
                             ["Frobnicate", "com.example", "node_wrong"]),
    "model unknown operator": (changed(replace_relu(node("Reluu"))), ["Reluu", "node_wrong"]),
    "model If": (changed(conditional), ["If", "node_wrong"]),
    "model Loop": (changed(loop), ["Loop", "node_wrong"]),
    "model cycle": (changed(cycle), [("cycl", "order", "before")]),
    "model duplicate value": (changed(duplicate_value), ["product"]),
    "model duplicate initializer": (changed(duplicate_initializer), ["first.weight"]),
    "model undefined input": (changed(undefined_input), ["nowhere"]),
    "model dtype contradiction": (changed(integer_weight), [("node_first", "first.weight")]),
    "model shape contradiction": (changed(wrong_inner_size), [("node_first", "first.weight")]),
    "model output contradiction": (changed(contradicting_output), ["logits"]),
    "model short value": (changed(short_value), ["first.weight"]),
    "model negative dim": (changed(negative_dim), ["first.weight"]),
    "model huge dims": (changed(huge_dims), ["first.weight"]),
    "model string weight": (changed(string_weight), ["first.weight"]),
    "model no outputs": (changed(no_outputs), ["output"]),
    "model no nodes": (changed(no_nodes), [("node", "logits", "parameter")]),
    "model two outputs": (changed(two_outputs), ["logits", "hidden", "loss"]),
    "model opset 5": (changed(lambda graph: None, opset=5), [("opset", "operator set"), "5"]),
    "model opset 99": (changed(lambda graph: None, opset=99), [("opset", "operator set"), "99"]),
    "model parameters unreached": (changed(parameters_unreached), [("parameter", "train")]),
    "model across samples": (changed(across_samples), [("ReduceMean", "node_mean")]),
    "external missing": (external("gone.data", data=None), ["gone.data"]),
    "external short": (external("short.data", data=b"\0" * 100), ["short.data"]),
    "external offset beyond": (external("short.data", offset=1 << 40), ["short.data"]),
    "external offset negative": (external("short.data", offset=-8), [("short.data", "first.weight")]),
    "external wrong length": (external("short.data", length=64), [("short.data", "first.weight")]),
    "external absolute": (external("/etc/passwd"), ["/etc/passwd"]),
    "external outside": (external("../outside.data"), ["../outside.data"]),
    "external hidden outside": (external("sub/../../outside.data"), ["outside.data"]),
    "external symlink": (external("link.data", link="real.data"), ["link.data", ("symlink", "symbolic")]),
}
