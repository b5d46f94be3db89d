"""Makes the seeds of `plan_run` anew: small plans of every kind of memory, edge and sum.

    make_plan_seeds.py PROGRAMS FOLDER

PROGRAMS: build/release/bin, with `plan_seed` of the same build in build/release/test. To be run where the format has
grown, not by tests: what is in seeds/plan_run stays as it is until then.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

import good  # noqa: E402: found by the line above
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

WIDTH = 8


def graph(name, inputs, outputs, nodes, weights):
    kinds = {"input_ids": TensorProto.INT64}
    value = helper.make_tensor_value_info
    return helper.make_graph(
        [helper.make_node(op, reads, [writes], name=f"node_{writes}", **attributes) for op, reads, writes, attributes in nodes], name,
        [value(port, kinds.get(port, TensorProto.FLOAT), shape) for port, shape in inputs.items()],
        [value(port, TensorProto.FLOAT, shape) for port, shape in outputs.items()],
        [numpy_helper.from_array(good.weights(shape, seed), key) for seed, (key, shape) in enumerate(weights.items())])


def language(features=False, layers=2):
    """input_ids, and features of the same rows where asked for, → logits."""
    nodes = [("Gather", ["embed.weight", "input_ids"], "x0", {})]
    if features:
        nodes.append(("Add", ["x0", "features"], "joined", {}))
    x = "joined" if features else "x0"
    weights = {"embed.weight": (good.VOCABULARY, WIDTH)}
    for i in range(layers):
        weights |= {f"l{i}.norm": (WIDTH,), f"l{i}.up": (WIDTH, 2 * WIDTH), f"l{i}.bias": (2 * WIDTH,), f"l{i}.down": (2 * WIDTH, WIDTH)}
        nodes += [("LayerNormalization", [x, f"l{i}.norm"], f"n{i}", {"axis": -1}), ("MatMul", [f"n{i}", f"l{i}.up"], f"m{i}", {}),
                  ("Add", [f"m{i}", f"l{i}.bias"], f"a{i}", {}), ("Tanh", [f"a{i}"], f"t{i}", {}),
                  ("MatMul", [f"t{i}", f"l{i}.down"], f"d{i}", {}), ("Add", [x, f"d{i}"], f"x{i + 1}", {})]
        x = f"x{i + 1}"
    nodes.append(("MatMul", [x, "head.weight"], "logits", {}))
    weights["head.weight"] = (WIDTH, good.VOCABULARY)
    inputs = {"input_ids": ["batch", "seq"]} | ({"features": ["batch", "seq", WIDTH]} if features else {})
    return graph("language", inputs, {"logits": ["batch", "seq", good.VOCABULARY]}, nodes, weights)


def encoder():
    """waves [batch, seq, 4] → features [batch, seq, 8]."""
    return graph("encoder", {"waves": ["batch", "seq", 4]}, {"features": ["batch", "seq", WIDTH]},
                 [("MatMul", ["waves", "in.weight"], "mixed", {}), ("Sigmoid", ["mixed"], "gate", {}), ("Mul", ["mixed", "gate"], "features", {})],
                 {"in.weight": (4, WIDTH)})


HEAD = """\
inputs: {labels: {dtype: int64, shape: [batch, seq], pad: -100}}
dims: {batch: {combine: sum}, seq: {combine: max, max: 8, multiple_of: 2}}
"""
LOSS = "loss: [{cross_entropy: {logits: student.logits, labels: labels, ignore_index: -100}}]\n"
TRAIN = "train: {global_batch: 6, optimizer: {adamw: {lr: 1e-3}}, clip_grad_norm: 1.0}\n"
WORKLOADS = {
    "one": "components: {student: {model: language.onnx}}\n" + HEAD + LOSS + TRAIN,
    "sgd": "components: {student: {model: language.onnx}}\n" + HEAD + LOSS
           + "train: {global_batch: 6, optimizer: {sgd: {lr: 1e-3, momentum: 0.9}}}\n",
    "kd": "components: {teacher: {model: language.onnx, frozen: true}, student: {model: language.onnx}}\n" + HEAD
          + "loss: [{cross_entropy: {logits: student.logits, labels: labels, weight: 0.5}}, {kl_divergence: {student: student.logits, "
            "teacher: teacher.logits, temperature: 2.0, labels: labels, weight: 0.5}}]\n" + TRAIN,
    "chain": "components: {encoder: {model: encoder.onnx}, student: {model: joined.onnx}}\nedges: [encoder.features -> student.features]\n"
             + HEAD + LOSS + TRAIN,
}
PLANS = {  # name: workload, devices, pins
    "one": ("one", 1, "*.micro_batch=2"),
    "sgd": ("sgd", 1, "*.micro_batch=3"),
    "bf16": ("one", 1, "*.micro_batch=2 student.precision=bf16"),
    "recomputed": ("one", 1, "*.micro_batch=2 student.recompute=full"),
    "replicas": ("one", 2, "student.dp=2 student.micro_batch=2"),
    "stages": ("one", 2, "student.stages=2 student.dp=1 student.micro_batch=2"),
    "split": ("one", 2, "student.stages=2 student.dp=1 student.micro_batch=2 student.split_backward=all"),
    "tensor": ("one", 2, "student.tensor=2 student.dp=1 student.micro_batch=2"),
    "kd": ("kd", 2, "teacher.devices=0 teacher.micro_batch=3 student.devices=1 student.micro_batch=2"),
    "kd-colocated": ("kd", 1, "teacher.micro_batch=3 student.micro_batch=2"),
    "chain": ("chain", 2, "encoder.devices=0 encoder.micro_batch=3 student.devices=1 student.micro_batch=2"),
    "chain-replicas": ("chain", 3, "encoder.dp=1 encoder.devices=0 encoder.micro_batch=2 student.dp=2 student.devices=1-2 student.micro_batch=2"),
}


def main() -> int:
    programs, seeds = map(pathlib.Path, sys.argv[1:3])
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, model in {"language": language(), "joined": language(features=True), "encoder": encoder()}.items():
            good.write_model(model, folder / f"{file}.onnx")
        for plan, (workload, devices, pins) in PLANS.items():
            (folder / f"{plan}.yaml").write_text(WORKLOADS[workload])
            line = [programs / "maestro-plan", "--workload", folder / f"{plan}.yaml", "-o", folder / f"{plan}.mpl",
                    "--set", f"cluster.devices_per_node={devices}", *(word for pin in pins.split() for word in ("--pin", pin))]
            done = subprocess.run(list(map(str, line)), capture_output=True, text=True)
            if done.returncode == 0:
                done = subprocess.run([programs.parent / "test" / "plan_seed", folder / f"{plan}.mpl", seeds / plan], capture_output=True, text=True)
            print(f"{plan}: {'made' if done.returncode == 0 else done.stderr.strip()[-300:]}")
            failures += done.returncode != 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
