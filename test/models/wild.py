"""Networks and losses as people write them themselves, besides transformers' own: the family `wild`.

Each is here for one thing that exporters write differently for it; the comment at each entry says which.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo import (BERT, CLASS, IDS, LABELS, LLAMA, MASK, PIXELS, VOCABULARY, WIDTH, Case, Field, causal_lm, classifier,
                 cross_entropy, own_loss)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden):
        rows, length, width = hidden.shape
        q, k, v = self.qkv(self.norm1(hidden)).chunk(3, dim=-1)
        q, k, v = (x.view(rows, length, self.heads, -1).transpose(1, 2) for x in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.mlp(self.norm2(hidden))


class NanoGpt(nn.Module):
    """is_causal attention, chunk, learned positions by arange, a loss of its own on labels already shifted."""

    def __init__(self, tied=True):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH, 4) for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def logits(self, input_ids):
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = self.tokens(input_ids) + self.positions(positions)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))

    def forward(self, input_ids, labels):
        logits = self.logits(input_ids)
        return functional.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1), ignore_index=-100)


class LogitsAndLoss(NanoGpt):
    def forward(self, input_ids, labels):
        logits = self.logits(input_ids)
        return logits, functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class HandWritten(NanoGpt):
    """Cross-entropy by log_softmax, gather and a mask; plus a z-loss over the same positions."""

    def forward(self, input_ids, labels):
        logits = self.logits(input_ids)
        counted = (labels != -100).float()
        picked = functional.log_softmax(logits, -1).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        z = torch.logsumexp(logits, -1) ** 2
        return ((1e-3 * z - picked) * counted).sum() / counted.sum()


class Weighted(nn.Module):
    """Class weights: a mean over weights, not over samples."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 10))
        self.register_buffer("balance", torch.linspace(0.5, 2.0, 10))

    def forward(self, features, labels):
        return functional.cross_entropy(self.net(features), labels, weight=self.balance)


class Binary(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))

    def forward(self, features, targets):
        return functional.binary_cross_entropy_with_logits(self.net(features), targets)


class Regression(nn.Module):
    """A mean of squares over every element, and an L1 term."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.Softplus(), nn.Linear(32, 6))

    def forward(self, features, targets):
        predicted = self.net(features)
        return functional.mse_loss(predicted, targets) + 0.1 * functional.l1_loss(predicted, targets)


class Stock(nn.Module):
    """PyTorch's own transformer layers: packed in_proj weights, a key padding mask."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids, attention_mask):
        return self.head(self.encoder(self.tokens(input_ids), src_key_padding_mask=attention_mask == 0))


class Mobile(nn.Module):
    """Depthwise and dilated convolutions, hard activations, average pooling, a residual."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16)
        self.pointwise = nn.Conv2d(16, 16, 1)
        self.norm = nn.GroupNorm(1, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, pixel_values):
        hidden = functional.silu(self.stem(pixel_values))
        hidden = hidden + self.pointwise(functional.leaky_relu(self.depthwise(self.norm(hidden))))
        return self.head(functional.adaptive_avg_pool2d(hidden, 1).flatten(1))


class Resampled(nn.Module):
    """Feature maps that grow and shrink, borders that mirror, einsum attention over them."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4, padding=1, padding_mode="reflect")
        self.mix = nn.Conv2d(8, 8, 3, padding=1, padding_mode="replicate")
        self.head = nn.Linear(8, 10)

    def forward(self, pixel_values):
        hidden = functional.gelu(self.stem(pixel_values))
        hidden = self.mix(functional.interpolate(hidden, scale_factor=2, mode="nearest"))
        hidden = functional.interpolate(hidden, size=(6, 7), mode="bilinear", align_corners=False)
        hidden = functional.interpolate(hidden, size=(5, 5), mode="bicubic", align_corners=True).flatten(2)
        weights = torch.einsum("bcq,bck->bqk", hidden, hidden).softmax(-1)
        return self.head(torch.einsum("bqk,bck->bc", weights, hidden))


MARK = -200


class Marked(nn.Module):
    """Ids of which one is a mark that no table holds, as 32-bit integers; learned positions that start at 2."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(34, WIDTH)
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))

    def forward(self, input_ids):
        ids = torch.where(input_ids == MARK, 0, input_ids).to(torch.int32)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device) + 2
        return self.head(self.tokens(ids) + self.positions(positions))


def marked_sample(fields, random, index, draw):
    length = int(random.integers(3, 25))
    ids = draw("ids", VOCABULARY, (length,), random, True)
    ids[random.integers(0, length)] = MARK
    return {"input_ids": ids, "labels": draw("labels", VOCABULARY, (length,), random, index % 7 != 5)}


class Tables(nn.Module):
    """Masks and distances (GPT-Neo's, MPT's) cut out of tables of 128 positions, from their start and from their end."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.scores, self.values = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("causal", torch.ones(128, 128, dtype=torch.bool).tril()[None])
        self.register_buffer("distances", 0.1 * torch.arange(1.0 - 128, 1.0)[None, None], persistent=False)

    def forward(self, input_ids):
        batch, length = input_ids.shape
        hidden = self.tokens(input_ids)
        scores = self.scores(hidden) @ hidden.transpose(1, 2)
        scores = scores + self.distances[..., torch.sym_max(0, 128 - length) :]
        scores = torch.where(self.causal[:, :length, :length], scores, torch.finfo(scores.dtype).min)
        mixed = scores.softmax(-1) @ self.values(hidden)
        return self.head(mixed.contiguous().view(batch, -1, WIDTH))


