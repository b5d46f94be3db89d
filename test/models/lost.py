"""Networks of which an exported file says less than PyTorch means: what the exporter drops (label_smoothing, padding_idx), what its
optimizer takes out (detach(), one of two equal norms, a gate of 1.0, a guard of 1e-9), what it rounds, and what operators do at their edges.

`REFUSED` says what planning must say where the default export (optimize=True) leaves too little."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo import CLASS, IDS, LABELS, VOCABULARY, WIDTH, Case, Field, cross_entropy, own_loss


class TwiceAdded(nn.Module):
    """Two parameters of one gradient, a sum over the batch that is reshaped."""

    def __init__(self):
        super().__init__()
        self.p, self.q, self.head = nn.Parameter(torch.zeros(1, 3, 4)), nn.Parameter(torch.zeros(1, 3, 4)), nn.Linear(12, 10)

    def forward(self, features):
        return self.head(torch.tanh(features.view(-1, 3, 4) + self.p + self.q).flatten(1))


class OnePixel(nn.Module):
    """The same in a ResNet's last stage: two BatchNorms added over a picture of one pixel. A default export folds them."""

    def __init__(self):
        super().__init__()
        self.left, self.left_norm = nn.Conv2d(12, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.right, self.right_norm = nn.Conv2d(12, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, features):
        hidden = features[:, :, None, None]
        hidden = self.left_norm(self.left(hidden)) + self.right_norm(self.right(hidden))
        return self.head(torch.relu(hidden).mean((2, 3)))


class Detached(nn.Module):
    """A gate that learns nothing, the same value twice, rounding that gradients pass, a layer that reads what was detached."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 10)

    def forward(self, features):
        hidden = self.first(features)
        hidden = hidden * torch.sigmoid(hidden.detach()) + 0.1 * hidden * hidden.detach()
        hidden = hidden + (torch.round(4 * hidden) / 4 - hidden).detach()
        aside = self.second(hidden.detach().unsqueeze(1)).squeeze(1)
        return self.head(torch.tanh(hidden + aside))


class DetachedCopy(nn.Module):
    """Nothing in a default export says that clone() copied what was detached, but the line of code."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        hidden = self.first(features)
        gate = torch.sigmoid(hidden.detach().clone())
        return self.head(hidden * gate)


class NoGrad(nn.Module):
    """A block without gradients: what a file says of it, it says of torch.autocast(), too."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        hidden = self.first(features)
        with torch.no_grad():
            gate = torch.sigmoid(2 * hidden)
        return self.head(hidden * gate)


class PassesThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class CustomFunction(nn.Module):
    """A straight-through estimator as a function of its own, whose backward no file has."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        return self.head(torch.tanh(PassesThrough.apply(4 * self.first(features)) / 4))


class NoGradAside(NoGrad):
    """A block that no gradient reaches, as Hugging Face's rotary positions are computed in."""

    def forward(self, features):
        with torch.no_grad():
            gate = torch.sigmoid(2 * features.mean(-1, keepdim=True))
        return self.head(torch.tanh(self.first(features) * gate))


class DetachedSplit(nn.Module):
    """A default export is byte for byte that of a split without detach(): planning can only say that it might be there."""

    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = nn.Linear(12, 16), nn.Linear(8, 10), nn.Linear(8, 10)

    def forward(self, features):
        hidden = self.first(features)
        left, right = hidden.detach().split([8, 8], -1)
        return self.left(left) * self.right(right) + self.left(hidden[:, :8])


class ParallelNorms(nn.Module):
    """GPT-NeoX's parallel residual: two norms of one input, which are equal while they are new."""

    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(12), nn.LayerNorm(12)
        self.attention, self.mlp, self.head = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 10)

    def forward(self, features):
        mixed = torch.tanh(self.attention(self.attention_norm(features))) + torch.relu(self.mlp(self.mlp_norm(features)))
        return self.head(features + mixed)


class Gated(nn.Module):
    """A gate that starts at 1.0."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.tensor(1.0))
        self.first, self.head = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        return self.head(torch.tanh(self.gate * self.first(features)))


class CrossAttention(nn.Module):
    """Two attentions with equal biases, of which a default export keeps the first. The second one's call splits its own, and the
    optimizer makes that Split anew, without a text."""

    def __init__(self):
        super().__init__()
        self.own, self.cross = (nn.MultiheadAttention(12, 2, batch_first=True) for _ in range(2))
        self.head = nn.Linear(12, 10)

    def forward(self, features):
        hidden, memory = (features[:, None] * torch.linspace(-1, 1, length)[:, None] for length in (3, 5))
        hidden = hidden + self.own(hidden, hidden, hidden, need_weights=False)[0]
        hidden = hidden + self.cross(hidden, memory, memory, need_weights=False)[0]
        return self.head(hidden.mean(1))


class Guarded(nn.Module):
    """Linear attention's denominator, 0 where nothing is positive. The exporter's optimizer takes 1e-9 for 0."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        hidden = torch.relu(self.first(features))
        kept = torch.relu(features[:, :1] - 0.5)  # 0 for most samples.
        return self.head(hidden * kept / (kept.unsqueeze(-1) + 1e-9).squeeze(-1))


