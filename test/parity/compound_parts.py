"""Compound models as users train them: components in files of their own, joined by edges, against PyTorch in one piece."""

from __future__ import annotations

import export
import shards
import stages
import torch
import tolerances
import zoo
from tools import metrics

VISION, SPEECH = ("llava_vision", "image_features"), ("speech_encoder", "audio_features")
# name: producers with the port that each feeds, the language model, rows of their own, frozen components, and how the
# producers are exported
JOINED = {
    "llava": ([VISION], "llava_language", "images: {max: 3}", (), "opset20"),
    "llava with a frozen encoder in bf16": ([VISION], "llava_language", "images: {max: 3}", ("llava_vision",), "bf16"),
    "speech": ([SPEECH], "speech_language", "clips: {max: 2}", (), "opset20"),
    "omni": ([VISION, SPEECH], "omni_language", "images: {max: 3}, clips: {max: 2}", (), "opset20"),
}
SILENT = "embed_positions.weight"  # a parameter that Whisper's constructor freezes, which an ONNX file does not say


def workload(judge, producers, language, rows, frozen, variant) -> str:
    cases = zoo.all_cases()
    lines = ["components:"]
    for name in [*(producer for producer, _ in producers), language]:
        file = export.export_variant(cases[name], "opset20" if name == language else variant, judge.models)
        extra = ", frozen: true" if name in frozen else f", frozen: ['*.{SILENT}']" if name == "speech_encoder" else ""
        lines.append(f"  {name}: {{model: {file}{extra}}}")
    lines += ["edges:", *(f"  - {name}.{port} -> {language}.{port}" for name, port in producers)]
    lines.append(f"dims: {{batch: {{max: 1}}, seq: {{max: 64}}, {rows}}}")
    lines.append(f"loss: [{{cross_entropy: {{logits: {language}.logits, labels: labels}}}}]")
    return "\n".join(lines) + f"\ntrain: {{global_batch: {stages.GLOBAL_BATCH}}}\n"


def evaluate(modules, producers, language, batch) -> float:
    """The loss of the joined modules, which hold its gradients then."""
    cases = zoo.all_cases()
    ports = {port: modules[name](**{key: batch[key] for key in cases[name].inputs}) for name, port in producers}
    logits = modules[language](input_ids=batch["input_ids"], **ports)
    loss = zoo.cross_entropy({"logits": logits}, batch)
    loss.backward()
    return loss.item()


def joined(judge, what, key, micro_batch):
    """Step 1 of the components against the same modules called one after the other."""
    producers, language, rows, frozen, variant = JOINED[key]
    cases = zoo.all_cases()
    names = [*(name for name, _ in producers), language]
    fields = {}
    for name in names:
        fields |= {field: spec for field, spec in cases[name].fields.items() if not field.endswith("_features") or
                   field == "input_features"}
    whole = zoo.replace(cases[language], fields=fields, name=key.replace(" ", "-"))
    samples, data = stages.make_data(judge, whole)
    path = judge.bench.scratch / f"{whole.name}.yaml"
    path.write_text(workload(judge, producers, language, rows, frozen, variant))
    plan = judge.bench.plan(path, f"{whole.name}-{micro_batch}", "--pin", f"*.micro_batch={micro_batch}")
    out = judge.bench.run(plan, data, f"{whole.name}-{micro_batch}", "--steps", 1, "--save-gradients")
    stored = {name: "float32" if name == language else stages.stored_dtype(variant) for name in names}
    modules = {name: export.build_module(cases[name], dtype=stored[name]).float() for name in names}
    for name, module in modules.items():
        for parameter_name, parameter in module.named_parameters():
            parameter.requires_grad_(name not in frozen and not parameter_name.endswith(SILENT))
    batch = {name: torch.from_numpy(array)
             for name, array in shards.collate(fields, samples[: stages.GLOBAL_BATCH]).items()}
    loss = evaluate(modules, producers, language, batch)
    line = metrics(out)[0]
    judge.check(f"{what} loss", stages.relative(line["loss"], loss) <= tolerances.LOSS,
                f"{line['loss']:.8g} against PyTorch's {loss:.8g}, {stages.relative(line['loss'], loss):.2g} relative")
    expected = {f"{name}.{key}": parameter.grad.numpy() for name, module in modules.items()
                for key, parameter in module.named_parameters() if parameter.grad is not None}
    stages.compare_gradients(judge, what, stages.read_gradients(out, None), expected, {})


def all_joined(judge, only):
    for key in JOINED:
        if only in key:
            for micro_batch in (1, 3):
                judge.stage(f"{key} joined micro-batch {micro_batch}", joined, key, micro_batch)
