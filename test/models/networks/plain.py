"""PyTorch as people write it themselves: the small networks of zoo.py and wild.py, recurrent ones,
and a line or two of everything."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

import wild
import zoo
from zoo import CLASS, Field

from .network import (
    IDS,
    LABELS,
    MASK,
    MASKED_TEXT,
    TEXT,
    Network,
    first_of,
    floats,
    images,
    squares,
)
from .tiny import VOCABULARY

WIDTH = 32
TABULAR = {"features": floats(12), "labels": CLASS}


class Attention(nn.Module):
    """One attention over positions, then a head; `mean` pools without a mask, `last` takes the last
    position."""

    def __init__(self, pool=""):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10 if pool else VOCABULARY)
        self.pool = pool

    def forward(self, input_ids, attention_mask=None):
        hidden = self.embed(input_ids)
        hidden = self.norm(
            hidden
            + self.attention(
                hidden,
                hidden,
                hidden,
                need_weights=False,
                key_padding_mask=None if attention_mask is None else attention_mask == 0,
            )[0]
        )
        if self.pool == "mean":
            hidden = hidden.mean(1)
        elif self.pool == "last":
            hidden = hidden[:, -1]
        elif self.pool == "max":
            hidden = hidden.amax(1)
        elif self.pool == "masked":
            weights = attention_mask.unsqueeze(-1).float()
            hidden = (hidden * weights).sum(1) / weights.sum(1)
        return self.head(hidden)


class Bags(nn.Module):
    """Rows of a table summed, averaged, and the largest of each column taken, a bag a sample."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(VOCABULARY, WIDTH, mode=mode) for mode in ("sum", "mean", "max")
        )
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, ids):
        return self.head(sum(torch.tanh(bag(ids)) for bag in self.bags))


class Weighted(nn.Module):
    """Attention as nn.MultiheadAttention is without options: positions first, weights returned."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids):
        hidden = self.embed(input_ids).transpose(0, 1)
        mixed, weights = self.attention(hidden, hidden, hidden)
        return self.head((hidden + mixed).transpose(0, 1)) + weights.amax(-1, keepdim=True)


class Pooled(nn.Module):
    """A weight that is computed from a parameter in a way that no rule follows over replicas."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(0.3 * torch.randn(8, 1, 24)), nn.Linear(20, 10)

    def forward(self, features):
        weight = functional.avg_pool1d(self.weight, 2).squeeze(1)
        return self.head(torch.cat([torch.tanh(features @ weight.T), features], -1))


class Warped(nn.Module):
    """Arc and hyperbolic functions, a remainder, a product of features."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(12, 8), nn.Linear(57, 10)
        self.period = nn.Parameter(torch.tensor(1.3))

    def forward(self, features):
        x = self.first(features)
        inside = 0.9 * torch.tanh(x)
        parts = [
            torch.asin(inside),
            torch.acos(inside),
            torch.atan(x),
            torch.asinh(x),
            torch.acosh(1.5 + x * x),
            torch.atanh(inside),
            torch.remainder(x, self.period),
            (1 + 0.2 * inside).prod(-1, keepdim=True),
        ]
        return self.head(torch.cat(parts, -1))


class GridSampled(nn.Module):
    """Pictures read where another layer says, in every way that grid_sample knows."""

    def __init__(self):
        super().__init__()
        self.where, self.what = nn.Conv2d(3, 2, 5, padding=2), nn.Conv2d(3, 6, 3, padding=1)
        self.head = nn.Linear(6, 10)

    def forward(self, pixel_values):
        grid = 1.4 * torch.tanh(self.where(pixel_values)).permute(0, 2, 3, 1)
        hidden = self.what(pixel_values)
        for mode, padding, aligned in (
            ("bilinear", "zeros", False),
            ("bilinear", "reflection", True),
            ("bicubic", "border", False),
            ("nearest", "zeros", True),
        ):
            moved = functional.grid_sample(hidden, grid, mode, padding, aligned)
            hidden = hidden + torch.tanh(moved)
        return self.head(hidden.mean((2, 3)))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=5)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids):
        return self.head(torch.tanh(self.embed(input_ids)))


class Detached(nn.Module):
    """A gate whose gradient is stopped."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        hidden = self.a(features)
        return self.b(hidden * torch.sigmoid(hidden.detach()))


