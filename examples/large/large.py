"""What the large examples share: networks of published sizes, exported without weights under torch.device("meta"), so that a laptop
plans them. Files are made where they are asked for; they are too large to be committed.
"""

import pathlib
import sys

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import weightless  # noqa: E402

# Hidden width, layers, heads, key-value heads, inner width. Published shapes: Llama 3 (70b, 8b, 1b), Code Llama (34b),
# Llama 2 (13b). 30b has the first Llama's width and depth, few key-value heads, and as inner width what 24 experts of
# 768 make together. "tiny" is for tests.
LLAMAS = {
    "70b": (8192, 80, 64, 8, 28672),
    "34b": (8192, 48, 64, 8, 22016),
    "30b": (6656, 60, 52, 4, 18432),
    "13b": (5120, 40, 40, 40, 13824),
    "8b": (4096, 32, 32, 8, 14336),
    "1b": (2048, 16, 32, 8, 8192),
    "tiny": (64, 2, 4, 2, 128),
}
VOCABULARY = {"tiny": 512}


class NextToken(transformers.LlamaForCausalLM):
    """Logits alone: the losses are named in the workload."""

    def forward(self, input_ids):
        return super().forward(input_ids=input_ids, use_cache=False).logits


def llama_config(size, layers=None):
    width, depth, heads, kv_heads, inner = LLAMAS[size]
    return transformers.LlamaConfig(
        vocab_size=VOCABULARY.get(size, 128256), hidden_size=width, intermediate_size=inner, num_hidden_layers=layers or depth,
        num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=8192, rope_theta=500000.0,
        tie_word_embeddings=False, use_cache=False)


def on_meta(make):
    """The network that `make` makes, without memory for its parameters; what is computed from sizes alone keeps its values."""
    with torch.device("meta"):
        network = make()
    for module in network.modules():  # A rotary embedding's frequencies are in no checkpoint.
        if hasattr(module, "rope_init_fn") or hasattr(module, "inv_freq"):
            config = module.config
            width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta", 10000.0)
            module.inv_freq = 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
            if hasattr(module, "original_inv_freq"):
                module.original_inv_freq = module.inv_freq.clone()  # Both names need a value.
    return network


def export(network, path, inputs, outputs):
    weightless.export(network, path, inputs, outputs)
