"""timm's image classifiers: its own tiny test models, and others with fewer and narrower layers."""

from __future__ import annotations

from .network import Network, first_of, images

QUICK = {"test_convnext", "resnet18"}
TINY = """
    test_byobnet test_convnext test_efficientnet test_efficientnet_gn
    test_efficientnet_ln test_mambaout test_nfnet test_resnet test_vit
""".split()
STAGES = dict(depths=(1, 1, 1, 1), dims=(8, 16, 16, 32))
FLAT = dict(embed_dim=32, depth=2, num_heads=4)
RESNET = dict(layers=(1, 1, 1, 1), channels=(8, 16, 24, 32))
SMALL = {  # name: image size, settings
    "beit_base_patch16_224": (32, dict(FLAT, img_size=32, patch_size=8)),
    "cait_xxs24_224": (32, dict(FLAT, img_size=32, patch_size=8, depth_token_only=1)),
    "convit_tiny": (
        32,
        dict(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, local_up_to_layer=1),
    ),
    "convnext_atto": (64, STAGES),
    "convnextv2_atto": (64, STAGES),
    "deit3_small_patch16_224": (32, dict(FLAT, img_size=32, patch_size=8)),
    "deit_tiny_distilled_patch16_224": (32, dict(FLAT, img_size=32, patch_size=8)),
    "densenet121": (64, dict(growth_rate=4, block_config=(2, 2, 2, 2), stem_type="")),
    "dla34": (64, dict(levels=(1, 1, 1, 1, 1, 1), channels=(4, 8, 8, 16, 16, 32))),
    "edgenext_xx_small": (64, dict(dims=(8, 16, 16, 32), depths=(1, 1, 2, 1), heads=(2, 2, 2, 2))),
    "efficientformerv2_s0": (64, dict(depths=(1, 1, 1, 1), embed_dims=(8, 8, 16, 32), img_size=64)),
    "efficientvit_b0": (
        64,
        dict(widths=(8, 8, 16, 16, 32), depths=(1, 1, 1, 1, 1), head_dim=8, head_widths=(32, 32)),
    ),
    "eva02_tiny_patch14_224": (28, dict(FLAT, img_size=28)),
    "fastvit_t8": (64, dict(embed_dims=(8, 8, 16, 32), layers=(1, 1, 1, 1))),
    "hiera_tiny_224": (64, dict(img_size=(64, 64), embed_dim=8, num_heads=1, stages=(1, 1, 1, 1))),
    "inception_next_atto": (64, STAGES),
    "lcnet_035": (32, dict()),
    "levit_128s": (
        64,
        dict(img_size=64, embed_dim=(16, 24, 32), num_heads=(2, 2, 2), depth=(1, 1, 1), key_dim=8),
    ),
    "mambaout_femto": (64, STAGES),
    "mobilenetv2_035": (32, dict()),
    "mobilenetv3_small_050": (32, dict()),
    "mobilenetv4_conv_small_035": (64, dict()),
    "mobilevit_xxs": (64, dict()),
    "pit_ti_224": (64, dict(img_size=64, base_dims=(8, 8, 8), depth=(1, 1, 1), heads=(1, 2, 2))),
    "pvt_v2_b0": (
        64,
        dict(depths=(1, 1, 1, 1), embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 2)),
    ),
    "repvit_m0_9": (64, dict(embed_dim=(8, 16, 16, 32), depth=(1, 1, 1, 1))),
    "res2net50_26w_4s": (64, dict(RESNET, base_width=8)),
    "resnest14d": (64, RESNET),
    "resnet18": (64, RESNET),
    "resnext50_32x4d": (64, dict(RESNET, cardinality=4, base_width=8)),
    "ecaresnet26t": (64, RESNET),
    "skresnet18": (64, RESNET),
    "resnetv2_50": (64, dict(layers=(1, 1, 1, 1), channels=(16, 16, 32, 32), stem_chs=8)),
    "rexnet_100": (32, dict(width_mult=0.2)),
    "starnet_s1": (64, dict(base_dim=8, depths=(1, 1, 1, 1))),
    "swiftformer_xs": (64, dict(layers=(1, 1, 1, 1), embed_dims=(8, 8, 16, 32))),
    "swin_tiny_patch4_window7_224": (
        56,
        dict(img_size=56, embed_dim=8, depths=(2, 1), num_heads=(2, 2)),
    ),
    "swinv2_tiny_window8_256": (
        64,
        dict(img_size=64, embed_dim=8, depths=(2, 1), num_heads=(2, 2)),
    ),
    "tnt_s_patch16_224": (
        32,
        dict(img_size=32, embed_dim=32, inner_dim=8, depth=2, num_heads_outer=4, num_heads_inner=2),
    ),
    "twins_pcpvt_small": (
        64,
        dict(img_size=64, embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 2), depths=(1, 1, 1, 1)),
    ),
    "visformer_tiny": (
        64,
        dict(img_size=64, embed_dim=32, depth=(1, 1, 1), num_heads=2, init_channels=8),
    ),
    "vit_relpos_small_patch16_224": (32, dict(FLAT, img_size=32, patch_size=8)),
    "vit_tiny_patch16_224": (32, dict(FLAT, img_size=32, patch_size=8)),
    "xcit_nano_12_p16_224": (32, dict(img_size=32, embed_dim=32, depth=2, num_heads=4)),
}

