"""Pictures (and sounds) into a language model: a 2B-shaped ViT with a projector, an 8B-shaped Llama, 0 to 16 images a sample; with
--sounds also a Whisper-large-shaped encoder. Graphs without weights, and the workload.

    ../../.venv/bin/python multimodal.py FOLDER [--sounds] [--size tiny] [--layers N]
"""

import argparse
import pathlib

import large
import torch
import transformers
from torch import nn

# Hidden width, layers, heads, inner width, pixels along a side, pixels of a patch.
VITS = {"2b": (1664, 48, 16, 8192, 448, 28), "tiny": (64, 2, 4, 128, 32, 16)}
# Width, layers, heads, inner width, bands, frames, positions that make one feature.
WHISPERS = {
    "large": (1280, 32, 20, 5120, 128, 3000, 12),
    "medium": (1024, 24, 16, 4096, 80, 3000, 4),
    "tiny": (64, 2, 4, 128, 16, 32, 4),
}


def projector(width, to):
    return nn.Sequential(nn.Linear(width, to), nn.GELU(), nn.Linear(to, to))


class Vision(nn.Module):
    def __init__(self, size, to, layers=None):
        super().__init__()
        width, depth, heads, inner, image, patch = VITS[size]
        self.tower = transformers.ViTModel(transformers.ViTConfig(
            image_size=image, patch_size=patch, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers or depth,
            num_attention_heads=heads, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), add_pooling_layer=False)
        self.projector = projector(width, to)

    def forward(self, pixels):
        return self.projector(self.tower(pixels).last_hidden_state[:, 1:])  # Without the class token.


class Audio(nn.Module):
    def __init__(self, size, to, layers=None):
        super().__init__()
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        width, depth, heads, inner, bands, frames, joined = WHISPERS[size]
        self.joined, self.features = joined, frames // 2 // joined
        self.tower = WhisperEncoder(transformers.WhisperConfig(
            d_model=width, encoder_layers=layers or depth, encoder_attention_heads=heads, encoder_ffn_dim=inner, num_mel_bins=bands,
            max_source_positions=frames // 2))
        self.projector = projector(joined * width, to)

    def forward(self, spectrogram):
        hidden = self.tower(spectrogram, return_dict=True).last_hidden_state
        return self.projector(hidden.reshape(hidden.shape[0], self.features, -1))


class Language(nn.Module):
    def __init__(self, size, image, sound, layers=None):
        super().__init__()
        self.llama = transformers.LlamaForCausalLM(large.llama_config(size, layers))
        self.image, self.sound = image, sound

    def forward(self, input_ids, image_features, sound_features=None):
        hidden = self.llama.model.embed_tokens(input_ids)
        for token, features in ((self.image, image_features), (self.sound, sound_features)):
            if features is not None:
                hidden = hidden.masked_scatter((input_ids == token).unsqueeze(-1), features)
        return self.llama(inputs_embeds=hidden, use_cache=False).logits


WORKLOAD = """\
components:
  vision: {{model: vision.onnx}}
{audio}  language: {{model: language.onnx}}
edges:
  - vision.image_features -> language.image_features
{edge}dims:
  batch: {{combine: sum, max: 1}}
  seq: {{combine: max, max: {longest}, multiple_of: 64}}
  images: {{combine: sum, max: 16}}
{dim}synthetic:
  seq: lognormal({typical}, 0.5)
  images: normal(3, 4)
{size}loss: [{{cross_entropy: {{logits: language.logits, labels: labels}}}}]
train:
  global_batch: 512
  optimizer: {{adamw: {{lr: 1e-4}}}}
  precision: bf16
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sounds", action="store_true")
    parser.add_argument("--size", default="large", choices=["large", "tiny"])
    parser.add_argument("--layers", type=int, help="as wide, but with so many layers each: exported sooner")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tiny = arguments.size == "tiny"
    llama, vit, whisper = ("tiny", "tiny", "tiny") if tiny else ("8b", "2b", "large")
    width = large.LLAMAS[llama][0]
    vocabulary = large.VOCABULARY.get(llama, 128256)
    image, sound = vocabulary - 2, vocabulary - 1
    pixels, patch = VITS[vit][4], VITS[vit][5]
    patches = (pixels // patch) ** 2
    bands, frames = WHISPERS[whisper][4], WHISPERS[whisper][5]
    large.export(large.on_meta(lambda: Vision(vit, width, arguments.layers)), arguments.folder / "vision.onnx",
                 {"pixels": (torch.empty(3, 3, pixels, pixels, device="meta"), {0: "images"})}, ["image_features"])
    text = {0: "batch", 1: "seq"}
    inputs = {"input_ids": (torch.zeros(2, 4096 if not tiny else 64, dtype=torch.int64, device="meta"), text),
              "image_features": (torch.empty(3, patches, width, device="meta"), {0: "images"})}
    if arguments.sounds:
        audio = large.on_meta(lambda: Audio(whisper, width, arguments.layers))
        large.export(audio, arguments.folder / "audio.onnx",
                     {"spectrogram": (torch.empty(5, bands, frames, device="meta"), {0: "sounds"})}, ["sound_features"])
        inputs["sound_features"] = (torch.empty(5, audio.features, width, device="meta"), {0: "sounds"})
    large.export(large.on_meta(lambda: Language(llama, image, sound, arguments.layers)), arguments.folder / "language.onnx", inputs, ["logits"])
    sounds = arguments.sounds
    (arguments.folder / "workload.yaml").write_text(WORKLOAD.format(
        audio="  audio: {model: audio.onnx}\n" if sounds else "", edge="  - audio.sound_features -> language.sound_features\n" if sounds else "",
        dim="  sounds: {combine: sum, max: 4}\n" if sounds else "", size="  sounds: normal(1, 1)\n" if sounds else "",
        longest=256 if tiny else 8192, typical=96 if tiny else 2048))


if __name__ == "__main__":
    main()
