"""diffusers' denoisers; the loss is the mean of squared errors against a target of the data."""

from __future__ import annotations

from torch.nn import functional

from zoo import Field

from .network import Network, floats

QUICK = {"UNet2DModel", "DiTTransformer2DModel"}
TIMESTEP = Field(("batch",), "class", 100)
CLASS_LABEL = Field(("batch",), "class", 10)
BLOCKS = dict(block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4)
LATENTS = {"sample": floats(4, 8, 8), "target": floats(4, 8, 8), "timestep": TIMESTEP}
TEXT = {"encoder_hidden_states": floats(5, 16)}


def error(module, target, **inputs):
    """The mean of squares between what a network makes of its inputs and the target."""
    return functional.mse_loss(module(**inputs, return_dict=False)[0], target)


def model(name, fields, settings, call=error, own=None):
    def build():
        import diffusers

        return getattr(diffusers, name)(**settings)

    return Network(
        f"diffusers_{own or name}",
        "diffusers",
        build,
        fields,
        call,
        scalar=True,
        quick=name in QUICK,
    )


def prior_fields():
    return {
        "hidden_states": floats(16),
        "timestep": TIMESTEP,
        "proj_embedding": floats(16),
        "encoder_hidden_states": floats(5, 16),
        "target": floats(16),
    }


def networks():
    yield model(
        "UNet2DModel",
        {"sample": floats(3, 16, 16), "target": floats(3, 16, 16), "timestep": TIMESTEP},
        dict(
            sample_size=16,
            in_channels=3,
            out_channels=3,
            attention_head_dim=8,
            **BLOCKS,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        ),
    )
    cross = dict(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        cross_attention_dim=16,
        attention_head_dim=2,
        **BLOCKS,
    )
    yield model(
        "UNet2DConditionModel",
        LATENTS | TEXT,
        dict(
            cross,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        ),
    )
    yield model(
        "UNet2DConditionModel",
        LATENTS | TEXT,
        dict(
            cross,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            use_linear_projection=True,
            time_embedding_type="fourier",
            resnet_time_scale_shift="scale_shift",
        ),
        own="UNet2DConditionModel_fourier",
    )
    yield model(
        "UNet1DModel",
        {"sample": floats(14, 16), "target": floats(14, 16), "timestep": TIMESTEP},
        dict(
            in_channels=14,
            out_channels=14,
            block_out_channels=(16, 32),
            layers_per_block=1,
            norm_num_groups=4,
            time_embedding_type="positional",
            down_block_types=("DownResnetBlock1D", "DownResnetBlock1D"),
            up_block_types=("UpResnetBlock1D",),
            mid_block_type="MidResTemporalBlock1D",
            out_block_type="OutConv1DBlock",
            act_fn="mish",
            use_timestep_embedding=True,
            downsample_each_block=False,
            flip_sin_to_cos=False,
            freq_shift=1,
        ),
    )
    yield model(
        "UNet3DConditionModel",
        {"sample": floats(4, 2, 8, 8), "target": floats(4, 2, 8, 8), "timestep": TIMESTEP} | TEXT,
        dict(
            cross,
            down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
            up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        ),
    )
    dit = dict(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        norm_num_groups=4,
    )
    yield model(
        "DiTTransformer2DModel",
        {
            "hidden_states": floats(4, 8, 8),
            "target": floats(4, 8, 8),
            "timestep": TIMESTEP,
            "class_labels": CLASS_LABEL,
        },
        dict(dit, num_embeds_ada_norm=10),
    )
    yield model(
        "PixArtTransformer2DModel",
        {"hidden_states": floats(4, 8, 8), "target": floats(4, 8, 8), "timestep": TIMESTEP} | TEXT,
        dict(
            dit,
            caption_channels=16,
            cross_attention_dim=16,
            use_additional_conditions=False,
            out_channels=4,
        ),
        call=with_conditions,
    )
    yield model(
        "SD3Transformer2DModel",
        {
            "hidden_states": floats(4, 8, 8),
            "target": floats(4, 8, 8),
            "timestep": TIMESTEP,
            "pooled_projections": floats(16),
        }
        | TEXT,
        dict(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=16,
            caption_projection_dim=16,
            pooled_projection_dim=16,
            out_channels=4,
            pos_embed_max_size=8,
        ),
    )
    yield model(
        "AuraFlowTransformer2DModel",
        {"hidden_states": floats(4, 8, 8), "target": floats(4, 8, 8), "timestep": floats()} | TEXT,
        dict(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_mmdit_layers=1,
            num_single_dit_layers=1,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=16,
            caption_projection_dim=16,
            out_channels=4,
            pos_embed_max_size=16,
        ),
    )
    yield model(
        "Transformer2DModel",
        {"hidden_states": floats(16, 4, 4), "target": floats(16, 4, 4)} | TEXT,
        dict(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=16,
            num_layers=2,
            norm_num_groups=4,
            cross_attention_dim=16,
        ),
    )
    yield model(
        "FluxTransformer2DModel",
        {
            "hidden_states": floats(16, 4),
            "target": floats(16, 4),
            "timestep": floats(),
            "pooled_projections": floats(16),
            "encoder_hidden_states": floats(5, 16),
        },
        dict(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=16,
            pooled_projection_dim=16,
            axes_dims_rope=(2, 2, 4),
            guidance_embeds=False,
        ),
        call=with_ids,
    )
    yield model(
        "PriorTransformer",
        prior_fields(),
        dict(
            num_attention_heads=2,
            attention_head_dim=8,
            num_layers=2,
            embedding_dim=16,
            num_embeddings=5,
            additional_embeddings=4,
        ),
    )
    yield model(
        "LatteTransformer3DModel",
        {"hidden_states": floats(4, 2, 8, 8), "target": floats(4, 2, 8, 8), "timestep": TIMESTEP}
        | TEXT,
        dict(
            sample_size=8,
            num_layers=2,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=2,
            caption_channels=16,
            in_channels=4,
            cross_attention_dim=16,
            out_channels=4,
            attention_bias=True,
            video_length=2,
            norm_elementwise_affine=False,
            norm_type="ada_norm_single",
        ),
    )
    yield model(
        "CogVideoXTransformer3DModel",
        {"hidden_states": floats(2, 4, 8, 8), "target": floats(2, 4, 8, 8), "timestep": TIMESTEP}
        | TEXT,
        dict(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=4,
            out_channels=4,
            time_embed_dim=8,
            text_embed_dim=16,
            num_layers=2,
            sample_width=8,
            sample_height=8,
            sample_frames=5,
            patch_size=2,
            temporal_compression_ratio=4,
            max_text_seq_length=5,
        ),
    )


def with_conditions(module, hidden_states, target, timestep, encoder_hidden_states):
    output = module(
        hidden_states,
        encoder_hidden_states=encoder_hidden_states,
        timestep=timestep,
        return_dict=False,
        added_cond_kwargs={"resolution": None, "aspect_ratio": None},
    )[0]
    return functional.mse_loss(output, target)


def with_ids(module, hidden_states, target, timestep, pooled_projections, encoder_hidden_states):
    import torch

    image = torch.zeros(16, 3)
    text = torch.zeros(5, 3)
    output = module(
        hidden_states=hidden_states,
        timestep=timestep,
        pooled_projections=pooled_projections,
        encoder_hidden_states=encoder_hidden_states,
        txt_ids=text,
        img_ids=image,
        return_dict=False,
    )[0]
    return functional.mse_loss(output, target)
