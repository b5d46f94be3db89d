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
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, features):
        return features + self.down(torch.relu(self.up(features)))


class Reader(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(WIDTH, width), nn.LayerNorm(width), nn.Linear(width, zoo.VOCABULARY)

    def forward(self, features):
        return self.head(self.norm(torch.tanh(self.first(features))))


def cases():
    def case(name, build, fields, output):
        inputs = tuple(key for key in fields if key != "labels")
        return zoo.Case(name, "part", build, fields, inputs, (output,), None, source="../parity/chains.py")

    every = (case("chain_encoder", Encoder, {"input_ids": zoo.IDS}, "features"),
             case("chain_middle", Middle, {"features": FEATURES}, "refined"),
             case("chain_teacher", lambda: Reader(96), {"features": FEATURES}, "logits"),
             case("chain_student", lambda: Reader(64), {"features": FEATURES, "labels": zoo.LABELS}, "logits"))
    return {case.name: case for case in every}
