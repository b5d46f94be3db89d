"""Exports three components as graphs without weights: a ViT with a projector, a Whisper encoder with a projector, and a
Llama over bytes that reads their features where its ids are marked tokens.

    ../../.venv/bin/python export.py          # writes vision.onnx, audio.onnx and language.onnx beside this file
"""

import pathlib
import sys

import torch
import transformers
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import weightless  # noqa: E402

WIDTH = 96  # of the language model
IMAGE, SOUND = 256, 257  # marked tokens behind the bytes
PATCHES = 4  # features of one image: 32 × 32 pixels in patches of 16
FRAMES, SEGMENTS = 32, 4  # spectrogram frames of one sound, and the features made of them
BANDS = 16


def projector(width):
    return nn.Sequential(nn.Linear(width, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = transformers.ViTModel(transformers.ViTConfig(
            image_size=32, patch_size=16, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), add_pooling_layer=False)
        self.projector = projector(64)

    def forward(self, pixels):
        return self.projector(self.tower(pixels).last_hidden_state[:, 1:])  # Without the class token.


class Audio(nn.Module):
    """Whisper's encoder halves the frames; every four of its positions make one feature."""

    def __init__(self):
        super().__init__()
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        self.tower = WhisperEncoder(transformers.WhisperConfig(
            d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=BANDS,
            max_source_positions=FRAMES // 2))
        self.projector = projector(4 * 64)

    def forward(self, spectrogram):
        hidden = self.tower(spectrogram, return_dict=True).last_hidden_state
        return self.projector(hidden.reshape(hidden.shape[0], SEGMENTS, 4 * 64))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=258, hidden_size=WIDTH, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, use_cache=False))

    def forward(self, input_ids, image_features, sound_features):
        hidden = self.llama.model.embed_tokens(input_ids)
        for token, features in ((IMAGE, image_features), (SOUND, sound_features)):
            hidden = hidden.masked_scatter((input_ids == token).unsqueeze(-1), features)
        return self.llama(inputs_embeds=hidden, use_cache=False).logits


def main():
    ids = torch.zeros(2, 40, dtype=torch.int64)
    ids[0, : 3 * PATCHES], ids[1, : 5 * SEGMENTS] = IMAGE, SOUND
    text = {0: "batch", 1: "seq"}
    weightless.export(Vision(), HERE / "vision.onnx", {"pixels": (torch.randn(3, 3, 32, 32), {0: "images"})}, ["image_features"])
    weightless.export(Audio(), HERE / "audio.onnx", {"spectrogram": (torch.randn(5, BANDS, FRAMES), {0: "sounds"})},
                      ["sound_features"])
    weightless.export(Language(), HERE / "language.onnx", {
        "input_ids": (ids, text), "image_features": (torch.randn(3, PATCHES, WIDTH), {0: "images"}),
        "sound_features": (torch.randn(5, SEGMENTS, WIDTH), {0: "sounds"})}, ["logits"])


if __name__ == "__main__":
    main()
