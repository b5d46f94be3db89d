"""transformers' networks of two modalities: pictures and text, layouts, time series."""

from __future__ import annotations

from torch.nn import functional

from zoo import CLASS, Field

from .network import IDS, LABELS, MASK, Network, floats, logits_of, squares
from .tiny import VOCABULARY, tiny

VIT = dict(image_size=32, patch_size=8)
TOWERS = dict(vision_config=VIT)
TEXT = {
    "input_ids": Field(("batch", 6), "ids", VOCABULARY),
    "attention_mask": Field(("batch", 6), "ones"),
}
PIXELS = {"pixel_values": floats(3, 32, 32)}


def make(name, own):
    def build():
        import transformers

        base = getattr(transformers, name)
        return base(tiny(base.config_class, **own))

    return build


def embeddings(module, **inputs):
    """Each sample's image beside its own text: no sample meets another."""
    output = module(**inputs)
    return (1 - functional.cosine_similarity(output.image_embeds, output.text_embeds)).mean()


def pair(name, own, call=embeddings):
    return Network(
        name.removesuffix("Model") + "_pair",
        "transformers",
        make(name, own),
        TEXT | PIXELS,
        call,
        scalar=True,
    )


def contrastive(module, **inputs):
    """CLIP's own loss, which scores each sample against the others: must be refused."""
    return module(**inputs, return_loss=True).loss


def networks():
    yield pair("CLIPModel", dict(TOWERS, projection_dim=16))
    yield Network(
        "CLIP_contrastive",
        "transformers",
        make("CLIPModel", dict(TOWERS, projection_dim=16)),
        TEXT | PIXELS,
        contrastive,
        scalar=True,
    )
    yield pair("SiglipModel", TOWERS)
    yield pair("AltCLIPModel", dict(TOWERS, projection_dim=16))
    yield pair("ChineseCLIPModel", dict(TOWERS, projection_dim=16))
    yield pair("MetaClip2Model", dict(TOWERS, projection_dim=16))
    yield pair("BlipModel", dict(TOWERS, projection_dim=16))
    yield Network(
        "FLAVA_multimodal",
        "transformers",
        make("FlavaModel", dict(image_config=VIT)),
        TEXT | PIXELS,
        lambda module, **inputs: squares(module(**inputs).multimodal_embeddings),
        scalar=True,
    )
    yield Network(
        "ViLT_classification",
        "transformers",
        make("ViltForImagesAndTextClassification", dict(image_size=32, patch_size=8, num_images=1)),
        {"labels": CLASS, **TEXT, "pixel_values": floats(1, 3, 32, 32)},
        logits_of,
    )
    yield Network(
        "Git_decoder",
        "transformers",
        make("GitForCausalLM", dict(vision_config=VIT)),
        {"input_ids": TEXT["input_ids"], **PIXELS},
        lambda module, **inputs: squares(module(**inputs, use_cache=False).logits),
        scalar=True,
    )
    yield Network(
        "BlipText_decoder",
        "transformers",
        make("BlipForConditionalGeneration", dict(TOWERS)),
        {"input_ids": IDS, "labels": LABELS, **PIXELS},
        lambda module, **inputs: module(**inputs).logits,
    )
    boxes = {
        "input_ids": IDS,
        "attention_mask": MASK,
        "bbox": Field(("batch", "seq", 4), "ones"),
        "labels": LABELS,
    }
    yield Network(
        "LayoutLM_tagger",
        "transformers",
        make(
            "LayoutLMForTokenClassification",
            dict(num_labels=VOCABULARY, max_2d_position_embeddings=64),
        ),
        boxes,
        logits_of,
    )
    series = {"past_values": floats(32, 3), "future_values": floats(8, 3)}
    yield Network(
        "PatchTST_prediction",
        "transformers",
        make(
            "PatchTSTForPrediction",
            dict(
                num_input_channels=3,
                context_length=32,
                patch_length=8,
                patch_stride=8,
                prediction_length=8,
                loss="mse",
                scaling="std",
            ),
        ),
        series,
        lambda module, **inputs: module(**inputs).loss,
        scalar=True,
    )
    yield Network(
        "PatchTSMixer_prediction",
        "transformers",
        make(
            "PatchTSMixerForPrediction",
            dict(
                num_input_channels=3,
                context_length=32,
                patch_length=8,
                patch_stride=8,
                prediction_length=8,
            ),
        ),
        series,
        lambda module, **inputs: module(**inputs).loss,
        scalar=True,
    )
    yield Network(
        "DecisionTransformer",
        "transformers",
        make("DecisionTransformerModel", dict(state_dim=5, act_dim=3, max_ep_len=32)),
        {
            "states": floats(4, 5),
            "actions": floats(4, 3),
            "rewards": floats(4, 1),
            "returns_to_go": floats(4, 1),
            "timesteps": Field(("batch", 4), "ids", 32),
            "attention_mask": Field(("batch", 4), "ones"),
        },
        lambda module, **inputs: squares(module(**inputs).action_preds),
        scalar=True,
    )
    yield Network(
        "PatchTST_classification",
        "transformers",
        make(
            "PatchTSTForClassification",
            dict(
                num_input_channels=3,
                context_length=32,
                patch_length=8,
                patch_stride=8,
                num_targets=10,
            ),
        ),
        {"past_values": floats(32, 3), "labels": CLASS},
        lambda module, past_values: module(past_values=past_values).prediction_logits,
    )
    yield Network(
        "VitDet_features",
        "transformers",
        make(
            "VitDetModel",
            dict(image_size=32, patch_size=8, window_block_indices=[0], window_size=2),
        ),
        PIXELS,
        lambda module, **inputs: squares(module(**inputs).last_hidden_state),
        scalar=True,
    )
