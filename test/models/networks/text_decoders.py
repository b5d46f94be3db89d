"""transformers' causal language models: ids in, logits out; causal attention needs no mask."""

from __future__ import annotations

from .network import TEXT, Network
from .tiny import tiny

QUICK = {"GPT2LMHeadModel", "LlamaForCausalLM", "GPTNeoXForCausalLM", "MambaForCausalLM"}
MODELS = """
    ApertusForCausalLM ArceeForCausalLM BartForCausalLM BertLMHeadModel BioGptForCausalLM
    BitNetForCausalLM BloomForCausalLM CodeGenForCausalLM CohereForCausalLM Cohere2ForCausalLM
    CTRLLMHeadModel DeepseekV3ForCausalLM DiffLlamaForCausalLM DogeForCausalLM Exaone4ForCausalLM
    FalconForCausalLM FalconH1ForCausalLM GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
    GlmForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM GPTNeoXForCausalLM
    GPTNeoXJapaneseForCausalLM GptOssForCausalLM GPTJForCausalLM GraniteForCausalLM
    GraniteMoeForCausalLM LlamaForCausalLM JambaForCausalLM JetMoeForCausalLM Lfm2ForCausalLM
    Llama4ForCausalLM MambaForCausalLM MiniCPM3ForCausalLM MiniMaxForCausalLM MistralForCausalLM
    MixtralForCausalLM ModernBertDecoderForCausalLM MptForCausalLM NemotronForCausalLM
    OlmoForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM OpenAIGPTLMHeadModel OPTForCausalLM
    PersimmonForCausalLM PhiForCausalLM Phi3ForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM
    Qwen3MoeForCausalLM RecurrentGemmaForCausalLM RwkvForCausalLM SmolLM3ForCausalLM
    StableLmForCausalLM Starcoder2ForCausalLM XGLMForCausalLM XLMWithLMHeadModel XLNetLMHeadModel
    xLSTMForCausalLM
""".split()
# What the rule of tiny.py does not know.
OWN = {
    "BertLMHeadModel": dict(is_decoder=True),
    "CodeGenForCausalLM": dict(rotary_dim=8),
    "GPTJForCausalLM": dict(rotary_dim=8),
    "DeepseekV3ForCausalLM": dict(num_key_value_heads=4),
    "MiniCPM3ForCausalLM": dict(num_key_value_heads=4),
    "BartForCausalLM": dict(is_decoder=True, is_encoder_decoder=False),
}
MORE = [
    ("GPTNeoForCausalLM", dict(attention_types=[[["global", "local"], 1]], window_size=8)),
    ("Mamba2ForCausalLM", dict(num_heads=8, head_dim=8, state_size=8, n_groups=2)),
    (
        "BambaForCausalLM",
        dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8, attn_layer_indices=[1]),
    ),
    (
        "Qwen3_5ForCausalLM",
        dict(
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
        ),
    ),
    (
        "Qwen3NextForCausalLM",
        dict(
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
        ),
    ),
]


def without_cache(module, **inputs):
    return module(**inputs, use_cache=False).logits


def decoder(name, own):
    def build():
        import transformers

        base = getattr(transformers, name)
        return base(tiny(base.config_class, **own))

    short = name.removesuffix("ForCausalLM").removesuffix("LMHeadModel").removesuffix("Decoder")
    return Network(
        f"{short}_decoder", "transformers", build, TEXT, without_cache, quick=name in QUICK
    )


def networks():
    for name in MODELS:
        yield decoder(name, OWN.get(name, {}))
    for name, own in MORE:
        yield decoder(name, own)
