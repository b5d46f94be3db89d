"""Workload and cluster files with one thing wrong, and flags that name what is not there.

Each edit of the valid workload: name, (text, its replacement), words that the message must hold.
"""

from __future__ import annotations

import good

# Misspelt keys and names: (text, its replacement, the word that is wrong, the right one nearest to it).
MISSPELT = [
    ("components:", "componentz:", "componentz", "components"),
    ("{model:", "{modle:", "modle", "model"),
    ("inputs:", "input:", "input", "inputs"),
    ("dtype:", "dtpye:", "dtpye", "dtype"),
    ("shape:", "shpae:", "shpae", "shape"),
    ("pad:", "padd:", "padd", "pad"),
    ("dims:", "dim:", "dim", "dims"),
    ("combine: sum", "combin: sum", "combin", "combine"),
    ("combine: max", "combine: maxx", "maxx", "max"),
    ("multiple_of:", "multiple_off:", "multiple_off", "multiple_of"),
    ("loss:", "losss:", "losss", "loss"),
    ("cross_entropy:", "crossentropy:", "crossentropy", "cross_entropy"),
    ("{logits:", "{logit:", "logit", "logits"),
    ("ignore_index:", "ignore_indx:", "ignore_indx", "ignore_index"),
    ("weight: 1.0", "wieght: 1.0", "wieght", "weight"),
    ("train:", "trian:", "trian", "train"),
    ("global_batch:", "global_bach:", "global_bach", "global_batch"),
    ("optimizer:", "optimiser:", "optimiser", "optimizer"),
    ("adamw:", "adamv:", "adamv", "adamw"),
    ("betas:", "beta:", "beta", "betas"),
    ("weight_decay:", "wieght_decay:", "wieght_decay", "weight_decay"),
    ("no_decay:", "nodecay:", "nodecay", "no_decay"),
    ("schedule:", "shedule:", "shedule", "schedule"),
    ("warmup_steps:", "warmup_step:", "warmup_step", "warmup_steps"),
    ("total_steps:", "total_step:", "total_step", "total_steps"),
    ("min_lr:", "minlr:", "minlr", "min_lr"),
    ("cosine", "cosin", "cosin", "cosine"),
    ("clip_grad_norm:", "clip_grad_nrom:", "clip_grad_nrom", "clip_grad_norm"),
    ("precision:", "precison:", "precison", "precision"),
    ("precision: f32", "precision: bf61", "bf61", "bf16"),
    ("seed:", "sed:", "sed", "seed"),
    ("logits: tokens.", "logits: token.", "token", "tokens"),
    ("tokens.logits,", "tokens.logit,", "logit", "logits"),
    ("labels: labels", "labels: lables", "lables", "labels"),
    ("int64", "int46", "int46", "int64"),
]

# Settings that cannot be meant: the message names the setting.
SETTINGS = {
    "train.global_batch": ["0", "-4", "nan", "many", "1e30", "2.5"],
    "train.optimizer.adamw.lr": ["nan", "-1e-3", "inf", "fast"],
    "train.optimizer.adamw.betas": ["[1.0, 0.9]", "[0.9]", "[nan, 0.9]", "[-0.1, 0.9]"],
    "train.optimizer.adamw.eps": ["-1e-8", "nan"],
    "train.optimizer.adamw.weight_decay": ["nan", "-0.1"],
    "train.schedule.warmup_steps": ["-1", "nan", "20"],  # 20 exceeds total_steps
    "train.schedule.total_steps": ["-1", "0"],
    "train.schedule.min_lr": ["nan", "-1", "1"],  # 1 is above lr
    "train.clip_grad_norm": ["-1", "nan"],
    "train.seed": ["-1", "half"],
    "train.precision": ["f8"],
    "dims.seq.max": ["0", "-1", "nan", "99999999999999999999"],
    "dims.seq.multiple_of": ["0", "-2"],
}