class Contrastive(nn.Module):
    """CLIP's loss: every sample is scored against the company it keeps. Must be refused."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(12, 16), nn.Linear(12, 16)

    def forward(self, features, others):
        left = functional.normalize(self.left(features), dim=-1)
        right = functional.normalize(self.right(others), dim=-1)
        scores = left @ right.T
        return functional.cross_entropy(scores, torch.arange(scores.shape[0], device=scores.device))


def wild_cases():
    features = Field(("batch", 12), "normal")
    text = {"input_ids": IDS, "labels": LABELS}
    yield Case("nanogpt", "wild", NanoGpt, text, ("input_ids", "labels"), ("loss",), own_loss)
    # What -100 means is in this graph's comparison alone, so the user says what labels are padded with.
    padded = ("components: {handwritten: {model: {model}}}\ninputs: {labels: {pad: -100}}\n"
              "loss: [{output: handwritten.loss}]\n")
    yield Case("handwritten", "wild", HandWritten, text, ("input_ids", "labels"), ("loss",), own_loss, workload=padded)
    yield Case("logits_and_loss", "wild", LogitsAndLoss, text, ("input_ids", "labels"), ("logits", "loss"), own_loss)
    yield Case("marked", "wild", Marked, text, ("input_ids",), ("logits",), cross_entropy, sample=marked_sample)
    yield Case("tables", "wild", Tables, text, ("input_ids",), ("logits",), cross_entropy)
    yield Case("class_weights", "wild", Weighted, {"features": features, "labels": CLASS}, ("features", "labels"),
               ("loss",), own_loss)
    for name, network, width in (("binary", Binary, 10), ("regression", Regression, 6)):
        fields = {"features": features, "targets": Field(("batch", width), "normal" if width == 6 else "mask01")}
        yield Case(name, "wild", network, fields, ("features", "targets"), ("loss",), own_loss)
    yield Case("stock", "wild", Stock, {**text, "attention_mask": MASK}, ("input_ids", "attention_mask"), ("logits",),
               cross_entropy)
    yield Case("resampled", "wild", Resampled, {"pixel_values": PIXELS, "labels": CLASS}, ("pixel_values",), ("logits",),
               cross_entropy)
    yield Case("mobile", "wild", Mobile, {"pixel_values": PIXELS, "labels": CLASS}, ("pixel_values",), ("logits",),
               cross_entropy)
    # Only the batch is symbolic; labels of every position.
    fixed = {"input_ids": Field(("batch", 16), "ids", VOCABULARY), "labels": Field(("batch", 16), "labels", VOCABULARY, -100)}
    yield Case("fixed_length", "wild", causal_lm("LlamaConfig", "LlamaForCausalLM", False, False, **LLAMA), fixed,
               ("input_ids",), ("logits",), cross_entropy)
    # A sliding window, a rotary embedding of a part of the head, learned positions with an offset.
    yield Case("mistral", "wild", causal_lm("MistralConfig", "MistralForCausalLM", False, False, **LLAMA,
                                            sliding_window=8), text, ("input_ids",), ("logits",), cross_entropy)
    yield Case("neox", "wild", causal_lm(
        "GPTNeoXConfig", "GPTNeoXForCausalLM", False, False, vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=128, max_position_embeddings=128, bos_token_id=0, eos_token_id=0),
        text, ("input_ids",), ("logits",), cross_entropy)
    yield Case("opt", "wild", causal_lm(
        "OPTConfig", "OPTForCausalLM", False, True, vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2,
        num_attention_heads=4, ffn_dim=128, max_position_embeddings=128, word_embed_proj_dim=WIDTH, pad_token_id=1,
        bos_token_id=0, eos_token_id=0),
        {**text, "attention_mask": MASK}, ("input_ids", "attention_mask"), ("logits",), cross_entropy)
    yield Case("distilbert", "wild", classifier(
        "DistilBertConfig", "DistilBertForMaskedLM", "input_ids", True, vocab_size=VOCABULARY, dim=WIDTH, n_layers=2,
        n_heads=4, hidden_dim=128, max_position_embeddings=128, pad_token_id=0),
        {**text, "attention_mask": MASK}, ("input_ids", "attention_mask"), ("logits",), cross_entropy)
    yield Case("contrastive", "refused", Contrastive, {"features": features, "others": features}, ("features", "others"),
               ("loss",), own_loss)
