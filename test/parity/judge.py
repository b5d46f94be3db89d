"""Judges Maestro by PyTorch, one family of models per process (importing PyTorch costs more than most of the work).

    python test/parity/judge.py FAMILY [--binaries build/release/bin] [--scratch DIR] [--only WORD]

Prints a line per claim. Status 0: all hold; 1: some do not; 77: this interpreter has no PyTorch, so nothing was judged.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "models")]

# What each family shows besides step 1 at two micro-batch sizes: cases that train 50 steps and are saved and loaded,
# and further exports of the same network. `fresh` exports carry norms of ones, as optimize=True merges them.
TRAINED = {"gpt2_logits", "gpt2_loss", "llama_logits", "llama_loss", "llama_tied_logits", "qwen3_logits", "gemma2_logits",
           "bart_logits", "t5_logits", "vit_logits", "bert_mask", "mlp_logits", "convnet_logits", "masked_mean",
           "nanogpt", "stock", "mobile", "speech_logits"}
# Cases that are also judged in bf16, by PyTorch's autocast.
LOWERED = {"gpt2_logits", "llama_mask", "qwen3_logits", "gemma2_logits", "bart_logits", "t5_logits", "vit_logits", "bert_mask",
           "convnet_logits", "mobile", "llava_logits", "speech_logits"}
# Cases with heads wider than what they multiply: tied, with and without bias, soft cap or mask, in the graph or beside it.
CHUNKED = {"gpt2_logits", "gpt2_loss", "llama_loss", "llama_tied_logits", "llama_mask", "gemma2_logits", "bart_loss", "t5_logits", "bert_mask", "nanogpt"}
VARIANTS = {
    "gpt2_logits": ["opset18", "opset23", "optimized", "optimized23", "anonymous"],
    "gpt2_loss": ["opset23"],
    "llama_logits": ["opset18", "opset23", "optimized", "optimized23", "anonymous"],
    "llama_mask": ["opset23"],
    "llama_tied_logits": ["optimized"],
    "qwen3_logits": ["opset18", "opset23"],
    "gemma2_mask": ["opset23"],
    "bart_logits": ["opset18", "opset23"],
    "t5_logits": ["opset23"],
    "vit_logits": ["opset18", "opset23"],
    "bert_mask": ["opset23"],
    "mlp_logits": ["optimized"],
    "convnet_logits": ["opset18"],
    "llava_logits": ["opset18", "opset23"],
    "speech_logits": ["opset23"],
}


def weightless(judge, what, case, variant="meta", stored="float32"):
    """A graph exported under torch.device("meta"), planned without weights and run with a checkpoint of them, whose element
    type is the graph's or another."""
    import export
    import stages
    from safetensors.torch import save_file

    module = export.build_module(case, dtype=stored)
    state = {name: tensor.detach().contiguous() for name, tensor in module.named_parameters()}
    state |= {name: tensor.detach().contiguous() for name, tensor in module.named_buffers()}
    path = judge.bench.scratch / f"{case.name}-{variant}-{stored}.safetensors"
    save_file(state, path)
    stages.first_step(judge, what, case, 3, variant=variant, weights=path, stored=stored)


def half_precision(judge, case):
    """Weights of 16 bits: in the graph's file, and in a checkpoint beside a graph without any."""
    import stages

    for variant in ("bf16", "f16"):
        judge.stage(f"{case.name} {variant}", stages.first_step, case, 3, variant=variant)
        judge.stage(f"{case.name} {variant}", stages.stored_types, case, variant)
    trained = judge.stage(f"{case.name} bf16", stages.training, case, variant="bf16")
    if trained:
        judge.stage(f"{case.name} bf16 checkpoint", stages.checkpoint, case, *trained)
    judge.stage(f"{case.name} meta, bf16 weights", weightless, case, stored="bfloat16")
    judge.stage(f"{case.name} meta in bf16, bf16 weights", weightless, case, variant="meta_bf16", stored="bfloat16")


def judge_case(judge, case):
    import stages

    # One sample at a time shows micro-batches without a row of images or clips.
    for micro_batch in (1, 3, 8) if case.family == "compound" else (3, 8):
        judge.stage(f"{case.name} micro-batch {micro_batch}", stages.first_step, case, micro_batch)
    for variant in VARIANTS.get(case.name, []):
        judge.stage(f"{case.name} {variant}", stages.first_step, case, 3, variant=variant,
                    fresh=variant.startswith("optimized"))
    if case.name in CHUNKED:  # Refused where there is nothing to chunk.
        chunks = ("--pin", "*.loss_chunks=5")
        judge.stage(f"{case.name} losses in chunks", stages.first_step, case, 3, layout=chunks)
        if case.name in LOWERED:
            judge.stage(f"{case.name} losses in chunks", stages.bf16_gradients, case, layout=chunks)
    if case.name in LOWERED:
        judge.stage(case.name, stages.bf16_gradients, case)
    if case.name in TRAINED:
        trained = judge.stage(f"{case.name}", stages.training, case)
        if trained:
            judge.stage(f"{case.name} checkpoint", stages.checkpoint, case, *trained)


