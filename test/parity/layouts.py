"""Compound workloads under many layouts: the sections' replicas, stages, micro-batches and devices change, the step does not.

A `Workload` names components of the zoo, what is frozen, and what its loss means in PyTorch; `Joined` is PyTorch's side, one
process and one piece. Each layout takes two steps of the data, whose second batch has no image and no clip: loss, gradients
and norm of the first, loss and norm of the second.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass, field

import numpy
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_model

import chains
import export
import shards
import stages
import tolerances
import zoo
from compound_parts import SILENT, SPEECH, VISION
from tools import different_files, evaluated, losses, metrics, newest_checkpoint, safetensors

GLOBAL_BATCH = stages.GLOBAL_BATCH
TRAINED_STEPS = 50


def every_case():
    return zoo.all_cases() | chains.cases()


@dataclass(frozen=True)
class Workload:
    """`producers`: (component, output port) feeding the component `model`; `links`: (component, component) where the first one's
    output is the second one's `features`; `teachers`: frozen components with the weight of
    their KL at temperature 2, beside the cross-entropy. `frozen` patterns are of <component>.<parameter>; `cuts`: modules of a
    component at which a section of its own begins. With `top_k` the teachers' largest logits alone count, and cross."""

    name: str
    model: str
    producers: tuple = ()
    links: tuple = ()
    teachers: dict = field(default_factory=dict)
    top_k: int = 0
    frozen: tuple = ()
    cuts: dict = field(default_factory=dict)
    rows: str = ""
    train: str = ""
    clip: float = 0.0
    layouts: dict = field(default_factory=dict)  # name: number of devices, pins
    trained: tuple = ()  # layouts that take 50 steps

    @property
    def components(self):
        names = [name for name, _ in self.producers] + [name for link in self.links for name in link]
        return list(dict.fromkeys(name for name in (*names, *self.teachers, self.model) if name != self.model)) + [self.model]

    def feeds(self):
        """(component, input of the next, the next component)."""
        return [(name, port, self.model) for name, port in self.producers] + [
            (first, "features", second) for first, second in self.links]

    def is_frozen(self, name):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*self.frozen, f"*.{SILENT}"))

    def fields(self):
        cases = every_case()
        ports = {port for _, port, _ in self.feeds()}
        every = {}
        for name in self.components:
            every |= {key: spec for key, spec in cases[name].fields.items() if key not in ports}
        return every

    def text(self, models):
        lines = ["components:"]
        for name in self.components:
            whole = f"{name}.*" in self.frozen or name in self.teachers
            parts = [pattern.split(".", 1)[1] for pattern in self.frozen if pattern.startswith(f"{name}.")]
            parts += [f"*.{SILENT}"] if name == "speech_encoder" else []
            extra = ", frozen: true" if whole else f", frozen: {json.dumps(parts)}" if parts else ""
            extra += f", cuts: {json.dumps(self.cuts[name])}" if name in self.cuts else ""
            file = export.export_variant(every_case()[name], "opset20", models)
            lines.append(f"  {name}: {{model: {file}{extra}}}")
        if self.feeds():
            lines += ["edges:", *(f"  - {name}.{every_case()[name].outputs[0]} -> {consumer}.{port}"
                                    for name, port, consumer in self.feeds())]
        if self.rows:
            lines.append(f"dims: {{batch: {{max: 1}}, seq: {{max: 64}}, {self.rows}}}")
        lines += ["loss:", f"  - cross_entropy: {{logits: {self.model}.logits, labels: labels, weight: {self.label_weight}}}"]
        lines += [f"  - kl_divergence: {{student: {self.model}.logits, teacher: {name}.logits, temperature: 2.0, "
                  f"labels: labels, weight: {weight}{f', top_k: {self.top_k}' if self.top_k else ''}}}"
                  for name, weight in self.teachers.items()]
        lines.append(f"train: {{global_batch: {GLOBAL_BATCH}{self.train}}}")
        return "\n".join(lines) + "\n"

    @property
    def label_weight(self):
        return 1.0 - sum(self.teachers.values())


