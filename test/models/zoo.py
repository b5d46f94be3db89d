"""The small models that Maestro is judged by, each as PyTorch defines it.

A `Case` is a network, the data fields that it reads, and what its loss means in PyTorch. Everything else (export,
shards, the parity judge, the benchmark) is derived from it, so that adding a model is one entry here.

The networks are plain `torch.nn.Module`s whose `forward` takes exactly the graph's inputs by name and returns exactly the
graph's outputs, so that state_dict names are those a user's checkpoint would have. transformers' models are subclassed
rather than wrapped, for a wrapper would prefix every name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 128
WIDTH = 64
LAYERS = 2
HEADS = 4
IGNORE = -100


@dataclass(frozen=True)
class Field:
    """One data field: dims are names (variable) or sizes; the first is a sum dim: `batch`, one row a sample, or another
    name (`images`), of which a sample has any number of rows.

    kind: `ids` uniform in [0, high); `labels` like ids with some IGNORE; `ones` an attention mask; `normal` floats;
    `mask01` float zeros and ones; `class` one id a sample. `pad` fills on the right where samples of one batch differ in length.
    """

    dims: tuple
    kind: str
    high: int = 0
    pad: int = 0

    @property
    def dtype(self):
        return torch.float32 if self.kind in ("normal", "mask01") else torch.int64


@dataclass(frozen=True)
class Case:
    name: str
    family: str
    build: Callable[[], nn.Module]
    fields: dict
    inputs: tuple
    outputs: tuple
    loss: Callable  # (outputs by name, batch) -> scalar, over the whole batch as interface.md means it
    workload: str = ""  # text of workload.yaml, `{model}` in place of the graph's file; "" plans the graph alone
    train_mode: bool = False
    max_lengths: dict = field(default_factory=lambda: {"seq": 24})
    sample: Callable | None = None  # draws one sample where fields depend on each other: (fields, random, index, draw)
    source: str = "zoo.py"  # the file that says what the network is: what its exports are keyed by


def initialise(module: nn.Module, seed: int, fresh: bool = False) -> nn.Module:
    """Weights from `seed`, large enough that every parameter's gradient stands clear of rounding. `fresh` leaves vectors
    as constructors do: scales and gates one, biases zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            if parameter.dim() <= 1 and fresh:
                parameter.fill_(1.0 if is_scale or parameter.dim() == 0 else 0.0)
            else:
                parameter.copy_(1.0 + 0.1 * noise if is_scale else 0.08 * noise)
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                noise = torch.rand(buffer.shape, generator=generator)
                buffer.copy_(0.5 + noise if name.endswith("var") else noise - 0.5)
    return module


# ---- transformers -------------------------------------------------------------------------------------------------


def causal_lm(config_class: str, model_class: str, with_loss: bool, mask: bool, **settings):
    """A decoder that reads input_ids (and attention_mask, labels) and gives logits, or its own shifted loss."""

    def build():
        import transformers

        base = getattr(transformers, model_class)
        config = getattr(transformers, config_class)(**settings)
        config.use_cache = False

        if with_loss:

            class Network(base):
                def forward(self, input_ids, labels):
                    return super().forward(input_ids=input_ids, labels=labels, use_cache=False).loss

        elif mask:

            class Network(base):
                def forward(self, input_ids, attention_mask):
                    return super().forward(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits

        else:

            class Network(base):
                def forward(self, input_ids):
                    return super().forward(input_ids=input_ids, use_cache=False).logits

        Network.__name__ = model_class
        return Network(config)

    return build


def seq2seq(config_class: str, model_class: str, with_loss: bool, **settings):
    def build():
        import transformers

        base = getattr(transformers, model_class)
        config = getattr(transformers, config_class)(**settings)
        config.use_cache = False

        if with_loss:

            class Network(base):
                def forward(self, input_ids, attention_mask, labels):
                    return super().forward(
                        input_ids=input_ids, attention_mask=attention_mask, labels=labels, use_cache=False
                    ).loss

        else:

            class Network(base):
                def forward(self, input_ids, attention_mask, decoder_input_ids):
                    return super().forward(
                        input_ids=input_ids,
                        attention_mask=attention_mask,
                        decoder_input_ids=decoder_input_ids,
                        use_cache=False,
                    ).logits

        Network.__name__ = model_class
        return Network(config)

    return build


def classifier(config_class: str, model_class: str, argument: str, mask: bool = False, **settings):
    def build():
        import transformers

        base = getattr(transformers, model_class)
        config = getattr(transformers, config_class)(**settings)

        if mask:

            class Network(base):
                def forward(self, input_ids, attention_mask):
                    return super().forward(input_ids=input_ids, attention_mask=attention_mask).logits

        elif argument == "input_ids":

            class Network(base):
                def forward(self, input_ids):
                    return super().forward(input_ids=input_ids).logits

        else:

            class Network(base):
                def forward(self, pixel_values):
                    return super().forward(pixel_values=pixel_values).logits

        Network.__name__ = model_class
        return Network(config)

    return build


GPT2 = dict(vocab_size=VOCABULARY, n_positions=128, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
            bos_token_id=0, eos_token_id=0)
LLAMA = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=160, num_hidden_layers=LAYERS,
             num_attention_heads=HEADS, num_key_value_heads=2, max_position_embeddings=256,
             bos_token_id=0, eos_token_id=0)
