"""Compound models: encoders whose features take the place of marked tokens in a language model; the family `compound`.

Each comes whole, as one graph, and in the parts that a workload joins with edges:

    whole                    parts
    llava_logits, llava_loss llava_vision -> image_features -> llava_language
    speech_logits            speech_encoder -> audio_features -> speech_language
                             llava_vision, speech_encoder -> omni_language, which takes both

A sample has 0 to 3 images and 0 to 2 clips; its ids hold one marked token per feature. Text, images and clips are rows
of their own dims (`batch`, `images`, `clips`), so a micro-batch may have no row of one.
"""

from __future__ import annotations

import numpy
import torch
from torch import nn

from zoo import HEADS, IDS, IGNORE, LABELS, LAYERS, LLAMA, VOCABULARY, WIDTH, Case, Field, cross_entropy, own_loss

IMAGE_TOKEN, AUDIO_TOKEN = 1, 2  # shards.py draws no ids below 3
PATCHES = 4  # features of one image, 32 × 32 in patches of 16
FRAMES, POSITIONS, STACK = 32, 16, 4  # mel frames of one clip; what its encoder makes of them; how many make a feature
SEGMENTS = POSITIONS // STACK  # features of one clip

PIXELS = Field(("images", 3, 32, 32), "normal")
MEL = Field(("clips", 16, FRAMES), "normal")
IMAGE_FEATURES = Field(("images", PATCHES, WIDTH), "normal")
AUDIO_FEATURES = Field(("clips", SEGMENTS, WIDTH), "normal")

VISION = dict(image_size=32, patch_size=16, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
              num_attention_heads=HEADS)
SPEECH = dict(d_model=WIDTH, encoder_layers=LAYERS, encoder_attention_heads=HEADS, encoder_ffn_dim=128, num_mel_bins=16,
              max_source_positions=POSITIONS, vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=0,
              eos_token_id=0, decoder_start_token_id=0)


def merged(embeddings, ids, token, features):
    """The embeddings with `features`, in order, where ids are `token`."""
    return embeddings.masked_scatter((ids == token).unsqueeze(-1), features.to(embeddings.dtype))


# ---- LLaVA --------------------------------------------------------------------------------------------------------


def llava_config():
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig

    return LlavaConfig(vision_config=CLIPVisionConfig(**VISION), text_config=LlamaConfig(**LLAMA),
                       image_token_id=IMAGE_TOKEN, vision_feature_layer=-2)


def llava(with_loss: bool):
    """transformers' LLaVA, but for two methods that do not export: list(features) fixes the number of images, and the check
    of the placeholders' number is no ONNX operator."""

    def build():
        from transformers import LlavaForConditionalGeneration
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        class Network(LlavaForConditionalGeneration):
            def __init__(self, config):
                super().__init__(config)
                self.model.get_image_features = self.image_features
                self.model.get_placeholder_mask = lambda ids, **_: (ids == IMAGE_TOKEN).unsqueeze(-1)

            def image_features(self, pixel_values, **_):
                return BaseModelOutputWithPooling(pooler_output=[features_of(self.model, pixel_values)])

            if with_loss:

                def forward(self, input_ids, pixel_values, labels):
                    return super().forward(input_ids=input_ids, pixel_values=pixel_values, labels=labels,
                                           use_cache=False).loss

            else:

                def forward(self, input_ids, pixel_values):
                    return super().forward(input_ids=input_ids, pixel_values=pixel_values, use_cache=False).logits

        Network.__name__ = "LlavaForConditionalGeneration"
        return Network(llava_config())

    return build


def features_of(model, pixel_values):
    """What LLaVA makes of its images: the last layer but one, without the class token, projected."""
    hidden = model.vision_tower(pixel_values, output_hidden_states=True, return_dict=True).hidden_states[-2]
    return model.multi_modal_projector(hidden[:, 1:])


class LlavaVision(nn.Module):
    """Vision tower and projector under the names that LLaVA's state_dict has below `model.`."""

    def __init__(self):
        super().__init__()
        from transformers import AutoModel
        from transformers.models.llava.modeling_llava import LlavaMultiModalProjector

        config = llava_config()
        self.vision_tower = AutoModel.from_config(config.vision_config)
        self.multi_modal_projector = LlavaMultiModalProjector(config)

    def forward(self, pixel_values):
        return features_of(self, pixel_values)


# ---- speech -------------------------------------------------------------------------------------------------------


