"""Each sample means what it means alone, whatever shares its micro-batch: networks that see padding, floors under counts, rows
of which nothing is attended, places in the batch.

    python test/parity/alone.py [--only WORD] [--binaries build/release/bin]

Expected are the loss and the gradients of PyTorch in float64, one sample at a time without padding. Each case is exported with
the optimizer and without, and runs in micro-batches of 1, 3 and all samples; or planning refuses it and names what it must.
"""

from __future__ import annotations

import argparse
import copy
import gc
import logging
import os
import pathlib
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from typing import Callable

import numpy
import torch
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "models")]
import shards  # noqa: E402
import tolerances  # noqa: E402
import tools  # noqa: E402

LENGTHS = [3, 5, 5, 7, 3, 5, 2, 5]
WIDTH, CLASSES = 6, 5


@dataclass
class Case:
    name: str
    forward: Callable  # (network, one batch's fields …) -> logits, or the loss where `scalar`
    fields: tuple  # names of the inputs; "labels" is one only where `scalar`
    scalar: bool = False
    sums: Callable = None  # (network, samples) -> loss of the whole batch, where it is not the mean cross-entropy
    workload: str = ""
    refused: tuple = ()  # planning refuses it with one of these words
    draw: dict = field(default_factory=dict)  # field -> (random, length, index) -> array, beside the usual ones


