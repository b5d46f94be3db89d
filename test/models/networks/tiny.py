"""Configurations of transformers' models made tiny: one rule for all, since their fields share
names.

`tiny(config_class, **own)` sets what is known below and leaves the rest as it is; `own` comes last.
Configurations inside configurations (a vision tower's) are made tiny too.
"""

from __future__ import annotations

import dataclasses

VOCABULARY = 96
WIDTH = 32
HEADS = 4
LAYERS = 2
INNER = 64
POSITIONS = 64

# What fields are called in transformers' configurations, and what they become.
SIZES = [
    (VOCABULARY, "vocab_size text_vocab_size n_vocab"),
    (
        WIDTH,
        "hidden_size d_model n_embd dim embed_dim embedding_size word_embed_proj_dim "
        "model_dim n_embed projection_dim kv_channels projector_dim emb_dim lru_width "
        "attention_hidden_size",
    ),
    (
        LAYERS,
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
        "num_encoder_layers num_decoder_layers depth",
    ),
    (
        HEADS,
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
        "decoder_attention_heads attention_heads num_encoder_attention_heads "
        "num_decoder_attention_heads",
    ),
    (
        INNER,
        "intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim "
        "hidden_dim ffn_hidden_size dff d_inner dim_feedforward inner_dim "
        "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size",
    ),
    (
        POSITIONS,
        "max_position_embeddings n_positions max_seq_len max_sequence_length "
        "max_target_positions n_ctx max_source_positions",
    ),
    (
        2,
        "num_key_value_heads num_kv_heads n_head_kv multi_query_group_num "
        "num_experts_per_tok moe_topk",
    ),
    (4, "num_experts n_routed_experts num_local_experts moe_num_experts"),
    (
        8,
        "head_dim d_kv d_head qk_rope_head_dim qk_nope_head_dim v_head_dim q_lora_rank "
        "kv_lora_rank",
    ),
    (0, "bos_token_id decoder_start_token_id pad_token_id"),
    (1, "eos_token_id"),
]
VALUES = {name: value for value, names in SIZES for name in names.split()}


def tiny(config_class, **own):
    """A configuration of `config_class` with tiny sizes, dropout left as it is: networks are
    exported from eval()."""
    settings = {}
    for field in dataclasses.fields(config_class):
        part = (getattr(config_class, "sub_configs", None) or {}).get(field.name)
        if field.name in own:
            continue
        if field.name in VALUES and not isinstance(field.default, (list, tuple)):
            settings[field.name] = VALUES[field.name]
        elif part is not None and dataclasses.is_dataclass(part) and hasattr(part, "model_type"):
            settings[field.name] = tiny(part)
    settings |= {
        name: (
            tiny(config_class.sub_configs[name], **value)
            if isinstance(value, dict)
            and name in (getattr(config_class, "sub_configs", None) or {})
            else value
        )
        for name, value in own.items()
    }
    settings.setdefault("num_labels", 10)
    return config_class(**settings)