class Joined:
    """The modules in one process; a section without rows in a step has gradient 0 there, and its optimizer steps."""

    def __init__(self, workload, samples):
        self.workload, self.samples = workload, samples
        cases = every_case()
        self.modules = {name: export.build_module(cases[name]).float() for name in workload.components}
        for name, module in self.modules.items():
            for key, parameter in module.named_parameters():
                parameter.requires_grad_(name not in workload.teachers and not workload.is_frozen(f"{name}.{key}"))
        self.trainable = {f"{name}.{key}": parameter for name, module in self.modules.items()
                          for key, parameter in module.named_parameters() if parameter.requires_grad}
        # What the exported graph does not depend on is no parameter of it (the last layer of LLaVA's tower).
        self.loss(self.batch(0)).backward()
        self.trainable = {name: parameter for name, parameter in self.trainable.items() if parameter.grad is not None}
        self.optimizer = torch.optim.AdamW(self.trainable.values(), lr=1e-3)

    def aliases(self):
        """Every further name of a tied parameter, and the one under which PyTorch lists it."""
        names = {}
        for component, module in self.modules.items():
            listed = {id(parameter): name for name, parameter in module.named_parameters()}
            for name, parameter in module.named_parameters(remove_duplicate=False):
                if listed[id(parameter)] != name:
                    names[f"{component}.{name}"] = f"{component}.{listed[id(parameter)]}"
        return names

    def batch(self, step):
        count = -(-len(self.samples) // GLOBAL_BATCH)
        start = step % count * GLOBAL_BATCH
        return self.collate(self.samples[start : start + GLOBAL_BATCH])

    def collate(self, samples):
        return {name: torch.from_numpy(array) for name, array in shards.collate(self.workload.fields(), samples).items()}

    def call(self, name, batch, **features):
        """PyTorch's encoders know no empty batch: they are given one row then, whose features no marked token takes."""
        inputs = {key: batch[key] for key in every_case()[name].inputs if key in batch and key not in features}
        inputs = {key: value if len(value) else value.new_zeros((1, *value.shape[1:])) for key, value in inputs.items()}
        return self.modules[name](**inputs, **features)

    def loss(self, batch):
        results = {}
        for name in self.workload.components:
            fed = {port: results[producer] for producer, port, consumer in self.workload.feeds() if consumer == name}
            results[name] = self.call(name, batch, **fed)
        logits = results[self.workload.model]
        total = self.workload.label_weight * zoo.cross_entropy({"logits": logits}, batch)
        for name, weight in self.workload.teachers.items():
            total = total + weight * divergence(logits, results[name], batch["labels"], 2.0, self.workload.top_k)
        return total

    def step(self, number):
        """Loss, gradients before clipping by name, and their norm of step 1, 2, …; then the update."""
        for parameter in self.trainable.values():
            parameter.grad = torch.zeros_like(parameter)
        loss = self.loss(self.batch(number - 1))
        if loss.requires_grad: # Not where only an encoder trains and nobody has an image.
            loss.backward()
        gradients = {name: parameter.grad.clone().numpy() for name, parameter in self.trainable.items()}
        norm = float(torch.nn.utils.clip_grad_norm_(self.trainable.values(), self.workload.clip or float("inf")))
        self.optimizer.step()
        return loss.item(), gradients, norm


def divergence(student, teacher, labels, temperature, top_k):
    from workloads import kl

    return kl(student, teacher, labels != zoo.IGNORE, temperature, top_k)


# ---- workloads ----------------------------------------------------------------------------------------------------

SHORT = "short samples together"
S, T = "qwen3_logits", "llama_logits"
KD = Workload("kd", S, teachers={T: 0.5}, layouts={
    "one device": (1, "*.micro_batch=8"),
    "one device, unequal micro-batches": (1, f"{S}.micro_batch=2 {T}.micro_batch=3"),
    "replicas 2 and 1, colocated": (2, f"{S}.dp=2 {S}.micro_batch=3 {T}.dp=1 {T}.devices=0 {T}.micro_batch=8"),
    "replicas 3 and 2": (3, f"{S}.dp=3 {S}.micro_batch=1 {T}.dp=2 {T}.devices=1,2 {T}.micro_batch=3"),
    "replicas 2 and 3, disjoint": (5, f"{S}.dp=2 {S}.devices=3,4 {S}.micro_batch=2 {T}.dp=3 {T}.devices=0-2 {T}.micro_batch=1"),
    "disjoint": (2, f"{T}.devices=0 {T}.micro_batch=8 {S}.devices=1 {S}.micro_batch=3"),
    "two stages": (2, f"{S}.stages=2 {S}.micro_batch=2 {T}.devices=0 {T}.micro_batch=3"),
    "four stages": (4, f"{S}.stages=4 {S}.micro_batch=1 {T}.devices=3 {T}.micro_batch=2"),
    "two stages twice, teacher in two": (4, f"{S}.stages=2 {S}.dp=2 {S}.micro_batch=1 {T}.stages=2 {T}.dp=1 {T}.devices=2,0"),
    "teacher in four, replicas 3": (4, f"{T}.stages=4 {T}.dp=1 {T}.micro_batch=5 {S}.dp=3 {S}.micro_batch=2"),
    "stages on one device": (1, f"{S}.stages=2 {S}.micro_batch=3 {T}.stages=2 {T}.micro_batch=2"),
    "more replicas than samples": (10, f"{S}.dp=10 *.micro_batch=1"),
    "chosen by the search": (3, ""),
    SHORT: (3, f"{S}.dp=2 {S}.devices=0,1 {S}.micro_batch_tokens=1024 {T}.dp=1 {T}.devices=2 {T}.micro_batch_tokens=1024"),
    "selective": (2, f"{S}.recompute=selective {S}.stages=2 {S}.micro_batch=3 {T}.dp=2 {T}.micro_batch=2"),
    "recomputed": (2, f"{S}.recompute=full {S}.stages=2 {S}.micro_batch=3 {T}.dp=2 {T}.micro_batch=2"),
    "split backward": (4, f"{S}.split_backward=3 {S}.stages=4 {S}.micro_batch=1 {T}.devices=3 {T}.micro_batch=2"),
    "recomputed in part": (2, f"{S}.recompute=full-2 {S}.stages=2 {S}.micro_batch=3 {T}.dp=2 {T}.micro_batch=2"),
    "recomputed in part, split backward": (2, f"{S}.split_backward=all {S}.recompute=selective-2 {S}.stages=2 {S}.micro_batch=3 {T}.micro_batch=2"),
    "recomputed, split backward": (2, f"{S}.split_backward=all {S}.recompute=full {S}.stages=2 {S}.micro_batch=3 {T}.micro_batch=2"),
    "losses in chunks": (2, f"{S}.loss_chunks=3 {S}.micro_batch=3 {T}.devices=1 {T}.micro_batch=2"),
    "losses in chunks, recomputed, split backward": (2, f"{S}.loss_chunks=7 {S}.split_backward=all {S}.recompute=full {S}.stages=2 {S}.micro_batch=3 {T}.micro_batch=2"),
}, trained=("replicas 3 and 2", "two stages twice, teacher in two", "split backward", "losses in chunks"))

TIED = "llama_tied_logits"
TIES = Workload("tied", TIED, teachers={S: 0.5}, train=", clip_grad_norm: 0.1", clip=0.1, layouts={
    "one device": (1, "*.micro_batch=8"),
    "embeddings in two stages": (2, f"{TIED}.stages=2 {TIED}.micro_batch=3 {S}.devices=1"),
    "embeddings in two stages twice": (4, f"{TIED}.stages=2 {TIED}.dp=2 {TIED}.micro_batch=2 {S}.devices=1 {S}.micro_batch=5"),
    "split backward": (4, f"{TIED}.split_backward=all {TIED}.stages=2 {TIED}.dp=2 {TIED}.micro_batch=2 {S}.devices=1 {S}.micro_batch=5"),
    "split backward, losses in chunks": (4, f"{TIED}.split_backward=all {TIED}.loss_chunks=4 {TIED}.stages=2 {TIED}.dp=2 {TIED}.micro_batch=2 {S}.devices=1 {S}.micro_batch=5"),
    "embeddings in stages 1 and 4": (4, f"{TIED}.stages=4 {TIED}.micro_batch=2 {S}.devices=0"),
}, trained=("embeddings in two stages twice",))

T2 = "gpt2_logits"
TEACHERS = Workload("teachers", S, teachers={T: 0.3, T2: 0.2}, layouts={
    "colocated": (2, "*.micro_batch=3"),
    "colocated, losses in chunks": (2, f"*.micro_batch=3 {S}.loss_chunks=6"),
    "each on its own": (3, f"{T}.devices=0 {T2}.devices=1 {S}.devices=2 {T}.micro_batch=8 {T2}.micro_batch=3 {S}.micro_batch=2"),
    "replicas 1, 2 and 3": (3, f"{T}.dp=1 {T2}.dp=2 {S}.dp=3 *.micro_batch=1"),
})

V, L = "llava_vision", "llava_language"
IMAGES, CLIPS = "images: {max: 3}", "clips: {max: 2}"
LLAVA_LAYOUTS = {
    "one device": (1, "*.micro_batch=8"),
    "one device, unequal micro-batches": (1, f"{V}.micro_batch=1 {L}.micro_batch=3"),
    "disjoint": (2, f"{V}.devices=0 {V}.micro_batch=3 {L}.devices=1 {L}.micro_batch=2"),
    "replicas 3 and 2": (3, f"{V}.dp=3 {V}.micro_batch=1 {L}.dp=2 {L}.micro_batch=3"),
    "replicas 1 and 3, disjoint": (4, f"{V}.dp=1 {V}.devices=3 {V}.micro_batch=8 {L}.dp=3 {L}.devices=0-2 {L}.micro_batch=1"),
    "language in two stages": (2, f"{L}.stages=2 {L}.micro_batch=2 {V}.dp=2 {V}.micro_batch=3"),
    "language in four stages": (4, f"{L}.stages=4 {L}.micro_batch=1 {V}.dp=3 {V}.devices=1-3 {V}.micro_batch=2"),
    "language in six stages": (4, f"{L}.stages=6 {L}.micro_batch=2"),  # The last only adds up losses.
    "split backward": (4, f"*.split_backward=all {V}.stages=2 {V}.dp=1 {V}.micro_batch=5 {L}.dp=2 {L}.micro_batch=2"),
    "both in two stages": (4, f"{V}.stages=2 {V}.dp=1 {V}.micro_batch=5 {L}.stages=2 {L}.dp=2 {L}.micro_batch=2"),
}
LLAVA = Workload("llava", L, ((V, "image_features"),), rows=IMAGES, layouts=LLAVA_LAYOUTS,
                 trained=("replicas 3 and 2", "both in two stages"))
FROZEN_LANGUAGE = Workload("llava-frozen-language", L, ((V, "image_features"),), frozen=(f"{L}.*",), rows=IMAGES, layouts={
    name: LLAVA_LAYOUTS[name] for name in ("replicas 3 and 2", "disjoint", "language in two stages", "both in two stages")},
    trained=("both in two stages",))

W, TOWER = "llava_logits", "llava_logits.model.vision_tower"
PARTLY = Workload("llava-frozen-tower", W, frozen=(f"{W}.model.vision_tower.*",), rows=IMAGES, layouts={
    "one device": (1, "*.micro_batch=3"),
    "disjoint": (2, f"{TOWER}.devices=0 {TOWER}.micro_batch=8 {W}.devices=1 {W}.micro_batch=3"),
    "replicas 2 and 3": (3, f"{TOWER}.dp=2 {TOWER}.micro_batch=1 {W}.dp=3 {W}.micro_batch=2"),
    "two stages": (2, f"{W}.stages=2 {W}.micro_batch=2 {TOWER}.devices=0"),
})

A, O = "speech_encoder", "omni_language"
OMNI = Workload("omni", O, (VISION, SPEECH), rows=f"{IMAGES}, {CLIPS}", layouts={
    "one device": (1, f"{V}.micro_batch=3 {A}.micro_batch=2 {O}.micro_batch=1"),
    "each on its own": (3, f"{V}.devices=0 {A}.devices=1 {O}.devices=2 {V}.micro_batch=8 {A}.micro_batch=3 {O}.micro_batch=2"),
    "replicas 1, 2 and 3": (3, f"{V}.dp=1 {A}.dp=2 {O}.dp=3 {V}.micro_batch=8 {A}.micro_batch=3 {O}.micro_batch=1"),
    SHORT: (3, f"{V}.dp=1 {A}.dp=2 {O}.stages=2 {O}.dp=1 *.micro_batch_tokens=128"),
    "chosen by the search": (3, ""),
    "language in two stages twice": (4, f"{O}.stages=2 {O}.dp=2 {O}.micro_batch=2 {V}.dp=2 {V}.micro_batch=3 {A}.dp=1 {A}.devices=3"),
}, trained=("replicas 1, 2 and 3",))

E, M, R, S2 = "chain_encoder", "chain_middle", "chain_teacher", "chain_student"
SHARED = Workload("shared", S2, links=((E, R), (E, S2)), teachers={R: 0.5}, layouts={
    "colocated": (2, "*.micro_batch=3"),
    "replicas 1, 2 and 3": (3, f"{E}.dp=1 {R}.dp=2 {S2}.dp=3 {E}.micro_batch=3 {R}.micro_batch=2 {S2}.micro_batch=1"),
    "chosen by the search": (4, ""),
})
CHAIN = Workload("chain", S2, links=((E, M), (M, S2)), layouts={
    "replicas 1, 3 and 2": (3, f"{E}.dp=1 {M}.dp=3 {S2}.dp=2 {E}.micro_batch=3 {M}.micro_batch=1 {S2}.micro_batch=2"),
    "all in two stages": (2, "*.stages=2 *.micro_batch=2"),
})

# Stages are cut in the middle of the attention, between its mask and its softmax.
MASKED = Workload("masked", "chain_attend", links=((E, "chain_attend"),), layouts={
    "attention in two stages": (2, "chain_attend.stages=2 chain_attend.dp=1 *.micro_batch=2"),
    "attention in six stages": (2, "chain_attend.stages=6 chain_attend.dp=1 *.micro_batch=3"),
})

S_BACK, T_BACK = f"{S}.model.layers.1", f"{T}.model.layers.1"
CUT = Workload("cut", S, teachers={T: 0.5}, cuts={S: ["model.layers.1"], T: ["model.layers.1"]}, layouts={
    "one device": (1, "*.micro_batch=8"),
    "each on its own": (4, f"{T}.devices=0 {T_BACK}.devices=1 {S}.devices=2 {S_BACK}.devices=3 *.micro_batch=3"),
    "replicas 1, 2, 3 and 2": (3, f"{T}.dp=1 {T_BACK}.dp=2 {S}.dp=3 {S_BACK}.dp=2 {S}.micro_batch=1 {S_BACK}.micro_batch=3"),
    "the back in two stages": (3, f"{S_BACK}.stages=2 {S_BACK}.micro_batch=2 {S}.dp=3 {S}.micro_batch=3 {T}.devices=0"),
    "chosen by the search": (2, ""),
}, trained=("replicas 1, 2, 3 and 2",))

TOP = Workload("top-k", S, teachers={T: 0.5}, top_k=5, layouts={
    name: KD.layouts[name] for name in ("one device, unequal micro-batches", "replicas 3 and 2", "disjoint", "two stages")},
    trained=("replicas 3 and 2",))
# Beyond a point the teacher's hidden states are fewer bytes than values and indices of its largest logits.
MANY = Workload("top-k-of-many", S, teachers={T: 0.5}, top_k=100, layouts={"disjoint": KD.layouts["disjoint"]})

# Tensors of MLP blocks split over devices that share a station.
TENSOR = Workload("tensor", T, train=", clip_grad_norm: 0.1", clip=0.1, layouts={
    "one device": (1, "*.micro_batch=8"),
    "tensor 2": (2, "*.tensor=2 *.micro_batch=3"),
    "tensor 2, replicas 2": (4, "*.tensor=2 *.dp=2 *.micro_batch=2"),
    "tensor 4": (4, "*.tensor=4 *.micro_batch=8"),
    "tensor 2, two stages": (4, "*.tensor=2 *.stages=2 *.micro_batch=2"),
    "tensor 2, all computed again": (2, "*.tensor=2 *.recompute=full *.micro_batch=3"),
    "tensor 2, two stages, split backward": (4, "*.tensor=2 *.stages=2 *.split_backward=all *.micro_batch=2"),
}, trained=("tensor 2", "tensor 2, replicas 2"))
TENSOR_BIASED = Workload("tensor-biased", T2, layouts={"tensor 2": (2, "*.tensor=2 *.micro_batch=3")})
TENSOR_KD = Workload("tensor-kd", S, teachers={T: 0.5}, layouts={
    "student split": (3, f"{S}.tensor=2 {S}.devices=0,1 {S}.micro_batch=3 {T}.devices=2 {T}.micro_batch=8"),
    "teacher split, student twice": (4, f"{T}.tensor=2 {T}.devices=0,1 {T}.micro_batch=2 {S}.devices=2,3 {S}.dp=2 {S}.micro_batch=3"),
    "both split, colocated": (2, "*.tensor=2 *.micro_batch=3"),
    "both split, losses in chunks": (2, f"*.tensor=2 *.micro_batch=3 {S}.loss_chunks=3"),
})

WORKLOADS = (TOP, MANY, CUT, SHARED, CHAIN, MASKED, TENSOR, TENSOR_BIASED, TENSOR_KD, KD, TIES, TEACHERS, LLAVA, FROZEN_LANGUAGE, PARTLY, OMNI)


# ---- claims -------------------------------------------------------------------------------------------------------


def make_data(judge, workload):
    """Three batches; nobody in the second has a field of another modality. Some of them lack the field, some hold it empty."""
    cases = every_case()
    case = zoo.replace(cases[workload.model], fields=workload.fields(), name=f"layouts-{workload.name}")
    samples = shards.make_samples(case, 3 * GLOBAL_BATCH - 3, seed=7)
    for index, sample in enumerate(samples[GLOBAL_BATCH : 2 * GLOBAL_BATCH]):
        for name in [name for name, spec in case.fields.items() if spec.dims[0] != "batch" and name in sample]:
            sample[name] = sample[name][:0]
            if index % 2:
                del sample[name]
        text = sample["input_ids"] >= shards.LOWEST_ID
        sample["input_ids"], sample["labels"] = sample["input_ids"][text], sample["labels"][text]
    return samples, shards.write_shards(samples, judge.bench.scratch / case.name)


def plan_layout(judge, workload, layout, *arguments, name=None):
    devices, pins = workload.layouts[layout]
    path = judge.bench.scratch / f"{workload.name}.yaml"
    if not path.exists():
        path.write_text(workload.text(judge.models))
    pinned = [word for pin in pins.split() for word in ("--pin", pin)]
    return judge.bench.plan(path, name or f"{workload.name}, {layout}".replace(" ", "-"), "--set",
                            f"cluster.devices_per_node={devices}", *pinned, *arguments)


def one_layout(judge, what, workload, layout, data, expected, whole, aliases):
    """Steps 1 and 2, and the gradients of step 1; for some layouts more steps, and other ways to run. Sizes of micro-batches that are
    not pinned are chosen for the data's lengths."""
    sizes = [] if "micro_batch=" in workload.layouts[layout][1] else ["--data", data]
    plan = plan_layout(judge, workload, layout, *sizes)
    if layout == SHORT:
        said = json.loads(judge.bench.succeed("maestro-dump", plan, "--format", "json").stdout)
        judge.check(f"{what} padded tokens bound micro-batches", any(own.get("areas") for own in said["executables"]))
    steps = TRAINED_STEPS if layout in workload.trained else 2
    out = judge.bench.run(plan, data, plan.stem, "--steps", steps, "--save-gradients")
    lines = metrics(out)
    first, gradients, norm = expected[0]
    off = stages.relative(lines[0]["loss"], first)
    judge.check(f"{what} loss", off <= tolerances.LOSS, f"{lines[0]['loss']:.8g} against PyTorch's {first:.8g}, {off:.2g} relative")
    stages.compare_gradients(judge, what, stages.read_gradients(out, None), gradients, aliases)
    off = stages.relative(lines[0]["grad_norm"], norm)
    judge.check(f"{what} grad_norm", off <= tolerances.GRAD_NORM, f"{lines[0]['grad_norm']:.8g} against {norm:.8g}")
    second = lines[1]
    off = (stages.relative(second["loss"], expected[1][0]), stages.relative(second["grad_norm"], expected[1][2]))
    judge.check(f"{what} step 2", off[0] <= tolerances.SECOND_LOSS and off[1] <= tolerances.SECOND_GRAD_NORM,
                f"loss {second['loss']:.8g} against {expected[1][0]:.8g}, grad_norm {second['grad_norm']:.7g} against "
                f"{expected[1][2]:.7g}")
    if steps > 2:
        curve = numpy.array([step[0] for step in expected[:steps]])
        error = numpy.abs(losses(out) - curve) / numpy.abs(curve)
        judge.check(f"{what} {steps} AdamW steps", bool(error.max() <= tolerances.TRAINED_LOSS),
                    f"largest {error.max():.2g} relative at step {int(error.argmax()) + 1}")
        evaluation(judge, what, plan, data, whole)
    return out


def evaluation(judge, what, plan, data, expected):
    """The initial weights' mean loss over the data, and step 1 against itself in one piece."""
    said = evaluated(judge.bench.succeed("maestro-run", plan, "--data", data, "--evaluate"))
    off = stages.relative(said["loss"], expected)
    judge.check(f"{what} --evaluate", off <= tolerances.LOSS, f"{said['loss']:.8g} against {expected:.8g}")
    judge.bench.succeed("maestro-run", plan, "--data", data, "--self-check", "--steps", 1)
    judge.check(f"{what} --self-check", True)


def saved_once(judge, what, out, aliases):
    """A checkpoint holds a tied weight once, and the other name in its metadata."""
    tensors, _ = safetensors(newest_checkpoint(out) / f"{TIED}.safetensors")
    names = [aliases.get(f"{TIED}.{name}", f"{TIED}.{name}") for name in tensors]
    judge.check(f"{what} tied weights once", len(names) == len(set(names)) and len(names) > 1, f"{sorted(names)}")


def whole_checkpoint(judge, what, workload, out, reference):
    """PyTorch loads it under its own names and shapes, and finds what it trained itself."""
    module = export.build_module(every_case()[workload.model]).float()
    path = newest_checkpoint(out) / f"{workload.model}.safetensors"
    if not path.exists():  # Several and an index, which load_model does not read, and transformers does.
        tensors, metadata = safetensors(path)
        if hasattr(module, "config"):
            stages.from_pretrained_index(judge, what, module, path, tensors)
        path = judge.bench.scratch / path.name
        save_file(tensors, path, metadata)
    load_model(module, path, strict=True)
    trained = dict(reference.modules[workload.model].named_parameters())
    worst = max(float((value - trained[name]).detach().abs().max()) for name, value in module.named_parameters())
    judge.check(f"{what} load_model(strict=True)", worst < 2e-3, f"largest difference {worst:.2g}")


def lower_split(judge, what):
    """bf16 under tensor parallelism: near one device's bf16, which is as near to f32's."""
    _, data = make_data(judge, TENSOR)
    found = {}
    for layout in ("one device", "tensor 2", "tensor 2, replicas 2"):
        plan = plan_layout(judge, TENSOR, layout, "--pin", f"{T}.precision=bf16", name=f"bf16, {layout}".replace(" ", "-"))
        found[layout] = losses(judge.bench.run(plan, data, plan.stem, "--steps", 20))
    exact = losses(judge.bench.run(plan_layout(judge, TENSOR, "one device", name="f32,-one-device"), data, "f32", "--steps", 20))
    judge.check(f"{what} is rounded", bool(numpy.abs(found["tensor 2"] - exact).max() > 0))
    for layout, curve in found.items():
        error = float((numpy.abs(curve - exact) / exact).max())
        judge.check(f"{what}, {layout}", error <= 2e-2, f"{error:.2g} relative of f32's over 20 steps")


def all_layouts(judge, what, workload):
    samples, data = make_data(judge, workload)
    reference = Joined(workload, samples)
    with torch.no_grad():
        whole = reference.loss(reference.collate(samples)).item()
    steps = TRAINED_STEPS if workload.trained else 2
    expected = [reference.step(number) for number in range(1, steps + 1)]
    for layout in workload.layouts:
        out = judge.stage(f"{what}, {layout}", one_layout, workload, layout, data, expected, whole, reference.aliases())
        if out and workload is TENSOR and layout in workload.trained:
            judge.stage(f"{what}, {layout}", whole_checkpoint, workload, out, reference)
        if out and workload is TIES and layout != "one device":
            judge.stage(f"{what}, {layout}", saved_once, out, reference.aliases())


def what_crosses(judge, what):
    """Values and indices of the largest logits where they are fewer bytes than hidden states, else these."""
    for workload, expected in ((TOP, [(TOP.top_k, "f32"), (TOP.top_k, "i64")]), (MANY, [(zoo.WIDTH, "f32")])):
        plan = plan_layout(judge, workload, "disjoint", name=f"crossing, {workload.name}".replace(" ", "-"))
        table = json.loads(judge.bench.succeed("maestro-dump", plan, "--format", "json").stdout)
        widths = [(table["exprs"][edge["shape"][-1]]["a"], edge["dtype"]) for edge in table["edges"]]
        judge.check(f"{what} of {workload.name}", sorted(widths) == expected, f"{widths}")
        said = [line for line in judge.bench.succeed("maestro-dump", plan).stdout.splitlines() if "renormalised" in line]
        judge.check(f"{what} of {workload.name} is said", len(said) == 1 and str(workload.top_k) in said[0], f"{said}")


def lower_teacher(judge, what):
    """A teacher in bf16 under any layout: the one-device plan's numbers, and not f32's."""
    _, data = make_data(judge, KD)
    found = {}
    for layout in ("one device", "replicas 3 and 2", "two stages", "teacher in four, replicas 3"):
        plan = plan_layout(judge, KD, layout, "--pin", f"{T}.precision=bf16", name=f"bf16 teacher, {layout}".replace(" ", "-"))
        out = judge.bench.run(plan, data, plan.stem, "--steps", 1, "--save-gradients")
        found[layout] = metrics(out)[0]["loss"], stages.read_gradients(out, None)
    first, gradients = found["one device"]
    exact = metrics(judge.bench.scratch / "kd,-one-device")[0]["loss"]
    judge.check(f"{what} is rounded", 0 < stages.relative(first, exact) <= 5e-3, f"{first:.8g} and {exact:.8g} in f32")
    for layout, (loss, own) in found.items():
        judge.check(f"{what}, {layout} loss", stages.relative(loss, first) <= tolerances.LOSS, f"{loss:.8g}, {first:.8g}")
        stages.compare_gradients(judge, f"{what}, {layout}", own, gradients, {})


def same_bits(judge, what, workload, layout, other):
    """One plan twice, with late devices, stopped and resumed: the same checkpoint. Resumed under another layout: the same
    training, said not to be the same bits."""
    _, data = make_data(judge, workload)
    stem = f"bits-{workload.name}"
    plan = plan_layout(judge, workload, layout, name=stem)
    again = plan_layout(judge, workload, layout, name=f"{stem}-again")
    judge.check(f"{what} plan twice", plan.read_bytes() == again.read_bytes())
    whole = judge.bench.run(plan, data, f"{stem}-whole", "--steps", 6, "--save-every", 3)
    twice = judge.bench.run(plan, data, f"{stem}-twice", "--steps", 6)
    late = judge.bench.run(plan, data, f"{stem}-late", "--steps", 6, "--late-device", 1)
    processes = judge.bench.run(plan, data, f"{stem}-processes", "--steps", 6, "--ranks", "processes")
    stopped = judge.bench.run(plan, data, f"{stem}-stopped", "--steps", 3)
    judge.bench.run(plan, data, f"{stem}-stopped", "--steps", 6, "--resume")
    for label, folder in (("twice", twice), ("on late devices", late), ("as processes", processes), ("resumed", stopped)):
        different = different_files(newest_checkpoint(whole), newest_checkpoint(folder))
        judge.check(f"{what} {label}", not different and newest_checkpoint(folder).name == newest_checkpoint(whole).name,
                    f"{different}")
    moved = plan_layout(judge, workload, other, name=f"{stem}-moved")
    judge.bench.run(plan, data, f"{stem}-changed", "--steps", 3)
    done = judge.bench.succeed("maestro-run", moved, "--data", data, "--out", judge.bench.scratch / f"{stem}-changed", "--steps", 6,
                               "--resume")
    said = [line for line in done.stderr.splitlines() if "bitwise" in line]
    judge.check(f"{what} says that another layout is not bitwise", len(said) == 1, " ".join(said) or done.stderr[-300:])
    curves = losses(whole), losses(judge.bench.scratch / f"{stem}-changed")
    error = float((numpy.abs(curves[0] - curves[1]) / curves[0]).max()) if len(curves[1]) == 6 else 1.0
    judge.check(f"{what} continues under another layout", error <= 1e-4, f"{error:.2g} relative, {len(curves[1])} steps")


def every_layout(judge, only):
    for workload in WORKLOADS:
        if only in workload.name:
            judge.stage(workload.name, all_layouts, workload)
    if only in "top-k":
        judge.stage("what crosses", what_crosses)
    if only in "kd":
        judge.stage("teacher in bf16", lower_teacher)
    if only in "tensor":
        judge.stage("tensor 2 in bf16", lower_split)
    if only in "bits":
        judge.stage("tensor bits", same_bits, TENSOR, "tensor 2, replicas 2", "one device")
        judge.stage("kd bits", same_bits, KD, "two stages twice, teacher in two", "replicas 3 and 2")
        judge.stage("omni bits", same_bits, OMNI, "replicas 1, 2 and 3", "language in two stages twice")
        judge.stage("tied bits", same_bits, TIES, "embeddings in two stages twice", "one device")