# The whole file: name, content, words.
FILES = {
    "workload empty": ("", ["workload.yaml"]),
    "workload text": ("once upon a time\n", ["workload.yaml"]),
    "workload binary": ("\x00\x01\x02\x7f" * 100, ["workload.yaml"]),
    "workload list": ("- components\n- train\n", ["workload.yaml"]),
    "workload unclosed": ("components: {tokens: {model: tokens.onnx}\n", ["workload.yaml"]),
    "workload without components": ("train: {global_batch: 4}\n", ["components"]),
    "workload nested": ("components: " + "{a: " * 5000 + "}" * 5000, ["workload.yaml"]),
    "workload missing model": ("components: {tokens: {model: gone.onnx}}\n", ["gone.onnx"]),
    "workload foreign model": ("components: {tokens: {model: shard.tar}}\n", ["shard.tar"]),
    "workload missing weights": ("components: {tokens: {model: tokens.onnx, weights: gone.safetensors}}\n",
                                 ["gone.safetensors"]),
    "workload duplicate component": ("components:\n  tokens: {model: tokens.onnx}\n  tokens: {model: mlp.onnx}\n",
                                     ["tokens"]),
    "workload everything frozen": (
        good.WORKLOAD.replace("{model: tokens.onnx}", "{model: tokens.onnx, frozen: true}"), [("frozen", "train")]),
    "workload frozen matches nothing": (
        good.WORKLOAD.replace("{model: tokens.onnx}", '{model: tokens.onnx, frozen: ["embde.*"]}'), ["embde.*"]),
    "workload trainable matches nothing": (
        good.WORKLOAD.replace("{model: tokens.onnx}", '{model: tokens.onnx, trainable: ["lora_*"]}'), ["trainable", "lora_*"]),
    "workload trainable of what is frozen": (
        good.WORKLOAD.replace("{model: tokens.onnx}", '{model: tokens.onnx, frozen: true, trainable: ["*"]}'), ["trainable", "frozen"]),
    "workload saves half": (
        good.WORKLOAD.replace("{model: tokens.onnx}", "{model: tokens.onnx, save: half}"), ["save", "half", "trained"]),
    "workload loss of an input": (good.WORKLOAD.replace("logits: tokens.logits", "logits: tokens.input_ids"),
                                  ["input_ids"]),
    "workload two optimizers": (good.WORKLOAD.replace("{adamw: {", "{sgd: {lr: 1}, adamw: {"), ["optimizer"]),
    "workload muon of no iteration": (good.WORKLOAD.replace("{adamw: {", "{muon: {ns_steps: 0, "), ["ns_steps", "0"]),
    "workload muon by another rate": (good.WORKLOAD.replace("{adamw: {", "{muon: {adjust_lr: twice, "), ["adjust_lr", "twice", "match_rms_adamw"]),
    "workload adafactor with one eps": (good.WORKLOAD.replace("{adamw: {", "{adafactor: {").replace("betas: [0.9, 0.95], eps: 1e-8", "eps: 1e-7"), ["eps", "two numbers"]),
    "workload averages that never decay": (good.WORKLOAD.replace("global_batch:", "ema: 1.0\n  global_batch:"), ["ema", "1"]),
    "workload edge to nowhere": (good.WORKLOAD + "edges:\n  - tokens.logits -> tokenz.input_ids\n",
                                 ["tokenz", "tokens"]),
    "workload edge malformed": (good.WORKLOAD + "edges:\n  - tokens.logits\n", ["tokens.logits"]),
    "workload input to nowhere": (good.WORKLOAD.replace("pad: -100}", "pad: -100}\n  words: {to: [tokens.input_idz]}"),
                                  ["input_idz", "input_ids"]),
    "workload key twice": (good.WORKLOAD + "  seed: 1\n", ["seed"]),
    "workload weights of 0": (good.WORKLOAD.replace("weight: 1.0", "weight: 0"), ["loss", "weight"]),
    "workload synthetic dim": (good.WORKLOAD + "synthetic: {sek: uniform(1, 5), batch: uniform(0, 5)}\n", ["synthetic.sek", "'seq'"]),
    "workload rows in two dims": (good.WORKLOAD.replace("seq: {combine: max", "seq: {combine: sum"), ["input_ids", "combine"]),
    "workload no rows": (good.WORKLOAD.replace("batch: {combine: sum", "batch: {combine: max"), ["combine", "dynamic_shapes"]),
    "workload rank contradiction": (good.WORKLOAD.replace("shape: [batch, seq], pad", "shape: [batch], pad"),
                                    ["labels"]),
}

# Arguments after `maestro-plan workload.yaml -o plan.mpl`: name, arguments, words.
PLAN_FLAGS = {
    "flag unknown": (["--dead-line", "10s"], ["--dead-line"]),
    "flag deadline": (["--deadline", "soon"], ["deadline"]),
    "flag set misspelt": (["--set", "train.globl_batch=4"], ["globl_batch", "global_batch"]),
    "flag set without value": (["--set", "train.global_batch"], ["train.global_batch"]),
    "flag pin misspelt decision": (["--pin", "*.microbatch=3"], ["microbatch", "micro_batch"]),
    "flag pin misspelt section": (["--pin", "token.micro_batch=3"], ["token", "tokens"]),
    "flag cut misspelt": (["--set", "components.tokens.cuts=[embde]"], ["components.tokens.cuts", "embde", "embed"]),
    "flag cut at the start": (["--set", "components.tokens.cuts=[embed]"], ["tokens.embed", "later"]),
    "flag pin zero": (["--pin", "*.micro_batch=0"], ["micro_batch"]),
    "flag pin negative": (["--pin", "*.micro_batch=-3"], ["micro_batch"]),
    "flag pin words": (["--pin", "*.micro_batch=many"], ["micro_batch"]),
    "flag pin too many chunks": (["--pin", "*.loss_chunks=1000"], ["loss_chunks=1000", "256"]),
    "flag pin tensor words": (["--pin", "tokens.tensor=many"], ["tensor=many"]),
    "flag pin tensor without block": (["--pin", "tokens.tensor=2"], ["tokens.tensor=2", "MLP block"]),
    "flag pin given twice": (["--pin", "tokens.dp=2", "--pin", "tokens.dp=4"], ["tokens.dp=2", "tokens.dp=4"]),
    "flag pin device twice": (["--set", "cluster.devices_per_node=2", "--pin", "tokens.devices=0,0"], ["tokens.devices=0,0", "device 0 twice"]),
    "flag pin devices left idle": (["--set", "cluster.devices_per_node=4", "--pin", "*.devices=0-3", "--pin", "tokens.dp=2", "--pin", "*.stages=1"],
                                   ["*.devices=0-3", "tokens.dp=2", "*.stages=1", "4 devices", "2 of them"]),
    "flag pin more stages than places": (["--set", "cluster.devices_per_node=8", "--pin", "tokens.stages=8"], ["tokens.stages=8", "at most"]),
    "flag top-k": (["--top-k", "0"], ["error: --top-k", "'0'", "from 1"]),
    "flag set cluster misspelt": (["--set", "cluster.devices_per_nod=2"], ["cluster.devices_per_nod", "devices_per_node"]),
    "flag stop-after": (["--stop-after", "diferentiate"], ["diferentiate"]),
    "flag cluster missing": (["--cluster", "gone.yaml"], ["gone.yaml"]),
    "flag cluster devices": (["--set", "cluster.devices_per_node=0"], ["devices_per_node"]),
}

