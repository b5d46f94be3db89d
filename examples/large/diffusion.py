"""Text to pictures: a 4B diffusion transformer (PixArt's, from diffusers) learns to denoise the latents of a frozen
autoencoder, given captions encoded by a frozen T5-XXL-shaped encoder. Graphs without weights, and the workload.

    ../../.venv/bin/python diffusion.py FOLDER [--size tiny] [--layers N]

The loss is rectified flow's: the network sees (1 - time) * latents + time * noise, and learns noise - latents by the
mean squared error. Time and noise are fields of the data.
"""

import argparse
import pathlib

import diffusers
import large
import torch
import transformers
from diffusers.models.embeddings import PixArtAlphaTextProjection
from torch import nn

# Transformer: heads, width of a head, layers. Autoencoder: channels of its levels, between which the sides are halved;
# pixels along a side. Text: width, layers, heads, inner width, vocabulary.
SIZES = {
    "large": {
        "transformer": (20, 128, 40),
        "autoencoder": ((128, 256, 512, 512), 512),
        "text": (4096, 24, 64, 10240, 32128),
    },
    "tiny": {"transformer": (2, 32, 2), "autoencoder": ((16, 32), 32), "text": (64, 2, 4, 128, 512)},
}
LATENT_CHANNELS, PATCH = 4, 2

WORKLOAD = """\
components:
  text: {{model: text.onnx, frozen: true}}
  autoencoder: {{model: autoencoder.onnx, frozen: true}}
  transformer: {{model: transformer.onnx}}
edges:
  - text.caption -> transformer.caption
  - autoencoder.latents -> transformer.latents
dims:
  batch: {{combine: sum, max: 1}}
  seq: {{combine: max, max: {longest}}}
synthetic:
  seq: lognormal({typical}, 0.7)
loss: [{{mean: {{value: transformer.error}}}}]
train:
  global_batch: 2048
  optimizer: {{adamw: {{lr: 1e-4}}}}
  precision: bf16
"""


class Text(nn.Module):
    def __init__(self, width, layers, heads, inner, vocabulary):
        super().__init__()
        self.encoder = transformers.T5EncoderModel(transformers.T5Config(
            vocab_size=vocabulary, d_model=width, d_kv=width // heads, d_ff=inner, num_layers=layers, num_heads=heads,
            feed_forward_proj="gated-gelu", dropout_rate=0.0))

    def forward(self, input_ids, mask):
        return self.encoder(input_ids=input_ids, attention_mask=mask).last_hidden_state


class Encoder(nn.Module):
    """An autoencoder's encoder: the mean of the latents' distribution, scaled."""

    def __init__(self, channels):
        super().__init__()
        levels = len(channels)
        whole = diffusers.AutoencoderKL(
            block_out_channels=channels, layers_per_block=2, latent_channels=LATENT_CHANNELS,
            norm_num_groups=min(32, channels[0]), down_block_types=["DownEncoderBlock2D"] * levels,
            up_block_types=["UpDecoderBlock2D"] * levels)
        self.encoder, self.quant_conv, self.scale = whole.encoder, whole.quant_conv, whole.config.scaling_factor

    def forward(self, pixels):
        return self.scale * self.quant_conv(self.encoder(pixels))[:, :LATENT_CHANNELS]


class Denoiser(nn.Module):
    def __init__(self, heads, head, layers, side, caption):
        super().__init__()
        width = heads * head
        self.projection = PixArtAlphaTextProjection(caption, width)  # The network's own fixes the caption's length.
        self.network = diffusers.PixArtTransformer2DModel(
            num_attention_heads=heads, attention_head_dim=head, num_layers=layers, in_channels=LATENT_CHANNELS,
            out_channels=LATENT_CHANNELS, cross_attention_dim=width, caption_channels=None, sample_size=side,
            patch_size=PATCH, use_additional_conditions=False)
        # The network squeezes dim 1 of this, which PyTorch ignores where it is not 1, and ONNX forbids.
        self.network.proj_out.register_forward_hook(lambda module, inputs, output: output.unsqueeze(1))
        places = self.network.pos_embed  # A table of sines: it comes with the weights here.
        places.register_buffer("pos_embed", places.pos_embed, persistent=True)

    def forward(self, latents, noise, time, caption, mask):
        for other in (noise, time, caption, mask):  # The exporter gives each input a batch of its own.
            torch._check(other.shape[0] == latents.shape[0])
        torch._check(caption.shape[1] == mask.shape[1])
        part = time.reshape(-1, 1, 1, 1)
        found = self.network(
            (1 - part) * latents + part * noise, encoder_hidden_states=self.projection(caption),
            encoder_attention_mask=mask, timestep=1000 * time, return_dict=False)[0]
        return (found - (noise - latents)).square().mean((1, 2, 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", default="large", choices=SIZES)
    parser.add_argument("--layers", type=int, help="as wide, but with so many layers each: exported sooner")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    size = SIZES[arguments.size]
    (channels, pixels), (width, depth, *text) = size["autoencoder"], size["text"]
    heads, head, layers = size["transformer"]
    side = pixels >> (len(channels) - 1)

    def rows(*shape):
        return torch.empty(2, *shape, device="meta"), {0: "batch"}

    def words(*shape, dtype=torch.float32):
        return torch.zeros(2, 64, *shape, dtype=dtype, device="meta"), {0: "batch", 1: "seq"}

    latents = (LATENT_CHANNELS, side, side)
    encoder = large.on_meta(lambda: Text(width, arguments.layers or depth, *text))
    autoencoder = large.on_meta(lambda: Encoder(channels))
    denoiser = large.on_meta(lambda: Denoiser(heads, head, arguments.layers or layers, side, width))
    large.export(encoder, arguments.folder / "text.onnx",
                 {"input_ids": words(dtype=torch.int64), "mask": words()}, ["caption"])
    large.export(autoencoder, arguments.folder / "autoencoder.onnx", {"pixels": rows(3, pixels, pixels)}, ["latents"])
    large.export(denoiser, arguments.folder / "transformer.onnx",
                 {"latents": rows(*latents), "noise": rows(*latents), "time": rows(), "caption": words(width),
                  "mask": words()}, ["error"])
    sizes = {"longest": 64, "typical": 24} if arguments.size == "tiny" else {"longest": 512, "typical": 96}
    (arguments.folder / "workload.yaml").write_text(WORKLOAD.format(**sizes))


if __name__ == "__main__":
    main()