def judge_exports(judge, only):
    """Plain and default exports of networks of which the file says less than PyTorch means: right, or refused."""
    import lost
    import stages

    for name, case in lost.cases().items():
        if only not in name:
            continue
        for variant in ("bf16", "optimized_bf16") if name in lost.HALF else ("opset20", "optimized"):
            is_default = variant.startswith("optimized")
            if name in lost.REFUSED and (is_default or name in lost.PLAIN_TOO):
                judge.stage(f"{name} {variant}", stages.refused, case, *lost.REFUSED[name], variant=variant)
                continue
            if is_default and name in lost.SAID:
                judge.stage(f"{name} {variant}", stages.said, case, *lost.SAID[name], variant=variant)
                continue
            for micro_batch in (1, 3, 8) if not case.train_mode else ():
                judge.stage(f"{name} {variant} micro-batch {micro_batch}", stages.first_step, case, micro_batch, variant=variant,
                            fresh=is_default, layout=lost.LAYOUTS.get(name, ()))


def judge_family(judge, family, only):
    import compound_parts
    import layouts
    import stages
    import workloads
    import zoo

    cases = zoo.all_cases()
    if family == "workload":
        workloads.all_workloads(judge)
        return
    if family == "layouts":
        layouts.every_layout(judge, only)
        return
    if family == "exports":
        judge_exports(judge, only)
        return
    for name, case in cases.items():
        if case.family != family or only not in name or name == "mlp_dropout":
            continue
        judge_case(judge, case)
    if family in ("llama", "vit", "plain") and only in "half precision":
        half_precision(judge, cases[{"llama": "llama_logits", "vit": "vit_logits", "plain": "convnet_logits"}[family]])
    if family in ("gpt2", "llama"):
        first = cases[f"{family}_logits"]
        judge.stage(f"{family} meta", weightless, first)
        judge.stage(f"{family} determinism", stages.determinism, first)
        judge.stage(f"{family}", stages.bf16_curve, first)
        judge.stage(f"{family}", stages.self_check, first, expect_stop=False)
    if family == "llama":
        judge.stage("llama bf16 determinism", stages.determinism, cases["llama_logits"], "--set", "train.precision=bf16")
    if family == "plain":
        judge.stage("dropout", stages.dropout, cases["mlp_dropout"])
        judge.stage("mlp", stages.unwritten_gradient, cases["mlp_logits"])
        judge.stage("dropout determinism", stages.determinism, cases["mlp_dropout"])
        judge.stage("batchnorm in training", stages.refused, cases["convnet_batchnorm_train"], "BatchNorm", "stem_norm")
    if family == "compound":
        compound_parts.all_joined(judge, only)
        judge.stage("llava", stages.miscounted_features, cases["llava_language"], "image_features")
        judge.stage("a table that optimize=True folded", stages.refused, cases["llava_logits"],
                    "position_embedding.weight", "optimize=False", variant="optimized")
    if family == "gpt2":
        judge.stage("gpt2 positions", stages.position_bound, cases["gpt2_logits"], zoo.GPT2["n_positions"])
    if family == "wild":
        judge.stage("marked positions", stages.position_bound, cases["marked"], 32)
        judge.stage("tables of positions", stages.position_bound, cases["tables"], 128)
        judge.stage("opt positions", stages.position_bound, cases["opt"], 128)
        judge.stage("marked", stages.outside_vocabulary, cases["marked"], "input_ids", (zoo.VOCABULARY, -1, 1 << 40))
        judge.stage("llama", stages.outside_vocabulary, cases["llama_logits"], "labels", (zoo.VOCABULARY, -1))
        judge.stage("contrastive loss", stages.refused, cases["contrastive"], "batch", ("MatMul", "Gemm", "loss"))
    if family == "bert":
        judge.stage("bert without a mask", stages.self_check, cases["bert_nomask"], expect_stop=False)
        judge.stage("bert without a mask, padded", stages.self_check, cases["bert_nomask"], expect_stop=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family")
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"),
                        help="folder of maestro-plan and maestro-run; default: MAESTRO_BIN, or build/release/bin")
    parser.add_argument("--scratch", type=pathlib.Path, help="kept; default: a temporary folder, removed")
    parser.add_argument("--only", default="", help="only the cases whose name contains this")
    arguments = parser.parse_args()
    absent = [name for name in ("torch", "transformers", "onnx", "onnxscript", "safetensors")
              if not importlib.util.find_spec(name)]
    if absent:
        print(f"{sys.executable} has no {', '.join(absent)}; ./dev setup python installs them, MAESTRO_PYTHON names another interpreter")
        return 1
    import torch
    import transformers

    import export
    import stages
    import tools

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(2)
    scratch = arguments.scratch or pathlib.Path(tempfile.mkdtemp(prefix="maestro-parity-"))
    scratch = scratch / arguments.family
    shutil.rmtree(scratch, ignore_errors=True)
    judge = stages.Judge(tools.Bench(arguments.binaries, scratch), export.models_folder())
    judge_family(judge, arguments.family, arguments.only)
    print(f"{judge.passed} claims hold, {len(judge.failures)} do not")
    for failure in judge.failures:
        print(f"  FAIL {failure}")
    if not arguments.scratch:
        shutil.rmtree(scratch.parent, ignore_errors=True)
    return 1 if judge.failures or not judge.passed else 0


if __name__ == "__main__":
    sys.exit(main())