class SpeechEncoder(nn.Module):
    """Whisper's encoder; every STACK of its positions make one feature in the language model's width."""

    def __init__(self):
        super().__init__()
        from transformers import WhisperConfig
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        self.audio_tower = WhisperEncoder(WhisperConfig(**SPEECH))
        self.projector = nn.Sequential(nn.Linear(STACK * WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, input_features):
        hidden = self.audio_tower(input_features, return_dict=True).last_hidden_state
        return self.projector(hidden.reshape(hidden.shape[0], SEGMENTS, STACK * WIDTH))


class Language(nn.Module):
    """A Llama that reads features of other components where its ids are marked tokens."""

    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM

        self.language_model = LlamaForCausalLM(LlamaConfig(**LLAMA, use_cache=False))

    def logits(self, input_ids, **features):
        hidden = self.language_model.model.embed_tokens(input_ids)
        for token, values in ((IMAGE_TOKEN, features.get("image")), (AUDIO_TOKEN, features.get("audio"))):
            if values is not None:
                hidden = merged(hidden, input_ids, token, values)
        return self.language_model(inputs_embeds=hidden, use_cache=False).logits


class LlavaLanguage(Language):
    def forward(self, input_ids, image_features):
        return self.logits(input_ids, image=image_features)


class SpeechLanguage(Language):
    def forward(self, input_ids, audio_features):
        return self.logits(input_ids, audio=audio_features)


class OmniLanguage(Language):
    def forward(self, input_ids, image_features, audio_features):
        return self.logits(input_ids, image=image_features, audio=audio_features)


class Speech(Language):
    """Encoder and language model as one graph."""

    def __init__(self):
        super().__init__()
        self.encoder = SpeechEncoder()

    def forward(self, input_ids, input_features):
        return self.logits(input_ids, audio=self.encoder(input_features))


# ---- data ---------------------------------------------------------------------------------------------------------


def compound_sample(fields: dict, random: numpy.random.Generator, index: int, draw) -> dict:
    """Text of 3 to 16 ids with a run of marked tokens per image and clip; every third sample has none of either (of
    these, every other one lacks the fields, the rest hold arrays without rows). Marked tokens have no label."""
    modalities = [(name, token, length, most) for name, token, length, most in (
        ("pixel_values", IMAGE_TOKEN, PATCHES, 3), ("image_features", IMAGE_TOKEN, PATCHES, 3),
        ("input_features", AUDIO_TOKEN, SEGMENTS, 2), ("audio_features", AUDIO_TOKEN, SEGMENTS, 2)) if name in fields]
    plain = index % 3 == 0
    sample, runs = {}, []
    for name, token, length, most in modalities:
        count = 0 if plain else int(random.integers(0, most + 1))
        runs += [[token] * length] * count
        if count or index % 2:
            sample[name] = draw("normal", 0, (count, *fields[name].dims[1:]), random, True)
    text = draw("ids", VOCABULARY, (int(random.integers(3, 17)),), random, True)
    cuts = numpy.sort(random.integers(0, len(text) + 1, len(runs)))
    pieces = []
    for run, piece in zip([*runs, []], numpy.split(text, cuts)):
        pieces += [piece, numpy.array(run, numpy.int64)]
    ids = numpy.concatenate(pieces)
    labels = draw("labels", VOCABULARY, ids.shape, random, counted=index % 7 != 5)
    return {**sample, "input_ids": ids, "labels": numpy.where(ids < 3, IGNORE, labels)}


def workload(name, rows, loss, extra=""):
    return (f"components: {{{name}: {{model: {{model}}{extra}}}}}\n"
            f"dims: {{batch: {{max: 1}}, seq: {{max: 64}}, {rows}}}\n{loss}")


def compound_cases():
    text = {"input_ids": IDS, "labels": LABELS}
    images, clips = "images: {max: 3}", "clips: {max: 2}"
    # Whisper's positions are a parameter that its constructor freezes, which an ONNX file does not say.
    frozen = ", frozen: [\"*.embed_positions.weight\"]"

    def labelled(name, build, fields, rows, extra=""):
        loss = f"loss: [{{cross_entropy: {{logits: {name}.logits, labels: labels}}}}]\n"
        return Case(name, "compound", build, {**fields, **text}, (*fields, "input_ids"), ("logits",), cross_entropy,
                    workload=workload(name, rows, loss, extra), sample=compound_sample)

    yield labelled("llava_logits", llava(False), {"pixel_values": PIXELS}, images)
    yield Case("llava_loss", "compound", llava(True), {"pixel_values": PIXELS, **text},
               ("pixel_values", "input_ids", "labels"), ("loss",), own_loss, workload=workload("llava_loss", images, ""),
               sample=compound_sample)
    yield labelled("speech_logits", Speech, {"input_features": MEL}, clips, frozen)
    # The language models are judged by themselves, too: their features are data then.
    yield labelled("llava_language", LlavaLanguage, {"image_features": IMAGE_FEATURES}, images)
    yield labelled("speech_language", SpeechLanguage, {"audio_features": AUDIO_FEATURES}, clips)
    yield labelled("omni_language", OmniLanguage, {"image_features": IMAGE_FEATURES, "audio_features": AUDIO_FEATURES},
                   f"{images}, {clips}")
    # Encoders have no loss of their own.
    yield Case("llava_vision", "part", LlavaVision, {"pixel_values": PIXELS}, ("pixel_values",), ("image_features",), None)
    yield Case("speech_encoder", "part", SpeechEncoder, {"input_features": MEL}, ("input_features",), ("audio_features",),
               None)
