"""diffusers' autoencoders: the loss is the error of what comes back."""

from __future__ import annotations

from torch.nn import functional

from .diffusers_denoisers import model
from .network import floats


def reconstruction(module, pixel_values):
    encoded = module.encode(pixel_values, return_dict=False)[0]
    return functional.mse_loss(module.decode(encoded, return_dict=False)[0], pixel_values)


def mean_reconstruction(module, pixel_values):
    latent = module.encode(pixel_values).latent_dist.mode()
    return functional.mse_loss(module.decode(latent, return_dict=False)[0], pixel_values)


def variational(module, pixel_values):
    """Reconstruction from the mean, and the divergence from a standard normal."""
    posterior = module.encode(pixel_values).latent_dist
    decoded = module.decode(posterior.mode(), return_dict=False)[0]
    return functional.mse_loss(decoded, pixel_values) + 0.1 * posterior.kl().mean()


def networks():
    for name, more in (
        ("AutoencoderKL", dict(latent_channels=4)),
        ("AutoencoderTiny", None),
        ("VQModel", dict(latent_channels=4, num_vq_embeddings=16)),
    ):
        fields = {"pixel_values": floats(3, 16, 16)}
        if name == "AutoencoderTiny":
            settings = dict(
                in_channels=3,
                out_channels=3,
                encoder_block_out_channels=(8, 8),
                decoder_block_out_channels=(8, 8),
                num_encoder_blocks=(1, 1),
                num_decoder_blocks=(1, 1),
                latent_channels=4,
            )
        else:
            settings = dict(
                in_channels=3,
                out_channels=3,
                block_out_channels=(16, 16),
                norm_num_groups=4,
                layers_per_block=1,
                down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
                **more,
            )
        yield model(
            name,
            fields,
            settings,
            call=reconstruction if name != "AutoencoderKL" else mean_reconstruction,
        )
    yield model(
        "AutoencoderKL",
        {"pixel_values": floats(3, 16, 16)},
        dict(
            in_channels=3,
            out_channels=3,
            block_out_channels=(16, 16),
            norm_num_groups=4,
            layers_per_block=1,
            latent_channels=4,
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
        ),
        call=variational,
        own="AutoencoderKL_elbo",
    )
    yield model(
        "AutoencoderDC",
        {"pixel_values": floats(3, 16, 16)},
        dict(
            in_channels=3,
            latent_channels=4,
            attention_head_dim=4,
            encoder_block_types=("ResBlock", "EfficientViTBlock"),
            decoder_block_types=("ResBlock", "EfficientViTBlock"),
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            encoder_qkv_multiscales=((), (5,)),
            decoder_qkv_multiscales=((), (5,)),
            encoder_layers_per_block=(1, 1),
            decoder_layers_per_block=(1, 1),
            downsample_block_type="conv",
            upsample_block_type="interpolate",
            decoder_norm_types="rms_norm",
            decoder_act_fns="silu",
            scaling_factor=0.4,
        ),
        call=reconstruction,
    )