_CLUSTER = "nodes: 2\ndevices_per_node: 8\ndevice: h100-sxm\n"
_INNER = "links:\n  - {name: nvlink, spans: 8, bandwidth: 450 GB/s, latency: 2 us}\n"
_OUTER = "  - {name: rail, spans: 16, bandwidth: 50 GB/s, latency: 6 us}\n"

# Cluster files: (text, words that the message must hold). device.yaml lies beside them.
CLUSTERS = {
    "cluster device misspelt": (_CLUSTER.replace("sxm", "sxn") + _INNER + _OUTER, ["h100-sxn", "h100-sxm", "cluster.yaml:3"]),
    "cluster device unknown": (_CLUSTER.replace("h100-sxm", "abacus") + _INNER + _OUTER, ["abacus", "a100-80gb", "l40s"]),
    "cluster device missing": ("nodes: 1\ndevices_per_node: 8\n", ["device", "cpu", "h200"]),
    "cluster devices uncounted": ("device: h200\n", ["devices_per_node"]),
    "cluster without links": (_CLUSTER, ["8 of 16", "links", "bandwidth"]),
    "cluster not joined": (_CLUSTER + _INNER, ["8 of 16", "spans: 16"]),
    "cluster spans do not divide": (_CLUSTER + _INNER + _OUTER.replace("16", "12"), ["spans", "12", "8"]),
    "cluster spans descend": (_CLUSTER + _INNER + _OUTER.replace("16", "4"), ["spans", "4", "innermost"]),
    "cluster devices do not divide": ("devices_per_node: 8\ndevice: h200\nlinks: [{name: x, spans: 3, bandwidth: 1 GB/s}, "
                                      "{name: y, spans: 9, bandwidth: 1 GB/s}]\n", ["'x'", "3", "8"]),
    "cluster bandwidth zero": (_CLUSTER + _INNER.replace("450", "0") + _OUTER, ["bandwidth", "above 0"]),
    "cluster bandwidth without unit": (_CLUSTER + _INNER.replace("450 GB/s", "450") + _OUTER, ["bandwidth", "450 GB/s"]),
    "cluster latency unit": (_CLUSTER + _INNER.replace("2 us", "2 GB") + _OUTER, ["latency", "2 us"]),
    "cluster kinds and nodes": (_CLUSTER.replace("h100-sxm", "[h100-sxm, h200, b200]") + _INNER + _OUTER, ["3", "2 nodes"]),
    "cluster mixes processors": (_CLUSTER.replace("h100-sxm", "[h100-sxm, cpu]") + _INNER + _OUTER, ["'cpu'", "h100-sxm"]),
    "cluster memory below the reserve": ("memory: 1 GB\n" + _CLUSTER + _INNER + _OUTER, ["memory", "1000000000"]),
    "cluster memory unit": ("memory: 80\n" + _CLUSTER + _INNER + _OUTER, ["memory", "80 GB"]),
    "cluster key misspelt": (_CLUSTER.replace("nodes:", "node:") + _INNER + _OUTER, ["node", "nodes"]),
    "cluster profile of another kind": ("devices_per_node: 2\ndevice: device.yaml\n", ["device.yaml", "'gpu'", "h100-sxm"]),
    "cluster profile gone": ("devices_per_node: 2\ndevice: gone.yaml\n", ["gone.yaml"]),
    "cluster too large": ("nodes: 1000000\ndevices_per_node: 1024\ndevice: h200\n", ["1000000", "1024"]),
}
OTHER_PROFILE = "kind: gpu\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]\n"


def misspelt_edits():
    """(name, workload text, words): the misspelt word is named, and the right one."""
    for text, replacement, wrong, right in MISSPELT:
        edited = good.WORKLOAD.replace(text, replacement, 1)
        assert edited != good.WORKLOAD, text
        yield f"misspelt {replacement.rstrip(':')}", edited, [wrong, right]
