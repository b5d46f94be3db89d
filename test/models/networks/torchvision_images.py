"""torchvision's networks with fewer and narrower layers."""

from __future__ import annotations

import functools

from zoo import CLASS

from .network import Network, first_of, floats, images, squares

QUICK = {"resnet", "swin"}


def classifiers():
    """name: image size, constructor from torchvision.models."""

    def inverted(models, *rows):
        config = functools.partial(models.mobilenetv3.InvertedResidualConfig, width_mult=1.0)
        return [config(*row) for row in rows]

    return {
        "alexnet": (64, narrow_alexnet),
        "densenet": (
            32,
            lambda m: m.DenseNet(
                growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=10
            ),
        ),
        "efficientnet": (
            32,
            lambda m: m.EfficientNet(
                [
                    m.efficientnet.MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0),
                    m.efficientnet.MBConvConfig(4, 3, 2, 8, 16, 2, 1.0, 1.0),
                ],
                0.2,
                num_classes=10,
            ),
        ),
        "efficientnet_v2": (
            32,
            lambda m: m.EfficientNet(
                [
                    m.efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1),
                    m.efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 1),
                ],
                0.2,
                num_classes=10,
                last_channel=32,
            ),
        ),
        "mnasnet": (32, lambda m: m.MNASNet(0.1, num_classes=10)),
        "mobilenet_v2": (
            32,
            lambda m: m.MobileNetV2(
                num_classes=10,
                width_mult=0.1,
                inverted_residual_setting=[[1, 16, 1, 1], [6, 24, 2, 2]],
            ),
        ),
        "mobilenet_v3": (
            32,
            lambda m: m.MobileNetV3(
                inverted(
                    m,
                    (8, 3, 8, 8, True, "RE", 2, 1),
                    (8, 3, 16, 16, False, "HS", 2, 1),
                    (16, 5, 32, 16, True, "HS", 1, 1),
                ),
                32,
                num_classes=10,
            ),
        ),
        "regnet": (
            32,
            lambda m: m.RegNet(
                m.regnet.BlockParams([1, 1], [8, 16], [4, 4], [1, 1], [2, 2], 0.25),
                num_classes=10,
                stem_width=8,
            ),
        ),
        "resnet": (32, lambda m: m.ResNet(m.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)),
        "shufflenet_v2": (
            32,
            lambda m: m.ShuffleNetV2([2, 2, 2], [8, 16, 24, 32, 64], num_classes=10),
        ),
        "squeezenet": (48, narrow_squeezenet),
        "vgg_bn": (32, narrow_vgg),
        "convnext": (
            32,
            lambda m: m.ConvNeXt(
                [m.convnext.CNBlockConfig(8, 16, 1), m.convnext.CNBlockConfig(16, None, 1)],
                num_classes=10,
            ),
        ),
        "swin": (
            32,
            lambda m: m.SwinTransformer([4, 4], 8, [2, 2], [2, 2], [4, 4], num_classes=10),
        ),
        "swin_v2": (
            32,
            lambda m: m.SwinTransformer(
                [4, 4],
                8,
                [2, 2],
                [2, 2],
                [4, 4],
                num_classes=10,
                block=m.swin_transformer.SwinTransformerBlockV2,
                downsample_layer=m.swin_transformer.PatchMergingV2,
            ),
        ),
        "vit": (32, lambda m: m.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)),
        "maxvit": (32, lambda m: m.MaxVit((32, 32), 8, 4, [8, 16], [1, 1], 8, 0.0, num_classes=10)),
        "googlenet": (
            32,
            lambda m: m.GoogLeNet(num_classes=10, aux_logits=False, init_weights=False),
        ),
    }


def narrow_alexnet(models):
    network = models.AlexNet(num_classes=10)
    from torch import nn

    network.classifier = nn.Sequential(
        nn.Dropout(), nn.Linear(256 * 36, 16), nn.ReLU(), nn.Linear(16, 10)
    )
    return network


def narrow_squeezenet(models):
    return models.SqueezeNet("1_1", num_classes=10)


def narrow_vgg(models):
    from torch import nn

    network = models.VGG(
        models.vgg.make_layers([8, "M", 16, "M", 32, "M", 512, "M", "M"], batch_norm=True),
        num_classes=10,
        init_weights=False,
    )
    network.avgpool = nn.AdaptiveAvgPool2d(1)
    network.classifier = nn.Linear(512, 10)
    return network


def segmentation(name):
    def build():
        from torchvision.models import segmentation

        return getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=4)

    return Network(
        f"torchvision_{name}",
        "torchvision",
        build,
        {"pixel_values": floats(3, 32, 32)},
        lambda module, pixel_values: squares(module(pixel_values)["out"]),
        scalar=True,
    )


def networks():
    for name, (size, constructor) in classifiers().items():

        def build(constructor=constructor):
            from torchvision import models

            return constructor(models)

        yield Network(
            f"torchvision_{name}", "torchvision", build, images(size), first_of, quick=name in QUICK
        )
    for name in ("lraspp_mobilenet_v3_large",):
        yield segmentation(name)

    def video():
        from torchvision.models import video

        return video.swin_transformer.SwinTransformer3d(
            [2, 4, 4], 8, [1, 1], [2, 2], [2, 4, 4], num_classes=10
        )

    yield Network(
        "torchvision_swin3d",
        "torchvision",
        video,
        {"pixel_values": floats(3, 4, 32, 32), "labels": CLASS},
        first_of,
    )
