"""What a step on a GPU is made of: for each kind of kernel in a plan how often it runs, bytes and operations of one micro-batch, and the least time that
they take at a GPU's data-sheet rates. An estimate to find waste by: nothing runs.

    maestro-dump PLAN --format json > plan.json && python3 bench/gpu/step.py plan.json [--set seq=4096]
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import pathlib

BYTES_PER_S, FLOPS_PER_S = 4.8e12, 989.4e12  # An H200's data sheet; an H100 moves 3.35e12.
SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "bool": 1}
NONE = 2**32 - 1
ONCE_A_STEP, NEVER = ("Norm", "Update"), ("Evaluate",)


class Plan:
    def __init__(self, document: dict, sizes: dict[str, int]):
        self.document = document
        self.symbols = [sizes.get(symbol["name"], symbol["sample_max"]) for symbol in document["symbols"]]
        self.value = functools.cache(self._value)

    def _value(self, index: int) -> int:
        expr = self.document["exprs"][index]
        kind, a, b = expr["op"], expr["a"], expr["b"]
        if kind == "Symbol":
            return self.symbols[a]
        if kind == "Constant":
            return a
        left, right = self.value(a), self.value(b)
        operations = {"Add": lambda: left + right, "Sub": lambda: left - right, "Mul": lambda: left * right, "Min": lambda: min(left, right),
                      "Max": lambda: max(left, right), "FloorDiv": lambda: left // right, "CeilDiv": lambda: -(-left // right), "Mod": lambda: left % right}
        return operations[kind]()

    def shape(self, executable: dict, buffer) -> tuple[str, list[int]] | None:
        if buffer is None or buffer == NONE:
            return None
        described = executable["buffers"][buffer]
        return described["dtype"], [self.value(dim) for dim in described["shape"]]

    def attribute(self, call: dict, name: str) -> int:
        index = call["attributes"]
        items = [] if index is None or index == NONE else self.document["attribute_lists"][index]["items"]
        return next((item["ints"][0] for item in items if item["name"] == name and item["ints"]), 0)


def elements(shape) -> int:
    count = 1
    for dim in shape[1] if shape else []:
        count *= dim
    return count


def bytes_moved(kernel: str, inputs: list, outputs: list) -> int:
    """Each operand and result once; of a tensor that is looked up in, cut, or added to by rows, what is taken or added."""
    sizes = [elements(shape) * SIZES[shape[0]] for shape in inputs + outputs if shape]
    if kernel in ("gather", "gather_nd", "slice"):
        return sum(sizes) - sizes[0] + min(sizes[0], sizes[-1])
    if kernel in ("gather_grad", "gather_nd_grad"):
        return sum(sizes[:-1]) + min(sizes[-2], sizes[-1])
    return sum(sizes)


def flops(kernel: str, plan: Plan, call: dict, inputs: list, outputs: list) -> int:
    """Of what multiplies matrices; the rest is bound by memory."""
    if kernel == "matmul":
        return 2 * elements(outputs[0]) * inputs[0][1][-2 if plan.attribute(call, "transpose_a") else -1]
    if kernel not in ("attention", "attention_grad"):
        return 0
    q, k = inputs[1 if kernel == "attention_grad" else 0], inputs[2 if kernel == "attention_grad" else 1]
    position = 1 if plan.attribute(call, "sequence_major") else 2
    products = 4 if kernel == "attention" else 10
    return products * elements(q) * k[1][position] // (2 if plan.attribute(call, "causal") else 1)


def kernels_of(plan: Plan, executable: dict, program: dict) -> dict[str, list]:
    """By kernel: calls, bytes, operations, the least seconds."""
    kinds = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    for call in program["calls"]:
        kernel = plan.document["kernels"][call["kernel"]]
        inputs, outputs = ([plan.shape(executable, buffer) for buffer in call[side]] for side in ("inputs", "outputs"))
        moved, work = bytes_moved(kernel, inputs, outputs), flops(kernel, plan, call, inputs, outputs)
        for i, amount in enumerate((1, moved, work, max(moved / BYTES_PER_S, work / FLOPS_PER_S))):
            kinds[kernel][i] += amount
    return kinds


def least_seconds(document: dict, sizes: dict[str, int], micro_batches: int) -> dict[str, float]:
    """By kernel, of a step of so many micro-batches."""
    plan, least = Plan(document, sizes), collections.defaultdict(float)
    for executable in document["executables"]:
        for program in executable["programs"]:
            for kernel, kind in kernels_of(plan, executable, program).items():
                least[kernel] += kind[3] * (0 if program["kind"] in NEVER else 1 if program["kind"] in ONCE_A_STEP else micro_batches)
    return dict(least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[], metavar="SYMBOL=SIZE")
    options = parser.parse_args()
    plan = Plan(json.loads(options.plan.read_text()), {name: int(size) for name, size in (each.split("=") for each in options.set)})
    for executable in plan.document["executables"]:
        for program in executable["programs"]:
            kinds = kernels_of(plan, executable, program)
            total = sum(kind[3] for kind in kinds.values())
            print(f"{executable['name']} {program['kind']}: {len(program['calls'])} calls, at least {total * 1e3:.2f} ms")
            for kernel, (count, moved, work, seconds) in sorted(kinds.items(), key=lambda item: -item[1][3]):
                if seconds > total / 500:
                    print(f"  {count:4} {kernel:20} {moved / 2**20:9.0f} MiB {work / 1e12:7.2f} TFLOP {seconds * 1e3:7.2f} ms {seconds / total:6.1%}")


if __name__ == "__main__":
    main()
