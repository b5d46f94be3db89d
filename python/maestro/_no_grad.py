"""`torch.no_grad()` in an exported program: what its blocks return is detached, which an ONNX file can say.

A block of no_grad inside one of autocast is lost by torch.export itself; the planner refuses gradients through autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export.graph_signature import InputKind


@contextmanager
def detached() -> Iterator[None]:
    """Programs that `torch.export.export` makes meanwhile, for torch.onnx.export among others, call `detach()` behind
    each block of `torch.no_grad()` that a gradient could pass."""
    original = torch.export.export

    def export(*arguments: Any, **named: Any) -> torch.export.ExportedProgram:
        program = original(*arguments, **named)
        _detach(program.graph_module, _carriers(program))
        return program

    torch.export.export = export
    try:
        yield
    finally:
        torch.export.export = original


def _carriers(program: torch.export.ExportedProgram) -> set[torch.fx.Node]:
    """The inputs through which gradients may leave: what trains, and what another component may give."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    kinds = (InputKind.PARAMETER, InputKind.USER_INPUT)
    specs = program.graph_signature.input_specs
    return {node for node, spec in zip(nodes, specs, strict=True) if spec.kind in kinds and _is_float(node)}


def _detach(module: torch.fx.GraphModule, carriers: set[torch.fx.Node]) -> None:
    for node in list(module.graph.nodes):
        if not any(read in carriers for read in node.all_input_nodes):
            continue
        carriers.add(node)
        if node.target is torch.ops.higher_order.wrap_with_set_grad_enabled and not node.args[0]:
            for result in list(node.users):  # One getitem a result.
                if _is_float(result):
                    _detach_result(module.graph, result)
    module.recompile()


def _detach_result(graph: torch.fx.Graph, result: torch.fx.Node) -> None:
    with graph.inserting_after(result):
        stop = graph.call_function(torch.ops.aten.detach.default, (result,))
    stop.meta = dict(result.meta)
    result.replace_all_uses_with(stop, delete_user_cb=lambda user: user is not stop)


def _is_float(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()
