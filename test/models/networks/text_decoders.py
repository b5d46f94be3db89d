"""transformers' causal language models: ids in, logits out; causal attention needs no mask."""

from __future__ import annotations

from .network import TEXT, Network
from .tiny import tiny

QUICK = {"GPT2LMHeadModel", "LlamaForCausalLM", "GPTNeoXForCausalLM"}
MODELS = """GPT2LMHeadModel LlamaForCausalLM GPTNeoXForCausalLM""".split()


def without_cache(module, **inputs):
    return module(**inputs, use_cache=False).logits


def decoder(name, **own):
    def build():
        import transformers

        base = getattr(transformers, name)
        return base(tiny(base.config_class, **own))

    return Network(name.removesuffix("ForCausalLM").removesuffix("LMHeadModel"), "transformers", build, TEXT, without_cache,
                   quick=name in QUICK)


def networks():
    yield from map(decoder, MODELS)
