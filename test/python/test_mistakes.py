"""Mistakes that people make, and the words that they are met with: what is wrong, with which value, and what to do."""

import json

import numpy
import pytest
import torch
from torch import nn

import maestro


class Speaker(nn.Module):
    """As Hugging Face's models are called: names, and whatever else."""

    def __init__(self):
        super().__init__()
        self.head = nn.Embedding(8, 8)

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        return {"logits": self.head(input_ids)}


IDS = {"input_ids": torch.ones(2, 4, dtype=torch.int64)}


@pytest.mark.parametrize(
    ("model", "example", "words"),
    [
        (Speaker, IDS, ["the class Speaker", "Speaker(…)"]),
        (Speaker().state_dict(), IDS, ["a torch.nn.Module is exported", "OrderedDict"]),
        (Speaker(), {"input_id": IDS["input_ids"]}, ["names no argument 'input_id'", "did you mean 'input_ids'"]),
        (Speaker(), [1, 2], ["holds no tensor", "{'input_ids': torch.…}"]),
        (Speaker(), "text", ["the example is a str", "a dict of tensors by argument name"]),
        (Speaker(), {"input_ids": [["a"], ["b"]]}, ["'input_ids' is a list", "not a tensor"]),
    ],
)
def test_what_is_no_model_or_example(tmp_path, model, example, words):
    with pytest.raises(maestro.Error) as caught:
        maestro.export(model, example, tmp_path / "speaker")
    assert all(word in str(caught.value) for word in words), caught.value
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ids", [numpy.ones((2, 4), "int64"), [[1, 2, 3, 4], [5, 6, 7, 0]]])
def test_arrays_and_lists_are_examples(tmp_path, ids):
    assert maestro.export(Speaker(), {"input_ids": ids}, tmp_path / "speaker").exists()


@pytest.mark.parametrize(
    ("content", "map", "words"),
    [
        ('{"text": "a"}\n', lambda row: row["tokens"], ["KeyError: 'tokens'", "the item has text"]),
        ('[{"text": "a"}, {"text": "b"}]', None, ["text.jsonl:1", "a list of 2 objects", "an object a line"]),
        ('{"text": "a"}\n{"text": "caf\xe9"}\n', len, ["text.jsonl:2", "0xe9", "is not UTF-8", "iconv"]),
        ('{"text": "a"}\n', None, ["'text' is the str 'a', not numbers", "map="]),
    ],
)
def test_text_that_is_no_samples(tmp_path, content, map, words):
    (tmp_path / "text.jsonl").write_bytes(content.encode("latin-1"))
    with pytest.raises(maestro.Error) as caught:
        maestro.shards(tmp_path / "text.jsonl", tmp_path / "out", map=map)
    assert all(word in str(caught.value) for word in words), caught.value


def test_rows_of_tensors_count_their_tokens(tmp_path):
    made = maestro.shards([{"input_ids": torch.ones(1, 7, dtype=torch.int64)}] * 3, tmp_path / "out")
    assert made.tokens == 21


@pytest.mark.parametrize(
    ("components", "loss", "words"),
    [
        ({"m": Speaker()}, {"output": "m.loss"}, ["'m' has a Speaker as its model", "maestro.export"]),
        ({"m": "m.onnx"}, "cross_entropy", ["loss is 'cross_entropy'", '"logits"']),
        ({"m": "m.onnx"}, ["cross_entropy"], ["loss is ['cross_entropy']", '"logits"']),
    ],
)
def test_workloads_of_other_things(tmp_path, components, loss, words):
    with pytest.raises(maestro.Error) as caught:
        maestro.workload(tmp_path / "w.yaml", components=components, loss=loss)
    assert all(word in str(caught.value) for word in words), caught.value
    assert not list(tmp_path.iterdir())


def test_a_module_is_no_plan():
    with pytest.raises(maestro.Error, match="the source is a Speaker; give files: what maestro.export"):
        maestro.plan(Speaker())


def test_adapters_are_saved_by_their_library(tmp_path, monkeypatch):
    """A folder of a PEFT model's values would load, with a warning, as a model of random weights."""
    safetensors = pytest.importorskip("safetensors.torch")
    checkpoint = tmp_path / "run/checkpoint-000001"
    checkpoint.mkdir(parents=True)
    safetensors.save_file({"base_model.model.head.weight": torch.ones(2, 2)}, checkpoint / "m.safetensors")
    (checkpoint / "state.json").write_text("{}")
    about = {"maestro.config": json.dumps({}), "maestro.class": "peft.peft_model.PeftModelForCausalLM"}
    monkeypatch.setattr("maestro._checkpoints._about", lambda *_: about)
    with pytest.raises(maestro.Error, match="'m' is a PEFT model.*save_pretrained for the adapters"):
        maestro.to_hf(checkpoint, tmp_path / "hf", "m")
    assert not (tmp_path / "hf").exists()
