"""maestro.export: the graph means what the module means, and the module is as it was."""

from __future__ import annotations

import json
import pathlib

import numpy
import onnx
import pytest
import torch
from torch.nn import functional

import maestro
import networks
import shards
from tools import newest_checkpoint, metrics, safetensors

SAMPLES = 6
IGNORE = -100


def state_of(model):
    """All that an export might leave changed."""
    parts = [(name, part.training, dict(vars(part)).keys()) for name, part in model.named_modules()]
    config = model.config.to_dict() if hasattr(model, "config") else None
    tensors = {
        name: (tensor.clone(), tensor.requires_grad, id(tensor))
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    }
    return parts, config, tensors


def assert_unchanged(before, model):
    parts, config, tensors = state_of(model)
    assert [(name, mode, list(keys)) for name, mode, keys in before[0]] == [
        (name, mode, list(keys)) for name, mode, keys in parts
    ]
    assert before[1] == config
    for name, (value, requires_grad, identity) in before[2].items():
        assert (
            torch.equal(value, tensors[name][0]) and requires_grad == tensors[name][1] and identity == tensors[name][2]
        )


def text_samples(count=SAMPLES, longest=20, seed=3):
    random = numpy.random.default_rng(seed)
    samples = []
    for _ in range(count):
        ids = random.integers(3, networks.VOCABULARY, int(random.integers(4, longest + 1)))
        samples.append(
            {"input_ids": ids, "labels": numpy.where(random.random(len(ids)) < 0.2, IGNORE, numpy.roll(ids, -1))}
        )
    return samples


def step_one(bench, name, graph, samples, *arguments, data=None):
    """The first step's loss, its gradients by parameter, and the run's folder."""
    data = data or shards.write_shards(samples, bench.scratch / f"{name}-data")
    plan = bench.plan(graph, name, "--set", f"train.global_batch={len(samples)}", "--pin", "*.micro_batch=4")
    folder = bench.run(plan, data, f"{name}-run", "--steps", "1", "--save-gradients", "--self-check", *arguments)
    found, _ = safetensors(folder / "gradients.safetensors")
    component = graph.stem
    return (
        metrics(folder)[0]["loss"],
        {key.removeprefix(component + "."): value for key, value in found.items()},
        folder,
    )