class StraightThrough(nn.Module):
    """Vector quantisation: codes forward, identity backward, with its two commitment terms."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 8), nn.Linear(8, 12)
        self.codes = nn.Embedding(16, 8)

    def forward(self, features):
        z = self.encoder(features)
        distances = (
            (z**2).sum(-1, keepdim=True)
            - 2 * z @ self.codes.weight.T
            + (self.codes.weight**2).sum(-1)
        )
        code = self.codes(distances.argmin(-1))
        quantised = z + (code - z).detach()
        return (
            functional.mse_loss(self.decoder(quantised), features)
            + functional.mse_loss(code, z.detach())
            + 0.25 * functional.mse_loss(z, code.detach())
        )


class TwoNorms(nn.Module):
    """Two norms of one input, a scalar gate of one, two biases on one sum."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(12), nn.LayerNorm(12)
        self.left, self.right = nn.Linear(12, 10), nn.Linear(12, 10)
        self.gate = nn.Parameter(torch.tensor(1.0))
        self.p, self.q = nn.Parameter(torch.zeros(1, 10)), nn.Parameter(torch.zeros(1, 10))

    def forward(self, features):
        return (
            self.left(self.first(features))
            + self.gate * self.right(self.second(features))
            + self.p
            + self.q
        )


class Positions(nn.Module):
    """A parameter of positions of shape [1, s, d] beside a second one: both get one gradient."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 8, stride=8)
        self.p, self.q = nn.Parameter(0.02 * torch.randn(1, 16, WIDTH)), nn.Parameter(
            torch.zeros(1, 16, WIDTH)
        )
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, pixel_values):
        hidden = self.patch(pixel_values).flatten(2).transpose(1, 2) + self.p + self.q
        return self.head(torch.tanh(hidden).mean(1))


class Experts(nn.Module):
    """Two experts, a soft gate."""

    def __init__(self, hard=False):
        super().__init__()
        self.gate = nn.Linear(12, 2)
        self.experts = nn.ModuleList([zoo.Mlp(), zoo.Mlp()])
        self.hard = hard

    def forward(self, features):
        weights = self.gate(features).softmax(-1)
        if self.hard:
            weights = weights * functional.one_hot(weights.argmax(-1), 2)
        return sum(weights[:, i, None] * expert(features) for i, expert in enumerate(self.experts))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(
            8, 16, 3, stride=2, padding=1
        )
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 5, 1)

    def forward(self, pixel_values, labels):
        first = functional.relu(self.down1(pixel_values))
        second = functional.relu(self.down2(first))
        logits = self.out(torch.cat([self.up(second), first], 1))
        return functional.cross_entropy(logits, labels)


class Stock(nn.Module):
    """nn.Transformer with its masks."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.net = nn.Transformer(WIDTH, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source_ids, target_ids):
        mask = torch.triu(torch.full((7, 7), float("-inf")), 1)
        return self.head(
            self.net(
                self.embed(source_ids), self.embed(target_ids), tgt_mask=mask, tgt_is_causal=True
            )
        )