QWEN3 = dict(LLAMA, head_dim=16, tie_word_embeddings=True)
GEMMA2 = dict(LLAMA, head_dim=16, query_pre_attn_scalar=16, attn_logit_softcapping=5.0, final_logit_softcapping=3.0,
              sliding_window=16, attn_implementation="eager", pad_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
            encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=128, decoder_ffn_dim=128,
            max_position_embeddings=128, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
            forced_eos_token_id=None)
T5 = dict(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=16, d_ff=128, num_layers=LAYERS, num_decoder_layers=LAYERS,
          num_heads=HEADS, dropout_rate=0.0, attn_implementation="eager", feed_forward_proj="gated-gelu", pad_token_id=0, decoder_start_token_id=0,
          relative_attention_num_buckets=8, relative_attention_max_distance=20)
VIT = dict(image_size=32, patch_size=8, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
           intermediate_size=128, num_labels=10)
BERT = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            intermediate_size=128, max_position_embeddings=128)


# ---- plain networks -----------------------------------------------------------------------------------------------


class Mlp(nn.Module):
    """Dropout where p > 0; exported from train() it must drop."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.first = nn.Linear(12, 32)
        self.norm = nn.LayerNorm(32)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Linear(32, 10)

    def forward(self, features):
        return self.second(self.dropout(functional.gelu(self.norm(self.first(features)))))


class Convnet(nn.Module):
    def __init__(self, normalisation: str = "group"):
        super().__init__()

        def norm(channels):
            return nn.BatchNorm2d(channels) if normalisation == "batch" else nn.GroupNorm(4, channels)

        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.stem_norm = norm(16)
        self.deep = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.deep_norm = norm(32)
        self.skip = nn.Conv2d(16, 32, 1, stride=2)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(32, 10)

    def forward(self, pixel_values):
        hidden = torch.relu(self.stem_norm(self.stem(pixel_values)))
        hidden = torch.relu(self.deep_norm(self.deep(hidden)) + self.skip(hidden))
        return self.head(self.pool(hidden).mean(dim=(2, 3)))


class MaskedRegression(nn.Module):
    """A recipe's own loss inside the graph: the mean of squared errors over the positions that a mask counts."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.head = nn.Sequential(nn.Linear(WIDTH, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, input_ids, target, loss_mask):
        error = (self.head(self.embed(input_ids)).squeeze(-1) - target) ** 2
        return (error * loss_mask).sum() / loss_mask.sum()


# ---- losses, as PyTorch computes them over the whole batch --------------------------------------------------------


def cross_entropy(outputs, batch):
    logits = outputs["logits"]
    return functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(), batch["labels"].reshape(-1), ignore_index=IGNORE
    )


def own_loss(outputs, batch):
    return outputs["loss"]


IDS = Field(("batch", "seq"), "ids", VOCABULARY)
MASK = Field(("batch", "seq"), "ones")
LABELS = Field(("batch", "seq"), "labels", VOCABULARY, IGNORE)
CLASS = Field(("batch",), "class", 10)
PIXELS = Field(("batch", 3, 32, 32), "normal")


def decoder_cases(family, config, model, settings):
    """logits (loss named outside by default), logits with an attention mask, and the model's own shifted loss."""
    yield Case(f"{family}_logits", family, causal_lm(config, model, False, False, **settings),
               {"input_ids": IDS, "labels": LABELS}, ("input_ids",), ("logits",), cross_entropy)
    yield Case(f"{family}_mask", family, causal_lm(config, model, False, True, **settings),
               {"input_ids": IDS, "attention_mask": MASK, "labels": LABELS}, ("input_ids", "attention_mask"),
               ("logits",), cross_entropy)
    yield Case(f"{family}_loss", family, causal_lm(config, model, True, False, **settings),
               {"input_ids": IDS, "labels": LABELS}, ("input_ids", "labels"), ("loss",), own_loss)


