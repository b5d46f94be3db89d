"""Equal layers are traced once: a list of them is cut short while the model is exported, and the last one's nodes are then
repeated in the file, with the parameters of those that were left out.

What is repeated is proven to be what would have been traced: the modules left out are equal to those that stayed, the last two of
these became the same nodes, and nothing outside reads what is inside but at the last one. Where any of it is not so, the model is
exported whole."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from . import _calls

logger = logging.getLogger("maestro")

KEPT = 4  # The first may differ from the others; of the last two, the second is what is repeated.
FEWEST = 7  # Below, there is little to gain.

_SCOPES = "pkg.torch.onnx.name_scopes"
_TEXT = "pkg.torch.onnx.fx_node"
_TRACE = "pkg.torch.onnx.stack_trace"
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_MODULE = frozenset(vars(torch.nn.Module()))  # What every module has.
_INDEX = re.compile(r"layer_?(idx|id|index|number)$")


def traced(model: torch.nn.Module, export: Callable[[], Any]) -> Any | None:
    """What `export()` would give, from a model cut short; None where equal layers are few, or cannot be repeated."""
    layers = find(model)
    if layers is None:
        return None
    try:
        with layers.shortened():
            program = export()
        if layers.repeat(program, model):
            return program
        reason = "its layers' nodes differ"
    except Exception as error:  # Whatever it is, the whole model shows it, too.
        reason = f"{type(error).__name__}: {error}"
    logger.debug("%s is traced whole: %s", type(model).__name__, reason)
    return None


class Layers:
    """The longest list of equal layers of a model."""

    def __init__(self, parent: torch.nn.Module, name: str, path: str, whole: torch.nn.ModuleList) -> None:
        self._parent, self._name, self._path, self._whole = parent, name, path, whole

    @contextmanager
    def shortened(self) -> Iterator[None]:
        self._parent._modules[self._name] = torch.nn.ModuleList(list(self._whole)[:KEPT])
        try:
            yield
        finally:
            self._parent._modules[self._name] = self._whole

    def repeat(self, program: Any, model: torch.nn.Module) -> bool:
        """Puts the layers back that were left out of the exported program; False where that cannot be done."""
        graph = program.model.graph
        blocks = [_Block(graph, f"{self._path}.{index}") for index in (KEPT - 2, KEPT - 1)]
        if not blocks[1].nodes or not _are_alike(*blocks) or not _are_closed(graph, *blocks):
            return False
        _append(program, model, blocks, self._path, len(self._whole))
        return True


def find(model: torch.nn.Module) -> Layers | None:
    """The longest list of at least FEWEST layers that are equal but for the first; None where there is none."""
    best = None
    for path, parent in model.named_modules():
        for name, child in parent.named_children():
            if (
                not isinstance(child, torch.nn.ModuleList)
                or len(child) < FEWEST
                or (best and len(child) <= len(best._whole))
            ):
                continue
            if all(_is_same(child[1], layer) for layer in list(child)[2:]) and not _varies_by_layer(model, len(child)):
                best = Layers(parent, name, f"{path}.{name}" if path else name, child)
    return best


def _varies_by_layer(model: torch.nn.Module, count: int) -> bool:
    """A Hugging Face config may list a kind for each layer, which the model's own code reads."""
    lists = [
        value for config in _calls.configs(model) for value in vars(config).values() if isinstance(value, (list, tuple))
    ]
    return any(len(kinds) == count and any(kind != kinds[0] for kind in kinds) for kinds in lists)


def _is_same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    """Of one class, with parameters of the same shapes and the same attributes, but for the number of their layer."""
    if type(a) is not type(b) or a.training != b.training or list(a._modules) != list(b._modules):
        return False
    for mine, theirs in ((a._parameters, b._parameters), (a._buffers, b._buffers)):
        if mine.keys() != theirs.keys() or not all(_is_same_tensor(mine[name], theirs[name]) for name in mine):
            return False
    if any(vars(module)[hooks] for module in (a, b) for hooks in _MODULE if hooks.endswith("_hooks")):
        return False
    own, other = (
        {name: value for name, value in vars(module).items() if name not in _MODULE and not _INDEX.search(name)}
        for module in (a, b)
    )
    if own.keys() != other.keys() or not all(_is_same_value(own[name], other[name]) for name in own):
        return False
    children = [(a._modules[name], b._modules[name]) for name in a._modules]
    return all(
        (left is None and right is None) or (left and right and _is_same(left, right)) for left, right in children
    )


