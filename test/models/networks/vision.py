"""transformers' image and video classifiers, and other networks that read pixels."""

from __future__ import annotations

from zoo import CLASS

from .network import Network, floats, images, logits_of, squares
from .tiny import tiny

VIT = dict(image_size=32, patch_size=8)
HIERARCHY = dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
QUICK = {"ViTForImageClassification", "ResNetForImageClassification"}
CLASSIFIERS = {
    "BeitForImageClassification": VIT,
    "Data2VecVisionForImageClassification": VIT,
    "DeiTForImageClassification": VIT,
    "Dinov2ForImageClassification": VIT,
    "Dinov2WithRegistersForImageClassification": VIT,
    "IJepaForImageClassification": VIT,
    "ViTForImageClassification": VIT,
    "ViTMSNForImageClassification": VIT,
    "CLIPForImageClassification": dict(vision_config=VIT),
    "SiglipForImageClassification": dict(vision_config=VIT),
    "MetaClip2ForImageClassification": dict(vision_config=VIT),
    "BitForImageClassification": dict(
        embedding_size=8, num_groups=4, layer_type="preactivation", **HIERARCHY
    ),
    "ConvNextForImageClassification": HIERARCHY,
    "ConvNextV2ForImageClassification": HIERARCHY,
    "EfficientNetForImageClassification": dict(
        width_coefficient=0.1, depth_coefficient=0.2, hidden_dim=128
    ),
    "FocalNetForImageClassification": dict(
        image_size=32,
        embed_dim=8,
        depths=[1, 1],
        hidden_sizes=[8, 16],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
    "HieraForImageClassification": dict(
        image_size=[64, 64], embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2]
    ),
    "MobileNetV1ForImageClassification": dict(depth_multiplier=0.1, image_size=32, min_depth=4),
    "MobileNetV2ForImageClassification": dict(
        depth_multiplier=0.1, image_size=32, min_depth=4, depth_divisible_by=4
    ),
    "MobileViTForImageClassification": dict(
        image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[4, 8, 8, 16, 16, 16, 32]
    ),
    "MobileViTV2ForImageClassification": dict(
        image_size=64,
        width_multiplier=0.1,
        base_attn_unit_dims=[16, 16, 16],
        n_attn_blocks=[1, 1, 1],
    ),
    "PoolFormerForImageClassification": HIERARCHY,
    "PvtForImageClassification": dict(
        image_size=64,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 2],
    ),
    "PvtV2ForImageClassification": dict(
        image_size=64,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 2],
    ),
    "RegNetForImageClassification": dict(embedding_size=8, groups_width=4, **HIERARCHY),
    "ResNetForImageClassification": dict(embedding_size=8, layer_type="basic", **HIERARCHY),
    "SegformerForImageClassification": dict(
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 2],
        decoder_hidden_size=16,
    ),
    "SwiftFormerForImageClassification": dict(embed_dims=[8, 8, 16, 32], depths=[1, 1, 1, 1]),
    "SwinForImageClassification": dict(
        image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    ),
    "Swinv2ForImageClassification": dict(
        image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    ),
    "LevitForImageClassification": dict(
        image_size=64,
        hidden_sizes=[16, 24, 32],
        num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    "TextNetForImageClassification": dict(
        stem_num_channels=3,
        stem_out_channels=8,
        image_size=[32, 32],
        hidden_sizes=[8, 8, 16, 16, 32],
        conv_layer_kernel_sizes=[[[3, 3]], [[3, 1]], [[1, 3]], [[3, 3]]],
        conv_layer_strides=[[1], [2], [2], [1]],
    ),
}
IMAGE_SIZES = {
    "HieraForImageClassification": 64,
    "MobileViTForImageClassification": 64,
    "MobileViTV2ForImageClassification": 64,
    "PvtForImageClassification": 64,
    "PvtV2ForImageClassification": 64,
    "LevitForImageClassification": 64,
    "BitForImageClassification": 64,
    "ConvNextForImageClassification": 64,
    "ConvNextV2ForImageClassification": 64,
    "SegformerForImageClassification": 64,
    "SwiftFormerForImageClassification": 64,
}
VIDEO = {
    "TimesformerForVideoClassification": dict(image_size=16, patch_size=8, num_frames=4),
    "VideoMAEForVideoClassification": dict(image_size=16, patch_size=8, num_frames=4),
    "VivitForVideoClassification": dict(image_size=16, tubelet_size=[2, 8, 8], num_frames=4),
}


def make(name, own):
    def build():
        import transformers

        base = getattr(transformers, name)
        return base(tiny(base.config_class, **own))

    return build


def dense(module, **inputs):
    """A loss over a map of logits: the mean of squares."""
    output = module(**inputs)
    return squares(output.logits if hasattr(output, "logits") else output.predicted_depth)


def networks():
    for name, own in CLASSIFIERS.items():
        size = IMAGE_SIZES.get(name, 32)
        yield Network(
            name.replace("For", "_"),
            "transformers",
            make(name, own),
            images(size),
            logits_of,
            quick=name in QUICK,
        )
    for name, own in VIDEO.items():
        yield Network(
            name.replace("For", "_"),
            "transformers",
            make(name, own),
            {"pixel_values": floats(4, 3, 16, 16), "labels": CLASS},
            logits_of,
        )
    segmenter = dict(
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 2],
        decoder_hidden_size=16,
    )
    yield Network(
        "Segformer_SemanticSegmentation",
        "transformers",
        make("SegformerForSemanticSegmentation", segmenter),
        {"pixel_values": floats(3, 64, 64)},
        dense,
        scalar=True,
    )
    yield Network(
        "GLPN_DepthEstimation",
        "transformers",
        make("GLPNForDepthEstimation", segmenter),
        {"pixel_values": floats(3, 64, 64)},
        dense,
        scalar=True,
    )
    yield Network(
        "Swin2SR_SuperResolution",
        "transformers",
        make(
            "Swin2SRForImageSuperResolution",
            dict(
                image_size=16,
                patch_size=1,
                embed_dim=16,
                depths=[1, 1],
                num_heads=[2, 2],
                window_size=4,
            ),
        ),
        {"pixel_values": floats(3, 16, 16)},
        lambda module, pixel_values: squares(module(pixel_values).reconstruction),
        scalar=True,
    )