class PlaceInBatch(nn.Module):
    """A table read by a sample's place in the batch: must be refused."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(64, 12), nn.Linear(12, 10)

    def forward(self, features):
        return self.head(features + self.table(torch.arange(features.shape[0])))


def of_the_zoo():
    """Cases of zoo.py and wild.py whose loss needs nothing but what this survey knows."""
    shifted = {"input_ids": IDS, "labels": LABELS}
    counts = lambda sample: int((sample["labels"] != -100).sum())  # noqa: E731
    for name, build in (
        ("nanogpt", wild.NanoGpt),
        ("untied", lambda: wild.NanoGpt(tied=False)),
        ("hand_written_loss", wild.HandWritten),
    ):
        yield Network(
            f"plain_{name}",
            "plain",
            build,
            shifted,
            first_of,
            scalar=True,
            counted=counts,
            quick=name == "nanogpt",
            pads={"labels": -100},
        )
    yield Network(
        "plain_class_weights",
        "plain",
        wild.Weighted,
        TABULAR,
        first_of,
        scalar=True,
        counted=lambda sample: float(torch.linspace(0.5, 2.0, 10)[int(sample["labels"])]),
    )
    yield Network("plain_mobile", "plain", wild.Mobile, images(), first_of)
    yield Network("plain_resampled", "plain", wild.Resampled, images(), first_of)
    yield Network("plain_tables", "plain", wild.Tables, TEXT, first_of)
    yield Network("plain_encoder_layers", "plain", wild.Stock, MASKED_TEXT, first_of)
    yield Network(
        "plain_contrastive",
        "plain",
        wild.Contrastive,
        {"features": floats(12), "others": floats(12)},
        first_of,
        scalar=True,
    )
    masked = {
        "input_ids": IDS,
        "target": Field(("batch", "seq"), "normal"),
        "loss_mask": Field(("batch", "seq"), "mask01"),
    }
    yield Network(
        "plain_masked_mean",
        "plain",
        zoo.MaskedRegression,
        masked,
        first_of,
        scalar=True,
        counted=lambda sample: float(sample["loss_mask"].sum()),
    )


def networks():
    yield Network("plain_mlp", "plain", zoo.Mlp, TABULAR, first_of, quick=True)
    yield Network("plain_convnet", "plain", zoo.Convnet, images(), first_of)
    yield Network(
        "plain_convnet_batch_norm", "plain", lambda: zoo.Convnet("batch"), images(), first_of
    )
    yield from of_the_zoo()
    yield Network("plain_attention", "plain", Attention, MASKED_TEXT, first_of)
    yield Network("plain_attention_unmasked", "plain", Attention, TEXT, first_of, quick=True)
    yield Network("plain_attention_weighted", "plain", Weighted, TEXT, first_of)
    bags = {"ids": Field(("batch", 6), "ids", VOCABULARY), "labels": CLASS}
    yield Network("plain_bags", "plain", Bags, bags, first_of)
    yield Network("plain_pooled_weight", "plain", Pooled, TABULAR, first_of)
    yield Network("plain_warped", "plain", Warped, TABULAR, first_of)
    yield Network("plain_grid_sample", "plain", GridSampled, images(), first_of, quick=True)
    for pool in ("mean", "last", "max", "masked"):
        mask = {"attention_mask": MASK} if pool == "masked" else {}
        yield Network(
            f"plain_pool_{pool}",
            "plain",
            lambda pool=pool: Attention(pool),
            {"input_ids": IDS, **mask, "labels": CLASS},
            first_of,
            quick=pool == "mean",
        )
    yield Network("plain_padding_idx", "plain", Bag, TEXT, first_of)
    yield Network("plain_detached", "plain", Detached, TABULAR, first_of, quick=True)
    yield Network(
        "plain_straight_through",
        "plain",
        StraightThrough,
        {"features": floats(12)},
        first_of,
        scalar=True,
    )
    yield Network("plain_two_norms", "plain", TwoNorms, TABULAR, first_of, quick=True)
    yield Network("plain_positions", "plain", Positions, images(), first_of)
    yield Network("plain_experts_soft", "plain", Experts, TABULAR, first_of)
    yield Network("plain_experts_hard", "plain", lambda: Experts(True), TABULAR, first_of)
    yield Network(
        "plain_unet",
        "plain",
        UNet,
        {"pixel_values": floats(3, 16, 16), "labels": Field(("batch", 16, 16), "ids", 5)},
        first_of,
        scalar=True,
    )
    yield Network("plain_place_in_batch", "plain", PlaceInBatch, TABULAR, first_of, quick=True)
    yield Network(
        "plain_transformer",
        "plain",
        Stock,
        {
            "source_ids": Field(("batch", 5), "ids", VOCABULARY),
            "target_ids": Field(("batch", 7), "ids", VOCABULARY),
            "labels": Field(("batch", 7), "labels", VOCABULARY, -100),
        },
        first_of,
    )
    yield Network(
        "plain_autoencoder",
        "plain",
        lambda: nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 12)),
        {"features": floats(12)},
        lambda module, features: squares(module(features) - features),
        scalar=True,
    )