def _is_same_tensor(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is not b and (a.shape, a.dtype, a.requires_grad, type(a)) == (b.shape, b.dtype, b.requires_grad, type(b))


def _is_same_value(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, (bool, int, float, str, torch.dtype, torch.device, type(None))):
        return type(a) is type(b) and a == b
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(_is_same_value(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and type(a) is type(b):
        return a.keys() == b.keys() and all(_is_same_value(a[key], b[key]) for key in a)
    return False  # Who knows.


# ---- the graph ----------------------------------------------------------------------------------------------------------


class _Block:
    """The nodes of one layer, in the graph's order."""

    def __init__(self, graph: Any, scope: str) -> None:
        self.scope = scope
        inside = re.compile(rf"'{re.escape(scope)}['.]")
        self.nodes = [node for node in graph if inside.search(node.metadata_props.get(_SCOPES, ""))]
        self.members = set(self.nodes)
        self.places = {value: (i, k) for i, node in enumerate(self.nodes) for k, value in enumerate(node.outputs)}

    def owned(self, name: str | None) -> str | None:
        """What of a parameter's name is the layer's own."""
        return name.removeprefix(f"{self.scope}.") if name and name.startswith(f"{self.scope}.") else None


def _are_alike(before: _Block, last: _Block) -> bool:
    """The same operators read the same: their own values and parameters, what both read from outside, or what the layer before
    gave."""
    if len(before.nodes) != len(last.nodes):
        return False
    for a, b in zip(before.nodes, last.nodes, strict=True):
        same = (a.domain, a.op_type, len(a.inputs), len(a.outputs)) == (
            b.domain,
            b.op_type,
            len(b.inputs),
            len(b.outputs),
        )
        if not same or a.attributes.keys() != b.attributes.keys():
            return False
        if not all(_is_same_attribute(a.attributes[name], b.attributes[name]) for name in a.attributes):
            return False
        for x, y in zip(a.inputs, b.inputs, strict=True):
            if x is None or y is None:
                if x is not y:
                    return False
            elif y in last.places:
                if before.places.get(x) != last.places[y]:
                    return False
            elif (
                y in before.places
            ):  # What the layer before gave; of that one, a node at the same place in the one before it.
                if x in before.places or not _is_of_scope(x, _previous(before.scope)):
                    return False
            elif x is not y and (before.owned(x.name) is None or before.owned(x.name) != last.owned(y.name)):
                return False
    return True


def _previous(scope: str) -> str:
    path, _, index = scope.rpartition(".")
    return f"{path}.{int(index) - 1}"


def _is_of_scope(value: Any, scope: str) -> bool:
    node = value.producer()
    return node is not None and f"'{scope}'" in node.metadata_props.get(_SCOPES, "")


def _is_same_attribute(a: Any, b: Any) -> bool:
    if a.type != b.type or "GRAPH" in str(a.type):
        return False
    if "TENSOR" in str(a.type):
        x, y = a.value, b.value
        return x.dtype == y.dtype and list(x.shape) == list(y.shape) and x.tobytes() == y.tobytes()
    return bool(a.value == b.value)


def _are_closed(graph: Any, before: _Block, last: _Block) -> bool:
    """Nothing outside reads what is inside, but behind the last layer."""
    outputs = set(graph.outputs)
    if any(value in outputs for value in before.places):
        return False
    if any(
        node not in before.members and node not in last.members for value in before.places for node, _ in value.uses()
    ):
        return False
    rank = {node: index for index, node in enumerate(graph)}
    end = max(rank[node] for node in last.nodes)
    return all(rank[node] > end for value in last.places for node, _ in value.uses() if node not in last.members)


def _append(program: Any, model: torch.nn.Module, blocks: list[_Block], path: str, count: int) -> None:
    import onnx_ir as ir

    graph = program.model.graph
    before, last = blocks
    carried = {value: last.nodes[i].outputs[k] for value, (i, k) in before.places.items()}
    given = [
        value
        for value in last.places
        if value.is_graph_output() or any(node not in last.members for node, _ in value.uses())
    ]
    outside = {value: [(node, index) for node, index in value.uses() if node not in last.members] for value in given}
    names = _Names(before, last, path)
    position = last.nodes[-1]
    latest: dict[Any, Any] = {value: value for value in last.places}
    for index in range(KEPT, count):
        copies: dict[Any, Any] = {}

        def read(
            value: Any, index: int = index, copies: dict[Any, Any] = copies, latest: dict[Any, Any] = latest
        ) -> Any:
            if value is None or value in copies:
                return None if value is None else copies[value]
            if value in carried:
                return latest[carried[value]]
            own = last.owned(value.name)
            return value if own is None else _parameter(ir, graph, model, value, names, index)

        nodes = []
        for node in last.nodes:
            outputs = []
            for value in node.outputs:
                copy = ir.Value(name=names.of(value.name, index), shape=value.shape, type=value.type)
                copy.metadata_props.update({key: names.text(text, index) for key, text in value.metadata_props.items()})
                outputs.append(copy)
            made = ir.Node(
                node.domain,
                node.op_type,
                [read(value) for value in node.inputs],
                attributes=list(node.attributes.values()),
                overload=node.overload,
                outputs=outputs,
                version=node.version,
                name=names.of(node.name, index),
            )
            made.metadata_props.update(
                {key: text if key == _TRACE else names.text(text, index) for key, text in node.metadata_props.items()}
            )
            copies |= dict(zip(node.outputs, outputs, strict=True))
            nodes.append(made)
        graph.insert_after(position, nodes)
        position, latest = nodes[-1], copies
    for value, uses in outside.items():
        for node, place in uses:
            node.replace_input_with(place, latest[value])
        for i, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[i] = latest[value]
    for node in list(graph)[list(graph).index(position) + 1 :]:
        if _TEXT in node.metadata_props:
            node.metadata_props[_TEXT] = names.behind(node.metadata_props[_TEXT], count - 1)
    lines = graph.metadata_props.get(_SIGNATURE, "").splitlines()
    own = [i for i, line in enumerate(lines) if names.is_own(line)]
    added = [names.text(lines[i], index) for index in range(KEPT, count) for i in own]
    at = own[-1] + 1 if own else len(lines)
    graph.metadata_props[_SIGNATURE] = "\n".join(lines[:at] + added + lines[at:])


def _parameter(ir: Any, graph: Any, model: torch.nn.Module, value: Any, names: _Names, index: int) -> Any:
    name = names.text(value.name, index)
    if name in graph.initializers:
        return graph.initializers[name]
    module, _, leaf = name.rpartition(".")
    made = ir.Value(name=name, shape=value.shape, type=value.type)
    made.const_value = type(value.const_value)(getattr(model.get_submodule(module), leaf), name=name)
    made.metadata_props.update({key: names.text(text, index) for key, text in value.metadata_props.items()})
    graph.initializers[name] = made
    return made


class _Names:
    """Names and texts of the last layer, as those of another."""

    def __init__(self, before: _Block, last: _Block, path: str) -> None:
        self._path, self._flat = path, path.replace(".", "_")
        self._own = re.compile(
            rf"(?<![\w.]){re.escape(path)}\.{KEPT - 1}(?![\d])|(?<=[pb]_){re.escape(self._flat)}_{KEPT - 1}(?=_)"
        )
        self._calls = {_call(node) for node in last.nodes} | {value.name for value in last.places}
        self._carried = {_call(a): _call(b) for a, b in zip(before.nodes, last.nodes, strict=True)}
        self._carried |= {value.name: last.nodes[i].outputs[k].name for value, (i, k) in before.places.items()}

    def of(self, name: str | None, index: int) -> str | None:
        return name and (f"{name}_layer{index}" if index >= KEPT else name)

    def is_own(self, text: str) -> bool:
        return self._own.search(text) is not None

    def text(self, text: str, index: int) -> str:
        text = self._own.sub(lambda found: f"{found[0].rstrip('0123456789')}{index}", text)
        return re.sub(r"%(\w+)", lambda found: f"%{self._call(found[1], index)}", text)

    def behind(self, text: str, index: int) -> str:
        """The text of a call that reads the last layer, where another is the last."""
        return re.sub(
            r"%(\w+)", lambda found: f"%{self.of(found[1], index) if found[1] in self._calls else found[1]}", text
        )

    def _call(self, name: str, index: int) -> str:
        if name in self._calls:
            return str(self.of(name, index))
        return str(self.of(self._carried[name], index - 1)) if name in self._carried else name


def _call(node: Any) -> str:
    """ "%linear_3 : [num_users=1] = …" -> "linear_3"."""
    return str(node.metadata_props.get(_TEXT, "")).partition(" ")[0].lstrip("%")
