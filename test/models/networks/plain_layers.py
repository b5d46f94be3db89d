"""A loss of torch.nn.functional, or a kind of layer over images, at a time."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo import CLASS, Field

from .network import Network, first_of, floats, images

WIDTH = 32


class Loss(nn.Module):
    """A small network with a loss of torch.nn.functional inside."""

    def __init__(self, loss, width=10, last=None):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, WIDTH), nn.Tanh(), nn.Linear(WIDTH, width))
        self.loss, self.last = loss, last

    def forward(self, **inputs):
        features, *rest = inputs.values()
        value = self.net(features)
        return self.loss(self.last(value) if self.last else value, *rest)


class Features(nn.Module):
    """One function of images, and a head."""

    def __init__(self, *layers):
        super().__init__()
        self.layers, self.head = nn.Sequential(*layers), nn.LazyLinear(10)
        with torch.no_grad():
            self(torch.zeros(1, 3, 16, 16))

    def forward(self, pixel_values):
        return self.head(self.layers(pixel_values).flatten(1))


def regression(shape, loss, width=6, kind="normal", last=None):
    return {"features": floats(12), "target": Field(("batch", *shape), kind)}, lambda: Loss(
        loss, width, last
    )


def losses():
    """name: (fields, build)"""
    f = functional
    yield "smooth_l1", *regression((6,), f.smooth_l1_loss)
    yield "huber", *regression((6,), f.huber_loss)
    yield "l1", *regression((6,), f.l1_loss)
    yield "bce_logits", *regression((10,), f.binary_cross_entropy_with_logits, 10, "mask01")
    yield "bce", *regression((10,), f.binary_cross_entropy, 10, "mask01", torch.sigmoid)
    yield "poisson", *regression(
        (6,), lambda value, target: f.poisson_nll_loss(value, target.abs())
    )
    yield "gaussian", *regression(
        (6,), lambda value, target: f.gaussian_nll_loss(value, target, torch.ones_like(value))
    )
    yield "soft_labels", *regression(
        (10,), lambda value, target: f.cross_entropy(value, target.softmax(-1)), 10
    )
    yield "kl", *regression(
        (10,),
        lambda value, target: f.kl_div(
            value.log_softmax(-1), target.softmax(-1), reduction="batchmean"
        ),
        10,
    )
    yield "cosine", *regression(
        (6,), lambda value, target: (1 - f.cosine_similarity(value, target)).mean()
    )
    yield "hinge", *regression(
        (6,), lambda value, target: (1 - value * torch.sign(target)).clamp(min=0).mean()
    )
    classes = {"features": floats(12), "labels": CLASS}
    yield "label_smoothing", classes, lambda: Loss(
        lambda value, labels: f.cross_entropy(value, labels, label_smoothing=0.1)
    )
    yield "nll", classes, lambda: Loss(
        lambda value, labels: f.nll_loss(value.log_softmax(-1), labels)
    )
    yield "focal", classes, lambda: Loss(focal)
    yield "margin", classes, lambda: Loss(f.multi_margin_loss)


def focal(value, labels):
    entropy = functional.cross_entropy(value, labels, reduction="none")
    return ((1 - torch.exp(-entropy)) ** 2 * entropy).mean()


def image_features():
    """name: layers over an image of 16 × 16"""
    c = nn.Conv2d
    yield "transposed", lambda: [
        c(3, 8, 3, stride=2),
        nn.ELU(),
        nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1),
    ]
    yield "dilated", lambda: [
        c(3, 8, 3, dilation=2),
        nn.Mish(),
        c(8, 4, 3, groups=4),
        nn.Hardswish(),
    ]
    yield "average_pool", lambda: [
        c(3, 8, 3),
        nn.SELU(),
        nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
    ]
    yield "lp_pool", lambda: [c(3, 8, 3), nn.Softplus(), nn.LPPool2d(2, 2)]
    yield "max_pool_padded", lambda: [
        c(3, 8, 3),
        nn.CELU(),
        nn.MaxPool2d(3, 2, padding=1, ceil_mode=True),
    ]
    yield "adaptive_max", lambda: [c(3, 8, 3), nn.Hardtanh(), nn.AdaptiveMaxPool2d(2)]
    yield "instance_norm", lambda: [
        c(3, 8, 3, padding_mode="circular", padding=1),
        nn.InstanceNorm2d(8, affine=True),
        nn.ReLU6(),
    ]
    yield "local_response", lambda: [c(3, 8, 3), nn.LocalResponseNorm(3), nn.LeakyReLU(0.1)]
    yield "pixel_shuffle", lambda: [
        c(3, 16, 3, padding=1),
        nn.PixelShuffle(2),
        nn.Hardsigmoid(),
        nn.PixelUnshuffle(4),
    ]
    yield "channel_shuffle", lambda: [
        c(3, 8, 1),
        nn.ChannelShuffle(4),
        nn.Softsign(),
        c(8, 4, 3, groups=2),
    ]
    yield "upsampled", lambda: [
        c(3, 4, 3, stride=2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Tanhshrink(),
    ]
    yield "reflected", lambda: [
        nn.ReflectionPad2d(1),
        c(3, 4, 3),
        nn.PReLU(4),
        nn.ZeroPad2d(1),
        nn.LogSigmoid(),
    ]
    yield "unfolded", lambda: [
        nn.Unfold(4, stride=4),
        nn.Conv1d(48, 8, 1),
        nn.GELU(approximate="tanh"),
    ]
    yield "batch_norm", lambda: [
        c(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        c(8, 8, 3),
        nn.BatchNorm2d(8, affine=False),
        nn.SiLU(),
    ]
    yield "weight_norm", lambda: [nn.utils.parametrizations.weight_norm(c(3, 8, 3)), nn.Softmax2d()]
    yield "volume", lambda: [
        nn.Unflatten(1, (1, 3)),
        nn.Conv3d(1, 4, (3, 3, 3)),
        nn.ReLU(),
        nn.MaxPool3d((1, 2, 2)),
    ]


def networks():
    for name, fields, build in losses():
        yield Network(
            f"loss_{name}",
            "plain",
            build,
            fields,
            lambda module, **inputs: module(**inputs),
            scalar=True,
        )
    for name, layers in image_features():
        yield Network(
            f"layers_{name}",
            "plain",
            lambda layers=layers: Features(*layers()),
            images(16),
            first_of,
        )