def seq2seq_cases(family, config, model, settings):
    source = Field(("batch", "source"), "ids", VOCABULARY)
    source_mask = Field(("batch", "source"), "ones")
    target = Field(("batch", "target"), "ids", VOCABULARY)
    labels = Field(("batch", "target"), "labels", VOCABULARY, IGNORE)
    lengths = {"source": 20, "target": 16}
    yield Case(f"{family}_logits", family, seq2seq(config, model, False, **settings),
               {"input_ids": source, "attention_mask": source_mask, "decoder_input_ids": target, "labels": labels},
               ("input_ids", "attention_mask", "decoder_input_ids"), ("logits",), cross_entropy, max_lengths=lengths)
    yield Case(f"{family}_loss", family, seq2seq(config, model, True, **settings),
               {"input_ids": source, "attention_mask": source_mask, "labels": labels},
               ("input_ids", "attention_mask", "labels"), ("loss",), own_loss, max_lengths=lengths)


def all_cases() -> dict:
    cases = []
    cases += decoder_cases("gpt2", "GPT2Config", "GPT2LMHeadModel", GPT2)
    cases += decoder_cases("llama", "LlamaConfig", "LlamaForCausalLM", LLAMA)
    cases += list(decoder_cases("llama_tied", "LlamaConfig", "LlamaForCausalLM",
                                dict(LLAMA, tie_word_embeddings=True)))[:1]
    cases += decoder_cases("qwen3", "Qwen3Config", "Qwen3ForCausalLM", QWEN3)
    cases += list(decoder_cases("gemma2", "Gemma2Config", "Gemma2ForCausalLM", GEMMA2))[:2]
    cases += seq2seq_cases("bart", "BartConfig", "BartForConditionalGeneration", BART)
    cases += seq2seq_cases("t5", "T5Config", "T5ForConditionalGeneration", T5)
    cases.append(Case("vit_logits", "vit", classifier("ViTConfig", "ViTForImageClassification", "pixel_values", **VIT),
                      {"pixel_values": PIXELS, "labels": CLASS}, ("pixel_values",), ("logits",), cross_entropy))
    cases.append(Case("bert_mask", "bert", classifier("BertConfig", "BertForMaskedLM", "input_ids", True, **BERT),
                      {"input_ids": IDS, "attention_mask": MASK, "labels": LABELS}, ("input_ids", "attention_mask"),
                      ("logits",), cross_entropy))
    cases.append(Case("bert_nomask", "refused", classifier("BertConfig", "BertForMaskedLM", "input_ids", **BERT),
                      {"input_ids": IDS, "labels": LABELS}, ("input_ids",), ("logits",), cross_entropy))
    features = {"features": Field(("batch", 12), "normal"), "labels": CLASS}
    cases.append(Case("mlp_logits", "plain", Mlp, features, ("features",), ("logits",), cross_entropy))
    cases.append(Case("mlp_dropout", "plain", lambda: Mlp(0.25), features, ("features",), ("logits",), cross_entropy,
                      train_mode=True))
    pixels = {"pixel_values": PIXELS, "labels": CLASS}
    cases.append(Case("convnet_logits", "plain", Convnet, pixels, ("pixel_values",), ("logits",), cross_entropy))
    cases.append(Case("convnet_batchnorm", "plain", lambda: Convnet("batch"), pixels, ("pixel_values",), ("logits",),
                      cross_entropy))
    cases.append(Case("convnet_batchnorm_train", "refused", lambda: Convnet("batch"), pixels, ("pixel_values",),
                      ("logits",), cross_entropy, train_mode=True))
    cases.append(Case("masked_mean", "plain", MaskedRegression,
                      {"input_ids": IDS, "target": Field(("batch", "seq"), "normal"),
                       "loss_mask": Field(("batch", "seq"), "mask01")},
                      ("input_ids", "target", "loss_mask"), ("loss",), own_loss))
    import compound
    import wild

    cases += [replace(case, source="wild.py") for case in wild.wild_cases()]
    cases += [replace(case, source="compound.py") for case in compound.compound_cases()]
    return {case.name: case for case in cases}
