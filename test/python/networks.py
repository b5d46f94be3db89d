"""Small networks of random weights, each parameter's gradient clear of rounding."""

from __future__ import annotations

import torch
import transformers
import zoo

VOCABULARY = 128


def llama(tied: bool = True, layers: int = 2, width: int = 32) -> transformers.LlamaForCausalLM:
    return transformers.LlamaForCausalLM(llama_config(tied, layers, width))


def llama_config(tied: bool = True, layers: int = 2, width: int = 32) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
    )


def gpt2() -> transformers.GPT2LMHeadModel:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None
        )
    )


def mixtral() -> transformers.MixtralForCausalLM:
    return transformers.MixtralForCausalLM(
        transformers.MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            max_position_embeddings=64,
        )
    )


def t5() -> transformers.T5ForConditionalGeneration:
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=1,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )


def bert() -> transformers.BertForSequenceClassification:
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=40,
            num_labels=5,
        )
    )


class Tagger(torch.nn.Module):
    """No library's: a padded vocabulary, a frozen part, a buffer that no checkpoint holds, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, 16, padding_idx=0)
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.BatchNorm1d(24, affine=False)
        )
        self.head = torch.nn.Linear(24, 6)
        self.register_buffer("scale", torch.linspace(0.5, 2.0, 24), persistent=False)
        self.inner[0].bias.requires_grad_(False)

    def forward(self, words: torch.Tensor, boost: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.inner(self.words(words).flatten(0, 1)).unflatten(0, words.shape) * self.scale * boost
        return self.head(hidden), hidden


def seeded(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    return zoo.initialise(module, seed)


class Gated(torch.nn.Module):
    """Values that learn nothing, each in a block of its own kind."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = (torch.nn.Linear(*sizes) for sizes in ((12, 16), (16, 16), (16, 10)))

    @torch.no_grad()
    def scale(self, hidden):
        return hidden.abs().amax(-1, keepdim=True), torch.sigmoid(self.second(hidden))

    def forward(self, features):
        hidden = self.first(features)
        with torch.no_grad():
            gate = torch.sigmoid(2 * hidden)
        scale, weight = self.scale(hidden)
        return self.head(hidden * gate + torch.tanh(hidden) / (1 + scale) + weight * self.second(hidden))
