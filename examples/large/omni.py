"""Pictures and sounds into a 30B dense language model: a 6B-shaped ViT, frozen but for its projector, and a
Whisper-medium-shaped encoder that trains; many sounds and few images a sample. Graphs without weights, and the
workload.

    ../../.venv/bin/python omni.py FOLDER [--size tiny] [--layers N]
"""

import argparse
import pathlib

import large
import torch
import transformers
from multimodal import WHISPERS, Audio, Language, projector
from torch import nn

# Hidden width, layers, heads, inner width, pixels along a side, pixels of a patch; 2 x 2 patches make one feature.
VITS = {"6b": (3200, 45, 25, 12800, 448, 14), "tiny": (64, 2, 4, 128, 32, 8)}

WORKLOAD = """\
components:
  vision: {{model: vision.onnx, frozen: ["tower.*"]}}
  audio: {{model: audio.onnx, frozen: ["*.embed_positions.weight"]}}
  language: {{model: language.onnx}}
edges:
  - vision.image_features -> language.image_features
  - audio.sound_features -> language.sound_features
dims:
  batch: {{combine: sum, max: 1}}
  seq: {{combine: max, max: {longest}, multiple_of: 128}}
  images: {{combine: sum, max: 6}}
  sounds: {{combine: sum, max: 10}}
synthetic:
  seq: lognormal({typical}, 0.8)
  images: normal(0.8, 1.2)
  sounds: normal(4, 3)
loss: [{{cross_entropy: {{logits: language.logits, labels: labels}}}}]
train:
  global_batch: 768
  optimizer: {{adamw: {{lr: 1e-4}}}}
  precision: bf16
"""


class Vision(nn.Module):
    def __init__(self, size, to, layers=None):
        super().__init__()
        width, depth, heads, inner, pixels, patch = VITS[size]
        self.side = pixels // patch // 2
        config = transformers.ViTConfig(
            image_size=pixels, patch_size=patch, hidden_size=width, intermediate_size=inner,
            num_hidden_layers=layers or depth, num_attention_heads=heads, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0)
        self.tower = transformers.ViTModel(config, add_pooling_layer=False)
        self.projector = projector(4 * width, to)

    def forward(self, pixels):
        hidden = self.tower(pixels).last_hidden_state[:, 1:]  # Without the class token.
        squares = hidden.reshape(hidden.shape[0], self.side, 2, self.side, 2, hidden.shape[2]).transpose(2, 3)
        return self.projector(squares.reshape(hidden.shape[0], self.side**2, 4 * hidden.shape[2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", default="large", choices=["large", "tiny"])
    parser.add_argument("--layers", type=int, help="as wide, but with so many layers each: exported sooner")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tiny = arguments.size == "tiny"
    llama, vit, whisper = ("tiny", "tiny", "tiny") if tiny else ("30b", "6b", "medium")
    width, vocabulary = large.LLAMAS[llama][0], large.VOCABULARY.get(llama, 128256)
    pixels, (bands, frames) = VITS[vit][4], WHISPERS[whisper][4:6]

    vision = large.on_meta(lambda: Vision(vit, width, arguments.layers))
    audio = large.on_meta(lambda: Audio(whisper, width, arguments.layers))
    language = large.on_meta(lambda: Language(llama, vocabulary - 2, vocabulary - 1, arguments.layers))
    large.export(vision, arguments.folder / "vision.onnx",
                 {"pixels": (torch.empty(3, 3, pixels, pixels, device="meta"), {0: "images"})}, ["image_features"])
    large.export(audio, arguments.folder / "audio.onnx",
                 {"spectrogram": (torch.empty(5, bands, frames, device="meta"), {0: "sounds"})}, ["sound_features"])
    inputs = {
        "input_ids": (torch.zeros(2, 64 if tiny else 4096, dtype=torch.int64, device="meta"), {0: "batch", 1: "seq"}),
        "image_features": (torch.empty(3, vision.side**2, width, device="meta"), {0: "images"}),
        "sound_features": (torch.empty(5, audio.features, width, device="meta"), {0: "sounds"}),
    }
    large.export(language, arguments.folder / "language.onnx", inputs, ["logits"])
    sizes = {"longest": 256, "typical": 96} if tiny else {"longest": 12288, "typical": 1200}
    (arguments.folder / "workload.yaml").write_text(WORKLOAD.format(**sizes))


if __name__ == "__main__":
    main()
