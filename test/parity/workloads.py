"""Workload files against PyTorch: named losses, optimizers and schedules, frozen parts, a teacher and a student.

Each entry is a case of the zoo with a workload.yaml and what the same words mean in PyTorch.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import unittest.mock

import numpy
import torch
from torch.nn import functional

import export
import shards
import stages
import tolerances
import zoo
from reference import Reference
from tools import different_files, losses, metrics, safetensors

STEPS = 50


def warmup_then_decay(lr, warmup, total, min_lr, shape, last=0):
    """The learning rate of step s = 1, 2, …"""

    def at(step):
        if step <= warmup:
            return lr * step / warmup
        begin = total - last if last else warmup
        done = min(1.0, max(0.0, (step - begin) / (total - begin)))
        if shape == "cosine":
            return min_lr + (lr - min_lr) * 0.5 * (1 + math.cos(math.pi * done))
        return lr + (min_lr - lr) * done if shape == "linear" else lr

    return at


def split_decay(named, patterns, decay):
    """no_decay as AdamW's parameter groups."""
    named = list(named)
    free = [p for name, p in named if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    kept = [p for name, p in named if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    return [{"params": kept, "weight_decay": decay}, {"params": free, "weight_decay": 0.0}]


class Several:
    """Optimizers side by side, which one schedule moves in proportion."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers
        self.param_groups = [group for optimizer in optimizers for group in optimizer.param_groups]

    def zero_grad(self, **words):
        for optimizer in self.optimizers:
            optimizer.zero_grad(**words)

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def by_groups(named):
    """What "groups" below says."""
    named = list(named)
    weights = [p for name, p in named if name.startswith("first.") and name.endswith("weight")]
    biases = [p for name, p in named if name.startswith("first.") and not name.endswith("weight")]
    others = [p for name, p in named if not name.startswith("first.")]
    return Several(torch.optim.SGD(biases, lr=0.02, momentum=0.9), torch.optim.AdamW(weights, lr=4e-4, betas=(0.8, 0.95), weight_decay=0.1),
                   torch.optim.AdamW(others, lr=2e-3))


class MatricesByMuon(Several):
    """What "muon" below says: matrices by Muon, the rest by AdamW, and the averages of all. PyTorch's Muon multiplies in bf16, of which
    the small singular values of a matrix are noise; here it multiplies in f32, as maestro-run does."""

    def __init__(self, named):
        self.named = list(named)
        matrices = [p for name, p in self.named if p.dim() == 2 and name.endswith("weight")]
        others = [p for name, p in self.named if not (p.dim() == 2 and name.endswith("weight"))]
        super().__init__(torch.optim.Muon(matrices, lr=0.01, momentum=0.9, adjust_lr_fn="match_rms_adamw"), torch.optim.AdamW(others, lr=2e-3))
        self.averaged = [value.detach().clone() for value in values(self.named)]
        self.average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        self.steps = 0

    def step(self):
        with unittest.mock.patch.object(torch, "bfloat16", torch.float32):
            super().step()
        now = [value.detach() for value in values(self.named)]
        if self.steps == 0:
            self.averaged = [value.clone() for value in now]
        else:
            self.average(self.averaged, now, self.steps)
        self.steps += 1

    def averages(self):
        return {name: value.numpy() for (name, _), value in zip(self.named, self.averaged, strict=True)}


def values(named):
    return [parameter for _, parameter in named]


def frozen(named, pattern):
    named = list(named)
    for name, parameter in named:
        parameter.requires_grad_(not fnmatch.fnmatchcase(name, pattern))
    return [parameter for _, parameter in named if parameter.requires_grad]


COMPONENT = "components: {{{name}: {{model: {{model}}{extra}}}}}\ntrain: {{global_batch: 8{train}}}\n"

# name: (words after the model's path, words of train, optimizer in PyTorch, clip, schedule)
OPTIMIZERS = {
    "sgd": ("", ", optimizer: {sgd: {lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.01}}",
            lambda named: torch.optim.SGD(values(named), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
            0.0, None),
    "adam": ("", ", optimizer: {adam: {lr: 2e-3, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.02}}",
             lambda named: torch.optim.Adam(values(named), lr=2e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.02),
             0.0, None),
    "adamw_cosine": ("", ", optimizer: {adamw: {lr: 3e-3, betas: [0.9, 0.95], weight_decay: 0.1, "
                     "no_decay: [\"*.bias\", \"*norm*\"]}}, schedule: {warmup_steps: 10, decay: cosine, "
                     "total_steps: 40, min_lr: 3e-4}, clip_grad_norm: 0.5",
                     lambda named: torch.optim.AdamW(split_decay(named, ["*.bias", "*norm*"], 0.1), lr=3e-3,
                                                     betas=(0.9, 0.95)),
                     0.5, warmup_then_decay(3e-3, 10, 40, 3e-4, "cosine")),
    "wsd": ("", ", optimizer: {adamw: {lr: 2e-3}}, schedule: {warmup_steps: 5, decay: wsd, decay_steps: 15, total_steps: 45, min_lr: 1e-4}",
            lambda named: torch.optim.AdamW(values(named), lr=2e-3), 0.0, warmup_then_decay(2e-3, 5, 45, 1e-4, "linear", 15)),
    "groups": ("", ", optimizer: [{sgd: {parameters: [\"first.*bias\"], lr: 0.02, momentum: 0.9}}, {adamw: {parameters: [\"*/first.*\"], "
                   "lr: 4e-4, betas: [0.8, 0.95], weight_decay: 0.1}}, {adamw: {lr: 2e-3}}], schedule: {warmup_steps: 5, decay: linear, "
                   "total_steps: 50}",
               by_groups, 0.0, warmup_then_decay(2e-3, 5, 50, 0.0, "linear")),
    "muon": ("", ", ema: 0.9, optimizer: [{muon: {parameters: [\"first.weight\", \"second.weight\"], lr: 0.01, momentum: 0.9, adjust_lr: match_rms_adamw}}, "
                 "{adamw: {lr: 2e-3}}], schedule: {warmup_steps: 5, decay: linear, total_steps: 50}",
             MatricesByMuon, 0.0, warmup_then_decay(2e-3, 5, 50, 0.0, "linear")),
    "adafactor": ("", ", optimizer: {adafactor: {lr: 0.02, weight_decay: 0.01}}",
                  lambda named: torch.optim.Adafactor(values(named), lr=0.02, weight_decay=0.01), 0.0, None),
    "linear_frozen": (", frozen: [\"first.*\"]", ", optimizer: {adamw: {lr: 2e-3}}, schedule: {warmup_steps: 5, "
                      "decay: linear, total_steps: 50, min_lr: 1e-4}",
                      lambda named: torch.optim.AdamW(frozen(named, "first.*"), lr=2e-3),
                      0.0, warmup_then_decay(2e-3, 5, 50, 1e-4, "linear")),
}


def optimizer(judge, what, case, key):
    """50 steps under one optimizer and schedule; loss, lr and the last parameters."""
    extra, train, make, clip, schedule = OPTIMIZERS[key]
    case = dataclasses.replace(case, workload=COMPONENT.format(name=case.name, extra=extra, train=train))
    samples, data = stages.make_data(judge, case)
    source = stages.make_source(judge, case).rename(judge.bench.scratch / f"{key}.yaml")
    plan = judge.bench.plan(source, key, "--pin", "*.micro_batch=3")
    out = judge.bench.run(plan, data, key, "--steps", STEPS, "--save-gradients")
    reference = Reference(case, samples, 8, optimizer=make, clip=clip, schedule=schedule)
    expected = numpy.array(reference.train(STEPS))
    error = numpy.abs(losses(out) - expected) / expected
    judge.check(f"{what} losses", bool(error.max() <= tolerances.TRAINED_LOSS), f"largest {error.max():.2g} at step {error.argmax() + 1}")
    if schedule:
        rates = [line["lr"] for line in metrics(out)]
        wrong = [step + 1 for step, rate in enumerate(rates) if stages.relative(rate, schedule(step + 1)) > 1e-6]
        judge.check(f"{what} learning rates", not wrong, f"steps {wrong[:5]}: {rates[:3]}")
    found, _ = safetensors(stages.newest_checkpoint(out) / f"{case.name}.safetensors")
    trained = {name: value.detach().numpy() for name, value in reference.module.state_dict().items()}
    if key in ("groups", "muon", "adafactor"):  # Their state has other names.
        for steps in (STEPS // 2, STEPS):
            stopped = judge.bench.run(plan, data, f"{key}-stopped", "--steps", steps, "--resume=auto")
        judge.check(f"{what} resumed", not different_files(*(stages.newest_checkpoint(folder) for folder in (out, stopped))))
    if key == "muon":
        averaged, _ = safetensors(stages.newest_checkpoint(out) / f"{case.name}.ema.safetensors")
        far = {name: float(numpy.abs(averaged[name] - value).max()) for name, value in reference.optimizer.averages().items()}
        judge.check(f"{what} averages", set(far) == set(averaged) and max(far.values()) < 2e-3, f"{far}")
        moved = max(float(numpy.abs(averaged[name] - found[name]).max()) for name in far)
        judge.check(f"{what} averages differ from the last values", moved > 1e-4, f"{moved}")
    worst = {name: float(numpy.abs(found[name] - value).max()) for name, value in trained.items() if name in found}
    judge.check(f"{what} parameters", set(worst) == set(trained) and max(worst.values()) < 2e-3, f"{worst}")


# ---- losses -------------------------------------------------------------------------------------------------------


def named_loss(judge, what, case, words, loss):
    """Step 1 with a loss that workload.yaml names."""
    workload = COMPONENT.format(name=case.name, extra="", train="") + f"loss:\n{words.format(name=case.name)}"
    case = dataclasses.replace(case, workload=workload, loss=loss)
    for micro_batch in (1, 3):
        stages.first_step(judge, f"{what} micro-batch {micro_batch}", case, micro_batch)


def weighted_cross_entropy(outputs, batch):
    return 0.25 * zoo.cross_entropy(outputs, batch)


def smoothed_cross_entropy(outputs, batch):
    """With label smoothing, and 0.01 times the mean square of the logarithm of the softmax's denominator."""
    logits, labels = outputs["logits"].flatten(0, -2), batch["labels"].flatten()
    z = torch.logsumexp(logits[labels != zoo.IGNORE], -1).square().mean()
    return functional.cross_entropy(logits, labels, ignore_index=zoo.IGNORE, label_smoothing=0.1) + 0.01 * z


def kl(student, teacher, counted, temperature, top_k=0, direction="forward"):
    """interface.md's kl_divergence over the counted positions; over the teacher's `top_k` largest logits, where it is given."""
    if top_k:
        teacher, classes = teacher.topk(top_k, -1)
        student = student.gather(-1, classes)
    p = functional.log_softmax(teacher / temperature, -1)
    q = functional.log_softmax(student / temperature, -1)
    counted = counted.float()
    if direction == "jensen_shannon":
        middle = ((p.exp() + q.exp()) / 2).log()
        each = (p.exp() * (p - middle) + q.exp() * (q - middle)).sum(-1) / 2
    elif direction == "reverse":
        each = (q.exp() * (q - p)).sum(-1)
    else:
        each = (p.exp() * (p - q)).sum(-1)
    return temperature**2 * (each * counted).sum() / counted.sum()


DISTIL = """
components:
  teacher: {{model: {teacher}, frozen: true}}
  student: {{model: {student}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, temperature: 2.0, direction: {direction}, {counted}weight: 0.5}}
train: {{global_batch: 8}}
"""


def distillation(judge, what, teacher_case, student_case, variant="opset20", labels=True, direction="forward"):
    """A frozen teacher's logits against the student's, both of the same input_ids; over the positions with a label, or over
    all that a sample has (the mask of ones, padded with 0, is the reference's alone)."""
    student_case = dataclasses.replace(student_case, fields={**student_case.fields, "own": zoo.MASK})
    samples, data = stages.make_data(judge, student_case)
    variant_name = f"{variant}-{direction}" if labels else f"{variant}-all"
    path = judge.bench.scratch / f"distil-{variant_name}.yaml"
    path.write_text(DISTIL.format(teacher=export.export_variant(teacher_case, variant, judge.models),
                                  student=export.export_variant(student_case, "opset20", judge.models),
                                  direction=direction, counted="labels: labels, " if labels else ""))
    teacher = Reference(teacher_case, samples, 8, stored=stages.stored_dtype(variant))
    student = Reference(student_case, samples, 8)
    batch = student.batch(0)
    with torch.no_grad():
        teacher_logits = teacher.module(batch["input_ids"])
    logits = student.module(batch["input_ids"])
    counted = batch["labels"] != zoo.IGNORE if labels else batch["own"]
    parts = [zoo.cross_entropy({"logits": logits}, batch), kl(logits, teacher_logits, counted, 2.0, direction=direction)]
    (0.5 * parts[0] + 0.5 * parts[1]).backward()
    expected = {name: p.grad.numpy() for name, p in student.module.named_parameters()}
    for micro_batch in (3, 8):
        name = f"distil-{variant_name}-{micro_batch}"
        plan = judge.bench.plan(path, name, "--pin", f"*.micro_batch={micro_batch}")
        out = judge.bench.run(plan, data, name, "--steps", 1, "--save-gradients")
        label = f"{what} micro-batch {micro_batch}"
        line = metrics(out)[0]
        total = 0.5 * parts[0].item() + 0.5 * parts[1].item()
        judge.check(f"{label} loss", stages.relative(line["loss"], total) <= tolerances.LOSS, f"{line['loss']}, {total}")
        for name, part in zip(("cross_entropy", "kl_divergence"), parts):
            found = line["losses"].get(name, math.nan)
            judge.check(f"{label} {name}", stages.relative(found, part.item()) <= tolerances.LOSS, f"{found}, {part.item()}")
        stages.compare_gradients(judge, label, stages.read_gradients(out, "student"), expected, student.aliases())
        saved = sorted(p.name for p in stages.newest_checkpoint(out).iterdir())
        judge.check(f"{label} teacher not saved", "teacher.safetensors" not in saved, f"{saved}")


class TokenErrors(torch.nn.Module):
    """An output per position, whose masked mean is the loss."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(zoo.VOCABULARY, 32)
        self.head = torch.nn.Linear(32, 1)

    def forward(self, input_ids, target):
        return (self.head(torch.tanh(self.embed(input_ids))).squeeze(-1) - target) ** 2


def token_errors_case():
    fields = {"input_ids": zoo.IDS, "target": zoo.Field(("batch", "seq"), "normal"),
              "loss_mask": zoo.Field(("batch", "seq"), "mask01"), "own": zoo.MASK}
    return zoo.Case("token_errors", "workload", TokenErrors, fields, ("input_ids", "target"), ("errors",), masked_mean)


def masked_mean(outputs, batch):
    return (outputs["errors"] * batch["loss_mask"]).sum() / batch["loss_mask"].sum()


def mean_of_own(outputs, batch):
    """Over every position that a sample has."""
    return (outputs["errors"] * batch["own"]).sum() / batch["own"].sum()


class Embedded(torch.nn.Module):
    """An output of several features per position, compared with the data's."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(zoo.VOCABULARY, 16), torch.nn.Linear(16, 6)

    def forward(self, input_ids):
        return self.head(torch.tanh(self.embed(input_ids)))


def embedded_case(name, loss):
    fields = {"input_ids": zoo.IDS, "target": zoo.Field(("batch", "seq", 6), "normal"), "loss_mask": zoo.Field(("batch", "seq"), "mask01"),
              "own": zoo.MASK}
    return zoo.Case(name, "workload", Embedded, fields, ("input_ids",), ("features",), loss)


def over(mask, each, batch):
    return (each * batch[mask]).sum() / batch[mask].sum()


def masked_mse(outputs, batch):
    return over("loss_mask", ((outputs["features"] - batch["target"]) ** 2).mean(-1), batch)


def mse_of_all(outputs, batch):
    return functional.mse_loss(outputs["features"][batch["own"] != 0], batch["target"][batch["own"] != 0])


def masked_cosine(outputs, batch):
    return over("loss_mask", 1 - functional.cosine_similarity(outputs["features"], batch["target"], -1), batch)


def all_workloads(judge):
    cases = zoo.all_cases()
    judge.stage("workload label smoothing, z-loss", named_loss, cases["llama_logits"],
                "  - cross_entropy: {{logits: {name}.logits, labels: labels, label_smoothing: 0.1, z_loss: 0.01}}\n", smoothed_cross_entropy)
    for kind, mask, loss in (("mse", ", mask: loss_mask", masked_mse), ("mse", "", mse_of_all), ("cosine", ", mask: loss_mask", masked_cosine)):
        words = f"  - {kind}: {{{{value: {{name}}.features, target: target{mask}}}}}\n"
        name = f"{kind}_{'masked' if mask else 'all'}"
        judge.stage(f"workload {name}", named_loss, embedded_case(name, loss), words, loss)
    for direction in ("reverse", "jensen_shannon"):
        judge.stage(f"workload distillation, {direction}", distillation, cases["llama_logits"], cases["qwen3_logits"], direction=direction)
    for key in OPTIMIZERS:
        judge.stage(f"workload {key}", optimizer, cases["mlp_logits"], key)
    cross_entropy = "  - cross_entropy: {{logits: {name}.logits, labels: labels, ignore_index: -100, weight: 0.25}}\n"
    judge.stage("workload cross_entropy", named_loss, cases["llama_logits"], cross_entropy, weighted_cross_entropy)
    judge.stage("workload output", named_loss, cases["gpt2_loss"], "  - output: {name}.loss\n", zoo.own_loss)
    judge.stage("workload mean", named_loss, token_errors_case(),
                "  - mean: {{value: {name}.errors, mask: loss_mask, weight: 1.0}}\n", masked_mean)
    judge.stage("workload mean of all", named_loss, dataclasses.replace(token_errors_case(), name="token_errors_all"),
                "  - mean: {{value: {name}.errors}}\n", mean_of_own)
    judge.stage("workload distillation over all", distillation, cases["llama_logits"], cases["qwen3_logits"], labels=False)
    for variant in ("opset20", "bf16"):
        judge.stage(f"workload distillation, teacher {variant}", distillation, cases["llama_logits"], cases["qwen3_logits"],
                    variant)