class Patches(nn.Module):
    """XCiT's first layers, behind which PyTorch's gradients of a batch of one are wrong."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.places = nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.Parameter(torch.randn(1, 4, 8))
        self.mix, self.head = nn.Linear(8, 8), nn.Linear(8, 10)

    def forward(self, features):
        hidden = self.norm(self.conv(features.view(-1, 3, 2, 2))).flatten(2).transpose(1, 2) + self.places
        return self.head(torch.tanh(self.mix(hidden)).amax(1))


class TwoDropouts(nn.Module):
    """Two masks of one input."""

    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = nn.Linear(12, 16), nn.Linear(16, 10), nn.Linear(16, 10)

    def forward(self, features):
        hidden = torch.tanh(self.first(features))
        return self.left(functional.dropout(hidden, 0.5, True)) + self.right(functional.dropout(hidden, 0.5, True))


class Smoothed(nn.Module):
    """Label smoothing, with class weights and without."""

    def __init__(self, weighted):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("balance", torch.linspace(0.5, 2.0, VOCABULARY) if weighted else None)

    def forward(self, input_ids, labels):
        logits = self.head(torch.tanh(self.embed(input_ids)))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=self.balance, label_smoothing=0.1)


class Padded(nn.Module):
    """A row that passes no gradient where it is looked up, and has one where the head reads it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=5)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids):
        return self.head(torch.tanh(self.embed(torch.where(input_ids % 3 == 0, 5, input_ids))))


class DetachedHead(nn.Module):
    """In two stages the second holds a parameter, and computes nothing of its gradient."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        for block in self.blocks:
            hidden = hidden + torch.tanh(block(hidden))
        return functional.linear(hidden, self.embed.weight.detach())


class Edges(nn.Module):
    """Values on the bounds of what clamps them, and ties."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(12))
        self.register_buffer("bound", torch.zeros(12))
        self.head = nn.Linear(12 * 14 + 2, 10)

    def forward(self, features):
        hidden = features * self.shift
        x = torch.round(3 * features) + (hidden - hidden.detach())
        parts = [x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=1), torch.clamp_min(x, -1.0), functional.relu6(x), functional.hardtanh(x),
                 functional.hardswish(x), functional.hardsigmoid(x), torch.maximum(x, self.bound), torch.minimum(x, self.bound),
                 torch.clamp(x, min=self.bound), functional.elu(x), functional.selu(x), functional.celu(x, 2.0)]
        extremes = [x.amax(-1, keepdim=True), x.max(-1, keepdim=True).values]
        return self.head(torch.cat(parts + extremes, -1))


class Scaled(nn.Module):
    """Numbers that 16 bits round: an attention's scale, given and not."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, VOCABULARY)

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        q, k = 20 * self.query(hidden)[:, None], 20 * self.key(hidden)[:, None]
        given = functional.scaled_dot_product_attention(q, k, hidden[:, None], scale=8**-0.5, is_causal=True)[:, 0]
        usual = functional.scaled_dot_product_attention(k, q, hidden[:, None], is_causal=True)[:, 0]
        return self.head(given + usual)


class Factored(nn.Module):
    """The same, of which a default export keeps no exact number: it is said so."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, features):
        return self.head(torch.tanh(0.3 * self.first(features.to(self.first.weight.dtype)) / 0.7))


REFUSED = {
    "one_pixel": ("left.weight", "optimize=False"),
    "detached_copy": ("detach()", "optimize=False"),
    "no_grad": ("no_grad()", "maestro.export"),
    "custom_function": ("PassesThrough.apply()", "plain PyTorch"),
    "parallel_norms": ("mlp_norm", "optimize=False"),
    "detached_head": ("embed.weight", "optimize=False"),
    "gated": ("'gate'", "optimize=False"),
    "cross_attention": ("cross.in_proj_bias", "optimize=False"),
    "guarded": ("'add'", "optimize=False"),
    "patches": ("conv.weight", "optimize=False"),
    "two_dropouts": ("random", "optimize=False"),
}
PLAIN_TOO = {"no_grad", "custom_function"}  # Of REFUSED, as exports with optimize=False, too.
LAYOUTS = {"detached_head": ("--set", "cluster.devices_per_node=2", "--pin", "*.stages=2")}
HALF = {"scaled", "factored"}
SAID = {"factored": ("2 numbers", "rounded"), "detached_split": ("detach()", "optimize=False")}  # Of a default export.


def cases() -> dict:
    features = {"features": Field(("batch", 12), "normal"), "labels": CLASS}
    text = {"input_ids": IDS, "labels": LABELS}

    def case(name, build, fields=features, inputs=("features",), outputs=("logits",), loss=cross_entropy, **more):
        return Case(name, "exports", build, fields, inputs, outputs, loss, source="lost.py", **more)

    every = [case("twice_added", TwiceAdded), case("one_pixel", OnePixel), case("detached", Detached), case("detached_copy", DetachedCopy),
             case("detached_split", DetachedSplit), case("no_grad", NoGrad), case("no_grad_aside", NoGradAside),
             case("custom_function", CustomFunction),
             case("parallel_norms", ParallelNorms), case("gated", Gated),
             case("cross_attention", CrossAttention), case("guarded", Guarded), case("patches", Patches), case("two_dropouts", TwoDropouts, train_mode=True),
             case("smoothed", lambda: Smoothed(False), text, ("input_ids", "labels"), ("loss",), own_loss),
             case("smoothed_weights", lambda: Smoothed(True), text, ("input_ids", "labels"), ("loss",), own_loss),
             case("padded", Padded, text, ("input_ids",)), case("edges", Edges),
             case("detached_head", DetachedHead, text, ("input_ids",)),
             case("scaled", Scaled, text, ("input_ids",)), case("factored", Factored)]
    return {case.name: case for case in every}