class Network(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.embed, self.query = nn.Linear(WIDTH, 8), nn.Linear(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.table = nn.Parameter(torch.randn(16, 8))
        self.head = nn.Linear(8, CLASSES)
        self.calls = forward

    def forward(self, *fields):
        return self.calls(self, *fields)


def hidden(network, x):
    return torch.tanh(network.embed(x))


def attended(network, x, mask=None):
    h = hidden(network, x)
    return functional.scaled_dot_product_attention(network.query(h)[:, None], h[:, None], h[:, None], attn_mask=mask)[:, 0]


def pooled(pool):
    return lambda network, x: network.head(pool(network, hidden(network, x)))


def each_loss(network, x, labels):
    logits = network.head(hidden(network, x))
    return functional.cross_entropy(logits.transpose(1, 2), labels.clamp(min=0), reduction="none")


def counted_by_sign(network, x, labels):
    counted = (labels >= 0).float()
    return (each_loss(network, x, labels) * counted).sum() / counted.sum()


def with_floor(network, x, labels, weights):
    return (each_loss(network, x, labels) * weights).sum() / weights.sum().clamp(min=1)


def multihead(network, x, ignore):
    h = hidden(network, x)
    return network.head(h + network.attention(h, h, h, key_padding_mask=ignore, need_weights=False)[0])


def by_number(network, x, ignore):
    """A mask of the network's own: where all is ignored, the mean of a sample's own positions."""
    h = hidden(network, x)
    scores = (network.query(h) @ h.transpose(1, 2)).masked_fill(ignore[:, None, :], -1e9)
    return network.head(h + torch.softmax(scores, -1) @ h)


def sums_of(parts, divide):
    """The loss of a batch from each sample's parts, which add up."""

    def loss(network, samples):
        totals = [sum(column) for column in zip(*(parts(network, *sample) for sample in samples))]
        return divide(*totals)

    return loss


def ignored(random, length, index):
    return numpy.ones(length, bool) if index in (1, 4) else random.random(length) < 0.3


PER_POSITION = {"labels": lambda random, length, index: random.integers(0, CLASSES, length)}
MASKED = PER_POSITION | {"ignore": ignored}
IGNORES = "inputs: {labels: {dtype: int64, shape: [batch, seq], pad: -100}, ignore: {dtype: bool, shape: [batch, seq], pad: 1}}\n"

CASES = [
    Case("mean", pooled(lambda n, h: h.mean(1)), ("x",)),
    Case("last", pooled(lambda n, h: h[:, -1]), ("x",)),
    Case("largest", pooled(lambda n, h: h.amax(1)), ("x",)),
    Case("turned", pooled(lambda n, h: h.flip(1)[:, 0]), ("x",)),
    Case("softmax", pooled(lambda n, h: (h * torch.softmax(h, 1)).sum(1)), ("x",)),
    Case("ahead", pooled(lambda n, h: n.conv(h.transpose(1, 2))[..., 0]), ("x",)),
    Case("counted", pooled(lambda n, h: h.sum(1) / h.shape[1] ** 0.5), ("x",)),
    Case("unmasked", lambda n, x: n.head(attended(n, x)), ("x",), draw=PER_POSITION,
         workload="inputs: {labels: {dtype: int64, shape: [batch, seq], pad: -100}}\n"),
    Case("nothing_attended", lambda n, x, ignore: n.head(hidden(n, x) + attended(n, x, ~ignore[:, None, None, :])), ("x", "ignore"),
         draw=MASKED, workload=IGNORES),
    Case("nothing_attended_by_number", by_number, ("x", "ignore"), draw=MASKED, workload=IGNORES),
    Case("nothing_attended_multihead", multihead, ("x", "ignore"), draw=MASKED, workload=IGNORES),
    Case("counted_by_sign", counted_by_sign, ("x", "labels"), scalar=True,
         draw={"labels": lambda random, length, index: random.integers(-1, CLASSES, length)},
         sums=sums_of(lambda n, x, labels: ((each_loss(n, x, labels) * (labels >= 0)).sum(), (labels >= 0).sum()), lambda a, b: a / b)),
    Case("fractional_weights", with_floor, ("x", "labels", "weights"), scalar=True,
         draw=PER_POSITION | {"weights": lambda random, length, index: (random.random(length) * 0.02).astype("f4")},
         sums=sums_of(lambda n, x, labels, weights: ((each_loss(n, x, labels) * weights).sum(), weights.sum()),
                      lambda a, b: a / b.clamp(min=1))),
    Case("place_in_batch", lambda n, x: n.head(hidden(n, x).sum(1) * 0 + n.table[torch.arange(x.shape[0])]), ("x",),
         refused=("by the numbers of batch rows", "optimize=False")),  # What the optimizer made of the table is refused before.
]


def draw_samples(case) -> list:
    random = numpy.random.default_rng(1)
    samples = []
    for index, length in enumerate(LENGTHS):
        sample = {"x": random.standard_normal((length, WIDTH)).astype("f4")}
        for name in dict.fromkeys([*case.fields, "labels"]):
            if name in case.draw:
                sample[name] = case.draw[name](random, length, index)
        sample.setdefault("labels", numpy.array(random.integers(0, CLASSES)))
        samples.append(sample)
    return samples


def expected(case, network, samples) -> tuple:
    network = copy.deepcopy(network).double()

    def tensor(value):
        made = torch.as_tensor(value)[None]
        return made.double() if made.is_floating_point() else made

    if case.sums:
        loss = case.sums(network, [[tensor(sample[name]) for name in case.fields] for sample in samples])
    else:
        logits = [network(*(tensor(sample[name]) for name in case.fields))[0].reshape(-1, CLASSES) for sample in samples]
        labels = [torch.as_tensor(sample["labels"]).reshape(-1) for sample in samples]
        loss = functional.cross_entropy(torch.cat(logits), torch.cat(labels))
    loss.backward()
    return float(loss), {name: p.grad.numpy() for name, p in network.named_parameters() if p.grad is not None}


def export(case, network, samples, folder, optimize) -> None:
    longest = max(LENGTHS)
    example = []
    for name in case.fields:
        value = numpy.asarray(next(s[name] for s in samples if len(s["x"]) == longest))
        example.append(torch.as_tensor(numpy.stack([value, value, value])))
    dims = {0: torch.export.Dim("batch")} | ({1: torch.export.Dim("seq")})
    torch.onnx.export(network, tuple(example), str(folder / "model.onnx"), input_names=list(case.fields),
                      output_names=["loss" if case.scalar else "logits"], dynamic_shapes=((dims,) * len(case.fields),),
                      opset_version=20, dynamo=True, optimize=optimize, verbose=False)
    loss = "output: model.loss" if case.scalar else "cross_entropy: {logits: model.logits, labels: labels}"
    (folder / "workload.yaml").write_text(
        "components: {model: {model: model.onnx}}\n" + case.workload + f"dims: {{batch: {{combine: sum}}, seq: {{combine: max, max: {longest}}}}}\n"
        f"loss: [{{{loss}}}]\ntrain: {{global_batch: {len(samples)}, optimizer: {{sgd: {{lr: 0.1}}}}}}\n")


def differences(folder, loss, gradients) -> list:
    wrong = []
    found = tools.metrics(folder)[0]["loss"]
    if not abs(found - loss) <= tolerances.LOSS * abs(loss):
        wrong.append(f"loss {found}, PyTorch {loss}")
    tensors, _ = tools.safetensors(folder / "gradients.safetensors")
    norm = numpy.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    for name, gradient in gradients.items():
        own = tensors.get(f"model.{name}", numpy.zeros_like(gradient))
        off, allowed = float(numpy.abs(own - gradient).max()), tolerances.gradient(float(numpy.abs(gradient).max()), norm)
        if not off <= allowed:
            wrong.append(f"{name} off by {off:.3g}, allowed {allowed:.3g}")
    return wrong


def judge(case, bench, optimize) -> list:
    torch.manual_seed(3)
    network = Network(case.forward)
    samples = draw_samples(case)
    loss, gradients = expected(case, network, samples)
    for part in ("embed", "query", "attention", "conv", "table", "head"):
        if not any(name.startswith(part) for name in gradients):  # Unread: a default export may have lost its reader, and is refused.
            delattr(network, part)
    folder = bench.scratch / case.name / ("optimized" if optimize else "plain")
    folder.mkdir(parents=True)
    export(case, network, samples, folder, optimize)
    data = shards.write_shards(samples, folder / "data")
    wrong = []
    for size in (1, 3, len(samples)):
        plan = folder / f"{size}.mpl"
        done = bench.command("maestro-plan", folder / "workload.yaml", "-o", plan, "--pin", f"*.micro_batch={size}")
        if case.refused or done.returncode != 0:
            if done.returncode != 1 or not any(words in done.stderr for words in case.refused):
                wrong.append(f"micro-batch {size}: status {done.returncode}: {done.stderr.strip()[-300:]}")
            continue
        bench.succeed("maestro-run", plan, "--data", data, "--out", folder / str(size), "--steps", 1, "--save-gradients",
                      "--self-check")
        wrong += [f"micro-batch {size}: {each}" for each in differences(folder / str(size), loss, gradients)]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    gc.set_threshold(200_000)  # As in test/models/export.py.
    failures = 0
    with tempfile.TemporaryDirectory(prefix="maestro-alone-") as scratch:
        bench = tools.Bench(arguments.binaries, scratch)
        for case in CASES:
            for optimize in (False, True):
                if arguments.only not in case.name:
                    continue
                wrong = judge(case, bench, optimize)
                failures += bool(wrong)
                print(f"{'FAIL' if wrong else 'ok'} {case.name}, {'default' if optimize else 'plain'} export", flush=True)
                for each in wrong:
                    print(f"     {each}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
