"""Layers that an export repeats in the file: the same graph, node by node, as of the model traced whole."""

from __future__ import annotations

import re

import networks
import onnx
import pytest
import torch
import transformers

import maestro
from maestro import _repeat

IDS = torch.ones(1, 6, dtype=torch.int64)


def gpt2(**settings):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=99, n_positions=32, n_embd=32, n_layer=8, n_head=4, bos_token_id=None, eos_token_id=None, **settings
        )
    )


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, features):
        return torch.tanh(self.linear(features)) + features


class Passed(torch.nn.Module):
    """With `collects` the end reads the last layer but one, too."""

    def __init__(self, collects=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(Residual() for _ in range(7))
        self.collects = collects

    def forward(self, features):
        seen = []
        for layer in self.layers:
            features = layer(features)
            seen.append(features)
        return seen[-1] + seen[-2] if self.collects else seen[-1]


class Names:
    """Which value of one graph is which of another: one to one."""

    def __init__(self):
        self.there, self.back = {}, {}

    def pair(self, one, other):
        assert self.there.setdefault(one, other) == other and self.back.setdefault(other, one) == one


def text(node, key):
    return next((entry.value for entry in node.metadata_props if entry.key.endswith(key)), "")


def values(graph):
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def assert_same(one, other):
    names, left, right = Names(), values(one), values(other)
    assert left.keys() == right.keys() and all((left[name] == right[name]).all() for name in left)
    assert len(one.node) == len(other.node)
    for name in [*left, *(value.name for value in one.input)]:
        names.pair(name, name)
    for a, b in zip(one.node, other.node, strict=True):
        assert a.op_type == b.op_type and sorted(map(str, a.attribute)) == sorted(map(str, b.attribute))
        for x, y in zip([*a.input, *a.output], [*b.input, *b.output], strict=True):
            names.pair(x, y)
        for x, y in zip(*(re.findall(r"%(\w+)", text(node, "fx_node")) for node in (a, b)), strict=True):
            names.pair(f"%{x}", f"%{y}")
        assert text(a, "name_scopes").split("'")[1:-2] == text(b, "name_scopes").split("'")[1:-2]
    types = [{value.name: value.type for value in graph.value_info} for graph in (one, other)]
    assert {names.there[name]: kind for name, kind in types[0].items()} == types[1]
    signatures = [next(entry.value for entry in graph.metadata_props if entry.key.endswith("graph_signature")) for graph in (one, other)]
    inputs = [sorted(line for line in signature.splitlines() if "USER_OUTPUT" not in line) for signature in signatures]
    assert inputs[0] == inputs[1]


@pytest.mark.parametrize(
    ("model", "example", "repeats"),
    [
        (networks.llama(layers=8), {"input_ids": IDS}, True),
        (gpt2(), {"input_ids": IDS}, True),
        (Passed(), torch.randn(2, 6), True),
        (Passed(collects=True), torch.randn(2, 6), False),
    ],
    ids=["llama", "gpt2", "passed", "collects"],
)
def test_the_same_graph(model, example, repeats, tmp_path, monkeypatch):
    networks.seeded(model)
    traced, results = _repeat.traced, []
    monkeypatch.setattr(_repeat, "traced", lambda *given: results.append(traced(*given)) or results[-1])
    found = maestro.export(model, example, tmp_path / "repeated.onnx")
    assert (results[0] is not None) == repeats
    monkeypatch.setattr(_repeat, "traced", lambda *given: None)
    whole = maestro.export(model, example, tmp_path / "whole.onnx")
    assert_same(onnx.load(found).graph, onnx.load(whole).graph)


def test_layers_that_differ_are_traced():
    def found(change=None):
        model = networks.llama(layers=8)
        if change:
            change(model.model.layers[6])
        return _repeat.find(model)

    def hooked(layer):
        layer.register_forward_hook(lambda *given: None)

    assert found() is not None
    assert found(hooked) is None
    assert found(lambda layer: setattr(layer.self_attn, "scaling", 0.5)) is None
    assert found(lambda layer: setattr(layer, "_own", 0.5)) is None
    assert found(lambda layer: layer.input_layernorm.weight.requires_grad_(False)) is None
    assert found(lambda layer: setattr(layer.mlp, "act_fn", torch.nn.ReLU())) is None
    assert _repeat.find(gpt2(scale_attn_by_inverse_layer_idx=True)) is None
    assert _repeat.find(networks.llama(layers=6)) is None
    alternating = transformers.Gemma2Config(
        vocab_size=99, hidden_size=32, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, head_dim=8
    )
    assert _repeat.find(transformers.Gemma2ForCausalLM(alternating)) is None
