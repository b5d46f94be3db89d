"""Small networks that are joined in ways that the zoo's are not: one encoder that feeds a teacher and a student, so that gradients
reach it through the frozen teacher, too, and sections in a row."""

from __future__ import annotations

import torch
import zoo
from torch import nn

WIDTH = 48
FEATURES = zoo.Field(("batch", "seq", WIDTH), "normal")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(zoo.VOCABULARY, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids):
        return torch.tanh(self.out(self.embed(input_ids)))


class Middle(nn.Module):
    """With a mean of what a relu gives, and a factor that no gradient passes."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, features):
        hidden = torch.relu(self.up(features))
        return features + self.down(hidden) * (1 + features[..., :1].detach()) + hidden.mean(-1, keepdim=True)


class Reader(nn.Module):
    """Reads directions: where features are padding, and so zeros, a norm's gradient must not be NaN."""

    def __init__(self, width):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(WIDTH, width, bias=False), nn.LayerNorm(width), nn.Linear(width, zoo.VOCABULARY)

    def forward(self, features):
        return self.head(self.norm(torch.tanh(4 * nn.functional.normalize(self.first(features), dim=-1))))


class Attend(nn.Module):
    """Attention as one writes it by hand: what the mask puts at padded places is what the softmax reads."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, zoo.VOCABULARY)

    def forward(self, features, mask):
        scores = self.query(features) @ self.key(features).transpose(1, 2) / WIDTH**0.5
        weights = scores.masked_fill((mask == 0)[:, None, :], -1e9).softmax(-1)
        return self.head(weights @ self.value(features))


def cases():
    def case(name, build, fields, output):
        inputs = tuple(key for key in fields if key != "labels")
        return zoo.Case(name, "part", build, fields, inputs, (output,), None, source="../parity/chains.py")

    every = (case("chain_encoder", Encoder, {"input_ids": zoo.IDS}, "features"),
             case("chain_middle", Middle, {"features": FEATURES}, "refined"),
             case("chain_teacher", lambda: Reader(96), {"features": FEATURES}, "logits"),
             case("chain_attend", Attend, {"features": FEATURES, "mask": zoo.MASK, "labels": zoo.LABELS}, "logits"),
             case("chain_student", lambda: Reader(64), {"features": FEATURES, "labels": zoo.LABELS}, "logits"))
    return {case.name: case for case in every}
