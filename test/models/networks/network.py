"""A network of the survey: how it is built and called, what it reads, and what its loss is.

A table is a file here with a function `networks()` that yields them. What a `call` returns is
either the logits, whose cross-entropy with the data field `labels` is the loss (it is named outside
the graph), or, with `scalar`, the loss itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

import torch
from torch import nn

from zoo import CLASS, IGNORE, Field

from .tiny import VOCABULARY

IDS = Field(("batch", "seq"), "ids", VOCABULARY)
MASK = Field(("batch", "seq"), "ones")
LABELS = Field(("batch", "seq"), "labels", VOCABULARY, IGNORE)
SOURCE = Field(("batch", "source"), "ids", VOCABULARY)
SOURCE_MASK = Field(("batch", "source"), "ones")
TARGET = Field(("batch", "target"), "ids", VOCABULARY)
TARGET_LABELS = Field(("batch", "target"), "labels", VOCABULARY, IGNORE)
TEXT = {"input_ids": IDS, "labels": LABELS}
MASKED_TEXT = {"input_ids": IDS, "attention_mask": MASK, "labels": LABELS}
LENGTHS = {"seq": (3, 12), "source": (3, 12), "target": (3, 10), "time": (40, 90)}


def floats(*dims):
    return Field(("batch", *dims), "normal")


def ids(*dims, high=VOCABULARY):
    return Field(("batch", *dims), "ids", high)


def pixels(size=32, channels=3):
    return floats(channels, size, size)


def images(size=32, channels=3, name="pixel_values"):
    """An image and its class."""
    return {name: pixels(size, channels), "labels": CLASS}


@dataclass(frozen=True)
class Network:
    name: str
    library: str
    build: Callable[[], nn.Module]
    fields: dict  # data fields by name; all but outside labels are inputs
    call: Callable  # (module, **inputs)
    scalar: bool = False
    counted: Callable = (
        lambda sample: 1
    )  # how much a sample's own loss weighs in that of a batch, where it is a scalar
    lengths: dict = field(default_factory=dict)  # named dims: shortest and longest, besides LENGTHS
    pads: dict = field(default_factory=dict)  # what the workload says that a field is padded with
    quick: bool = False  # judged by every `./dev test`

    @property
    def inputs(self) -> tuple:
        return tuple(name for name in self.fields if self.scalar or name != "labels")

    @property
    def output(self) -> str:
        return "loss" if self.scalar else "logits"


class Called(nn.Module):
    """A network as it is exported: `call`'s arguments are the inputs, by name."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network.build()
        self.call = network.call

    def forward(self, **inputs):
        return self.call(self.network, **inputs)


def squares(value: torch.Tensor) -> torch.Tensor:
    """A loss for networks that give features: the mean of their squares."""
    return value.float().pow(2).mean()


def logits_of(module, **inputs):
    return module(**inputs).logits


def first_of(module, **inputs):
    return module(*inputs.values())
