"""PyTorch as people write it themselves."""

from __future__ import annotations

from torch import nn

from zoo import CLASS, Convnet, Mlp

from .network import Network, first_of, floats, images


def networks():
    yield Network("mlp", "plain", Mlp, {"features": floats(12), "labels": CLASS}, first_of, quick=True)
    yield Network("convnet", "plain", Convnet, images(), first_of)