def compare(model, expected_loss, loss, gradients, names=None):
    """PyTorch's gradients are in the model. `names`: Maestro's for tied parameters, by PyTorch's."""
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    expected = {
        (names or {}).get(name, name): parameter.grad.numpy()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    assert set(gradients) == set(expected)
    norm = float(numpy.sqrt(sum(float((value.astype(numpy.float64) ** 2).sum()) for value in expected.values())))
    for name, value in expected.items():
        allowed = 1e-4 * float(numpy.abs(value).max()) + 1e-6 * norm
        assert float(numpy.abs(gradients[name] - value).max()) <= allowed, name


def cross_entropy(model, samples):
    """The mean over all counted positions, each sample by itself."""
    count = sum(int((sample["labels"] != IGNORE).sum()) for sample in samples)
    total = 0.0
    for sample in samples:
        logits = model(input_ids=torch.from_numpy(sample["input_ids"])[None], use_cache=False).logits[0]
        loss = (
            functional.cross_entropy(logits, torch.from_numpy(sample["labels"]), ignore_index=IGNORE, reduction="sum")
            / count
        )
        loss.backward()
        total += loss.item()
    return total


@pytest.fixture(scope="module")
def llama(bench):
    """A tied Llama in train(), one norm of which is fixed, exported with its weights."""
    model = networks.seeded(networks.llama()).train()
    model.model.layers[1].eval()
    model.model.norm.weight.requires_grad_(False)
    before = state_of(model)
    path = maestro.export(model, {"input_ids": torch.ones(1, 5, dtype=torch.int64)}, bench.scratch / "llama.onnx")
    assert_unchanged(before, model)
    return model, path


def test_llama(bench, llama):
    model, path = llama
    samples = text_samples()
    loss, gradients, folder = step_one(bench, "llama", path, samples)
    compare(model, cross_entropy(model, samples), loss, gradients, {"model.embed_tokens.weight": "lm_head.weight"})
    assert "model.norm.weight" not in gradients
    saved, about = safetensors(newest_checkpoint(folder) / "llama.safetensors")
    assert numpy.array_equal(saved["model.norm.weight"], model.model.norm.weight.detach().numpy())
    assert {"lm_head.weight", "model.embed_tokens.weight"} & set(saved) and "model.embed_tokens.weight" in {
        *saved,
        *about,
    }


def test_summary_names_fixed_parameters(bench, llama):
    done = bench.succeed("maestro-plan", llama[1], "-o", bench.scratch / "said.mpl")
    assert "kept as it is, by requires_grad=False: model.norm.weight" in done.stdout + done.stderr
    assert "llama keeps as it is: model.norm.weight" in bench.succeed("maestro-dump", bench.scratch / "said.mpl").stdout


def test_what_the_file_says(llama):
    model, path = llama
    graph = onnx.load(path)
    about = {entry.key: entry.value for entry in graph.metadata_props}
    assert about["maestro.class"].endswith("LlamaForCausalLM")
    assert json.loads(about["maestro.config"])["hidden_size"] == 32
    assert json.loads(about["maestro.bounds"]) == {"seq": 64}
    (bound,) = [line for line in maestro.plan(path).explain().splitlines() if "sizes.seq.bound" in line]
    assert bound.split()[1] == "64" and "component 'llama' says so" in bound
    assert str(pathlib.Path(torch.__file__).parents[1]).encode() not in path.read_bytes()
    assert [value.name for value in graph.graph.input] == ["input_ids"]
    assert [value.name for value in graph.graph.output] == ["logits"]
    said = {value.name: {entry.key: entry.value for entry in value.metadata_props} for value in graph.graph.value_info}
    assert said["model.norm.weight"]["maestro.requires_grad"] == "False"
    assert said["lm_head.weight"]["maestro.aliases"] == "['model.embed_tokens.weight']"


def test_weightless_llama_on_the_meta_device(bench, llama):
    model, _ = llama
    with torch.device("meta"):
        empty = networks.llama()
    path = maestro.export(empty, empty.dummy_inputs, bench.scratch / "weightless.onnx", weights=False)
    assert path.stat().st_size < 2_000_000
    graph = onnx.load(path).graph
    assert [tensor.name for tensor in graph.initializer if "inv_freq" in tensor.name] == ["model.rotary_emb.inv_freq"]
    samples = text_samples()
    model.save_pretrained(bench.scratch / "pretrained")
    loss, gradients, _ = step_one(
        bench, "weightless", path, samples, "--weights", f"weightless={bench.scratch / 'pretrained'}"
    )
    model.zero_grad()
    model.model.norm.weight.requires_grad_(True)
    expected = cross_entropy(model, samples)
    compare(model, expected, loss, gradients, {"model.embed_tokens.weight": "lm_head.weight"})
    model.model.norm.weight.requires_grad_(False)


def test_gpt2_with_its_own_loss(bench):
    model = networks.seeded(networks.gpt2())
    ids = torch.ones(2, 6, dtype=torch.int64)
    path = maestro.export(model, {"input_ids": ids, "labels": ids}, bench.scratch / "gpt2.onnx", outputs=["loss"])
    samples = [sample | {"labels": sample["input_ids"]} for sample in text_samples()]
    loss, gradients, _ = step_one(bench, "gpt2", path, samples)
    count = sum(len(sample["labels"]) - 1 for sample in samples)
    expected = 0.0
    for sample in samples:
        tokens = torch.from_numpy(sample["input_ids"])[None]
        term = model.eval()(input_ids=tokens, labels=tokens).loss * ((len(sample["labels"]) - 1) / count)
        term.backward()
        expected += term.item()
    compare(model, expected, loss, gradients, {"transformer.wte.weight": "lm_head.weight"})


def test_a_mixture_of_experts(bench):
    model = networks.seeded(networks.mixtral())
    before = state_of(model)
    path = maestro.export(model, model.dummy_inputs, bench.scratch / "mixtral.onnx")
    assert_unchanged(before, model)
    samples = text_samples()
    loss, gradients, _ = step_one(bench, "mixtral", path, samples)
    compare(model, cross_entropy(model, samples), loss, gradients)


def test_t5_whose_attention_is_exported_otherwise(bench, caplog):
    model = networks.seeded(networks.t5())
    before = state_of(model)
    source, target = torch.ones(1, 5, dtype=torch.int64), torch.ones(1, 4, dtype=torch.int64)
    example = {"input_ids": source, "attention_mask": source, "labels": target}
    path = maestro.export(model, example, bench.scratch / "t5.onnx", outputs=["loss"])
    assert_unchanged(before, model)
    assert "single operators (eager)" in caplog.text
    samples = [
        {"input_ids": ids["input_ids"], "attention_mask": numpy.ones_like(ids["input_ids"]), "labels": labels["labels"]}
        for ids, labels in zip(text_samples(seed=4), text_samples(longest=9, seed=5), strict=True)
    ]
    loss, gradients, _ = step_one(bench, "t5", path, samples)
    count = sum(int((sample["labels"] != IGNORE).sum()) for sample in samples)
    expected = 0.0
    for sample in samples:
        tensors = {name: torch.from_numpy(value)[None] for name, value in sample.items()}
        term = model.eval()(**tensors).loss * (int((sample["labels"] != IGNORE).sum()) / count)
        term.backward()
        expected += term.item()
    names = {"shared.weight": next(name for name in gradients if name in ("shared.weight", "lm_head.weight"))}
    compare(model, expected, loss, gradients, names)


def test_bert_from_what_a_tokenizer_gives(bench):
    model = networks.seeded(networks.bert())
    ids = torch.ones(1, 6, dtype=torch.int64)
    example = {"input_ids": ids, "token_type_ids": 0 * ids, "attention_mask": ids}
    path = maestro.export(model, example, bench.scratch / "bert.onnx")
    samples = []
    for index, sample in enumerate(text_samples()):
        length = len(sample["input_ids"])
        samples.append(
            {
                "input_ids": sample["input_ids"],
                "token_type_ids": numpy.arange(length) % 2,
                "attention_mask": numpy.ones(length, numpy.int64),
                "labels": numpy.array(index % 5),
            }
        )
    loss, gradients, _ = step_one(bench, "bert", path, samples)
    expected = 0.0
    for sample in samples:
        tensors = {name: torch.from_numpy(value)[None] for name, value in sample.items()}
        term = model.eval()(**tensors).loss / len(samples)
        term.backward()
        expected += term.item()
    compare(model, expected, loss, gradients)


def test_a_module_of_nobodys_library(bench):
    model = networks.seeded(networks.Tagger())
    before = state_of(model)
    path = maestro.export(
        model, (torch.ones(3, 4, dtype=torch.int64), {"boost": 2.0}), bench.scratch / "tagger.onnx", outputs=["logits"]
    )
    assert_unchanged(before, model)
    random = numpy.random.default_rng(1)
    samples = []
    for length in (3, 9, 5, 4, 12, 7):
        samples.append({"words": random.integers(0, 4, length), "labels": random.integers(0, 6, length)})
    loss, gradients, _ = step_one(bench, "tagger", path, samples)
    expected = 0.0
    model.eval()
    for sample in samples:
        logits, _ = model(torch.from_numpy(sample["words"])[None], boost=2.0)
        term = functional.cross_entropy(logits[0], torch.from_numpy(sample["labels"]), reduction="sum") / 40
        term.backward()
        expected += term.item()
    compare(model, expected, loss, gradients)
    assert not gradients["words.weight"][0].any() and "inner.0.bias" not in gradients


def test_blocks_without_gradients(bench):
    """torch.no_grad(), as a block and as a decorator: gradients end there."""
    model = networks.seeded(networks.Gated())
    path = maestro.export(model, torch.randn(4, 12), bench.scratch / "gated.onnx", outputs=["logits"])
    random = numpy.random.default_rng(5)
    samples = [{"features": random.normal(size=12).astype("float32"), "labels": random.integers(0, 10)} for _ in range(6)]
    loss, gradients, _ = step_one(bench, "gated", path, samples)
    features = torch.from_numpy(numpy.stack([sample["features"] for sample in samples]))
    expected = functional.cross_entropy(model(features), torch.tensor([int(sample["labels"]) for sample in samples]))
    expected.backward()
    compare(model, expected.item(), loss, gradients)


def test_what_cannot_be_exported_is_an_error(tmp_path):
    tagger = networks.Tagger()
    words = torch.ones(2, 4, dtype=torch.int64)
    path = tmp_path / "no.onnx"

    def refused(expected, *arguments, **named):
        with pytest.raises(maestro.Error, match=expected) as caught:
            maestro.export(*arguments, path, **named)
        assert caught.value.status == 1 and not list(tmp_path.iterdir())

    refused("no argument 'word'; it takes words, boost", tagger, {"word": words})
    refused("takes 2: words, boost", tagger, (words, 1.0, 2))
    refused("'words' is a list", tagger, {"words": [[1, 2], [3]]})
    refused("holds no tensor", tagger, {"boost": 1.0})
    refused("dims names 'x'", tagger, (words,), dims={"x": ("batch",)})
    refused("bounds names 'frames'", tagger, (words,), bounds={"frames": 3})
    refused("names 3 tensors", tagger, (words,), outputs=["a", "b", "c"])
    refused("buffers names 'size'", tagger, (words,), buffers={"size": words})
    with torch.device("meta"):
        empty = networks.Tagger()
    refused("'words.weight' is on the meta device", empty, (words,))
    refused("'scale' is in no checkpoint and has no value", empty, (words,), weights=False)

    class Counts(torch.nn.Module):
        def forward(self, x):
            return x[: int(x.sum())] if x.sum() > 0 else x

    refused("PyTorch cannot export Counts", Counts(), (words,))


def test_packed_samples_that_do_not_see_each_other(bench):
    """boundaries=True: a graph with position_ids among its inputs gives each sample the loss that it has alone."""
    model = networks.seeded(networks.llama())
    ids = torch.ones(2, 6, dtype=torch.int64)
    path = maestro.export(model, {"input_ids": ids, "position_ids": ids}, bench.scratch / "packed.onnx")
    keys = {entry.key for entry in onnx.load(path).metadata_props}
    assert "maestro.bounds" not in keys  # Positions have one; rows, which hold several texts, have none.
    alone = [{"input_ids": sample["input_ids"]} for sample in text_samples(12, 9)]
    made = maestro.shards(alone, bench.scratch / "packed-data" / "{}", pack=200, boundaries=True)
    assert made.samples == 1
    loss, gradients, _ = step_one(bench, "packed", path, [None], data=made.files[0])
    count = sum(len(sample["input_ids"]) - 1 for sample in alone)
    expected = 0.0
    for sample in alone:
        tokens = torch.from_numpy(sample["input_ids"])
        term = functional.cross_entropy(model(tokens[None, :-1]).logits[0], tokens[1:], reduction="sum") / count
        term.backward()
        expected += term.item()
    compare(model, expected, loss, gradients, {"model.embed_tokens.weight": "lm_head.weight"})