# Of timm.models, where a model function fixes what has to be small: class, image size, settings.
CLASSES = {
    "caformer": (
        "metaformer.MetaFormer",
        64,
        dict(STAGES, token_mixers=["SepConv", "SepConv", "Pooling", "Pooling"]),
    ),
    "poolformer": ("metaformer.MetaFormer", 64, dict(STAGES, layer_scale_init_values=1e-5)),
    "convmixer": ("convmixer.ConvMixer", 32, dict(dim=16, depth=2, kernel_size=3, patch_size=4)),
    "crossvit": (
        "crossvit.CrossVit",
        48,
        dict(
            img_size=48,
            img_scale=(1.0, 1.0),
            embed_dim=(16, 16),
            num_heads=(2, 2),
            depth=((1, 1, 0), (1, 1, 0)),
            patch_size=(12, 16),
        ),
    ),
    "davit": ("davit.DaVit", 64, dict(depths=(1, 1), embed_dims=(8, 16), num_heads=(2, 2))),
    "focalnet": ("focalnet.FocalNet", 64, dict(embed_dim=8, depths=(1, 1, 1, 1))),
    "gcvit": (
        "gcvit.GlobalContextVit",
        64,
        dict(img_size=64, embed_dim=8, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2)),
    ),
    "mixer": (
        "mlp_mixer.MlpMixer",
        32,
        dict(img_size=32, patch_size=8, num_blocks=2, embed_dim=32),
    ),
    "nest": (
        "nest.Nest",
        32,
        dict(
            img_size=32,
            patch_size=2,
            num_levels=2,
            embed_dims=(16, 32),
            num_heads=(2, 2),
            depths=(1, 1),
        ),
    ),
    "sequencer2d": (
        "sequencer.Sequencer2d",
        28,
        dict(
            img_size=28, layers=(1, 1, 1, 1), embed_dims=(16, 16, 16, 16), hidden_sizes=(4, 4, 4, 4)
        ),
    ),
    "tiny_vit": (
        "tiny_vit.TinyVit",
        64,
        dict(
            embed_dims=(8, 8, 16, 16),
            depths=(1, 1, 1, 1),
            num_heads=(1, 2, 2, 2),
            window_sizes=(4, 4, 4, 2),
        ),
    ),
    "vgg": ("vgg.VGG", 32, dict(cfg=[8, "M", 16, "M", 16, "M", 32, "M"], mlp_ratio=0.01)),
    "volo": (
        "volo.VOLO",
        64,
        dict(
            img_size=64,
            layers=(1, 1, 1, 1),
            embed_dims=(16, 32, 32, 32),
            num_heads=(2, 2, 2, 2),
            stem_hidden_dim=8,
            use_aux_head=False,
            use_mix_token=False,
        ),
    ),
    "vovnet_ese": (
        "vovnet.VovNet",
        64,
        dict(
            cfg=dict(
                stem_chs=[8, 8, 8],
                stage_conv_chs=[8, 8, 8, 8],
                stage_out_chs=[16, 16, 16, 16],
                layer_per_block=2,
                block_per_stage=[1, 1, 1, 1],
                residual=True,
                depthwise=True,
                attn="ese",
            )
        ),
    ),
}


def classifier(name, size, settings):
    def build():
        import timm

        return timm.create_model(name, num_classes=10, **settings)

    return Network(f"timm_{name}", "timm", build, images(size), first_of, quick=name in QUICK)


def constructed(name, kind, size, settings):
    def build():
        import importlib

        import timm

        module, class_name = kind.split(".")
        mixers = {
            key: [getattr(timm.models.metaformer, value) for value in values]
            for key, values in settings.items()
            if key == "token_mixers"
        }
        return getattr(importlib.import_module(f"timm.models.{module}"), class_name)(
            num_classes=10, **settings | mixers
        )

    return Network(f"timm_{name}", "timm", build, images(size), first_of, quick=name in QUICK)


def networks():
    for name in TINY:
        yield classifier(name, 64, dict(img_size=64) if "vit" in name else {})
    for name, (size, settings) in SMALL.items():
        yield classifier(name, size, settings)
    for name, (kind, size, settings) in CLASSES.items():
        yield constructed(name, kind, size, settings)
