"""Audio: transformers' speech models with few and narrow convolutions, and networks as torchaudio's
users write them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo import CLASS, IGNORE, Field

from .network import TARGET, TARGET_LABELS, Network, first_of, floats, logits_of
from .tiny import VOCABULARY, tiny

CONVOLUTIONS = dict(
    conv_dim=[16, 16],
    conv_stride=[5, 4],
    conv_kernel=[10, 4],
    num_feat_extract_layers=2,
    hidden_size=32,
    num_conv_pos_embeddings=8,
    num_conv_pos_embedding_groups=4,
)
WAVE = floats(400)
WAVES = """
    Wav2Vec2ForSequenceClassification HubertForSequenceClassification WavLMForSequenceClassification
    UniSpeechForSequenceClassification UniSpeechSatForSequenceClassification
    Data2VecAudioForSequenceClassification Wav2Vec2ConformerForSequenceClassification
""".split()
OWN = {
    "Data2VecAudioForSequenceClassification": dict(
        num_conv_pos_embeddings=2, conv_pos_kernel_size=5
    ),
    "Wav2Vec2ConformerForSequenceClassification": dict(conv_depthwise_kernel_size=3),
}
QUICK = {"Whisper", "keyword_spotting"}


def make(name, own):
    def build():
        import transformers

        base = getattr(transformers, name)
        return base(tiny(base.config_class, **own))

    return build


# ---- as torchaudio's users write them ------------------------------------------------------------


class Spectrogram(nn.Module):
    """Log-magnitude of a short-time Fourier transform written as a convolution with fixed bases."""

    def __init__(self, window=32, hop=16):
        super().__init__()
        steps = (
            torch.arange(window)[None]
            * torch.arange(window // 2 + 1)[:, None]
            * (2 * torch.pi / window)
        )
        bases = torch.cat([torch.cos(steps), torch.sin(steps)]) * torch.hann_window(window)
        self.register_buffer("bases", bases[:, None])
        self.hop = hop

    def forward(self, wave):
        real, imaginary = functional.conv1d(wave[:, None], self.bases, stride=self.hop).chunk(
            2, dim=1
        )
        return torch.log1p(real**2 + imaginary**2)


class LearnedSpectrum(nn.Module):
    """Short-time and whole Fourier transforms of what a layer made, so that gradients pass them."""

    def __init__(self):
        super().__init__()
        self.front, self.head = nn.Conv1d(1, 1, 5, padding=2), nn.Linear(9 + 33, 10)
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, wave):
        wave = self.front(wave[:, None])[:, 0]
        frames = torch.stft(wave, 16, 4, window=self.window, center=False, return_complex=True)
        power = torch.view_as_real(frames).pow(2).sum(-1).mean(-1)
        whole = torch.view_as_real(torch.fft.rfft(wave[:, :64])).pow(2).sum(-1)
        return self.head(torch.log(torch.cat([power, whole], -1) + 1e-2))


class KeywordSpotting(nn.Module):
    """Spectrogram, depthwise-separable convolutions over time, a mean over frames."""

    def __init__(self):
        super().__init__()
        self.spectrogram = Spectrogram()
        self.layers = nn.Sequential(
            nn.Conv1d(17, 32, 3, padding=1),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Conv1d(32, 32, 5, padding=2, groups=32),
            nn.Conv1d(32, 32, 1),
            nn.BatchNorm1d(32),
            nn.ReLU6(),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, wave):
        return self.head(self.layers(self.spectrogram(wave)).mean(-1))


class M5(nn.Module):
    """A stack of strided convolutions over the raw wave."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 16, 20, stride=4),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(16, 16, 3),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(4),
        )
        self.head = nn.Linear(16, 10)

    def forward(self, wave):
        return self.head(functional.avg_pool1d(self.layers(wave[:, None]), 5).flatten(1))


class ConvTasNet(nn.Module):
    """Masks in a learned basis: encoder, dilated blocks with global layer norms, decoder by
    transposed convolution."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(1, 16, 16, stride=8, bias=False)
        self.norm = nn.GroupNorm(1, 16, eps=1e-8)
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv1d(16, 32, 1),
                    nn.PReLU(),
                    nn.GroupNorm(1, 32),
                    nn.Conv1d(32, 32, 3, padding=2**i, dilation=2**i, groups=32),
                    nn.PReLU(),
                    nn.GroupNorm(1, 32),
                    nn.Conv1d(32, 16, 1),
                )
                for i in range(2)
            ]
        )
        self.masks = nn.Conv1d(16, 32, 1)
        self.decoder = nn.ConvTranspose1d(16, 1, 16, stride=8, bias=False)

    def forward(self, wave, target):
        basis = self.encoder(wave[:, None])
        hidden = self.norm(basis)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        masks = torch.sigmoid(self.masks(hidden)).reshape(-1, 2, 16, basis.shape[-1])
        sources = (basis[:, None] * masks).flatten(0, 1)
        found = self.decoder(sources).reshape(-1, 2, wave.shape[-1])
        return functional.mse_loss(found, target)


class WaveNet(nn.Module):
    """Causal dilated convolutions with gates; the next sample's class of each sample."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.gates = nn.ModuleList([nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(3)])
        self.skips = nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(3)])
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(16, VOCABULARY, 1))

    def forward(self, input_ids):
        hidden, total = self.embed(input_ids).transpose(1, 2), 0.0
        for i, (gate, skip) in enumerate(zip(self.gates, self.skips)):
            filtered, gates = gate(functional.pad(hidden, (2**i, 0))).chunk(2, dim=1)
            mixed = skip(torch.tanh(filtered) * torch.sigmoid(gates))
            hidden, total = hidden + mixed, total + mixed
        return self.head(total).transpose(1, 2)


class Tacotron(nn.Module):
    """A text encoder with convolutions and a GRU; one mel frame a character."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.convolution = nn.Conv1d(32, 32, 5, padding=2)
        self.recurrent = nn.GRU(32, 16, batch_first=True)
        self.mel = nn.Linear(16, 8)

    def forward(self, input_ids, mel):
        hidden = torch.relu(self.convolution(self.embed(input_ids).transpose(1, 2))).transpose(1, 2)
        return functional.l1_loss(self.mel(self.recurrent(hidden)[0]), mel)


class EmformerLike(nn.Module):
    """Frames of varying number, causal attention, a label a frame."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(16, 32)
        self.layer = nn.TransformerEncoderLayer(
            32, 4, 64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, features):
        length = features.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        return self.head(self.layer(self.input(features), src_mask=mask))


class ConformerBlock(nn.Module):
    """torchaudio's Conformer layer by hand: half feed-forwards around attention and a gated
    depthwise convolution."""

    def __init__(self, width=32):
        super().__init__()

        def forward_net():
            return nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width)
            )

        self.first, self.second = forward_net(), forward_net()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(
            width, 4, batch_first=True
        )
        self.norm2, self.gate = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.depthwise, self.batch = nn.Conv1d(
            width, width, 7, padding=3, groups=width
        ), nn.BatchNorm1d(width)
        self.out, self.last = nn.Conv1d(width, width, 1), nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        mixed = functional.glu(self.gate(self.norm2(x).transpose(1, 2)), dim=1)
        x = x + self.out(functional.silu(self.batch(self.depthwise(mixed)))).transpose(1, 2)
        return self.last(x + 0.5 * self.second(x))


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(16, 32)
        self.blocks = nn.Sequential(ConformerBlock(), ConformerBlock())
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, features):
        return self.head(self.blocks(self.input(features)))


def networks():
    for name in WAVES:
        yield Network(
            name.replace("For", "_"),
            "transformers",
            make(name, CONVOLUTIONS | OWN.get(name, {})),
            {"input_values": WAVE, "labels": CLASS},
            logits_of,
        )
    yield Network(
        "AST_AudioClassification",
        "transformers",
        make(
            "ASTForAudioClassification",
            dict(max_length=24, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8),
        ),
        {"input_values": floats(24, 16), "labels": CLASS},
        logits_of,
    )
    whisper = dict(num_mel_bins=16, max_source_positions=12)
    yield Network(
        "Whisper_AudioClassification",
        "transformers",
        make("WhisperForAudioClassification", whisper),
        {"input_features": floats(16, 24), "labels": CLASS},
        logits_of,
    )
    yield Network(
        "Whisper_seq2seq",
        "transformers",
        make("WhisperForConditionalGeneration", whisper),
        {"input_features": floats(16, 24), "decoder_input_ids": TARGET, "labels": TARGET_LABELS},
        lambda module, **inputs: module(**inputs, use_cache=False).logits,
        quick=True,
    )
    yield Network(
        "Speech2Text_seq2seq",
        "transformers",
        make(
            "Speech2TextForConditionalGeneration",
            dict(
                conv_channels=16,
                input_feat_per_channel=8,
                conv_kernel_sizes=[3, 3],
                max_source_positions=32,
                max_target_positions=32,
            ),
        ),
        {"input_features": floats(24, 8), "decoder_input_ids": TARGET, "labels": TARGET_LABELS},
        lambda module, **inputs: module(**inputs, use_cache=False).logits,
    )
    for name, kind in (("keyword_spotting", KeywordSpotting), ("m5", M5)):
        yield Network(
            f"audio_{name}",
            "audio",
            kind,
            {"wave": WAVE, "labels": CLASS},
            first_of,
            quick=name in QUICK,
        )
    spectrum = {"wave": floats(128), "labels": CLASS}
    yield Network("audio_learned_spectrum", "audio", LearnedSpectrum, spectrum, first_of)
    yield Network(
        "audio_conv_tasnet",
        "audio",
        ConvTasNet,
        {"wave": floats(128), "target": floats(2, 128)},
        first_of,
        scalar=True,
    )
    yield Network(
        "audio_wavenet",
        "audio",
        WaveNet,
        {
            "input_ids": Field(("batch", "time"), "ids", VOCABULARY),
            "labels": Field(("batch", "time"), "labels", VOCABULARY, IGNORE),
        },
        first_of,
    )
    yield Network(
        "audio_tacotron",
        "audio",
        Tacotron,
        {"input_ids": Field(("batch", 12), "ids", VOCABULARY), "mel": floats(12, 8)},
        first_of,
        scalar=True,
    )
    frames = {
        "features": floats("time", 16),
        "labels": Field(("batch", "time"), "labels", VOCABULARY, IGNORE),
    }
    yield Network(
        "audio_emformer", "audio", EmformerLike, frames, first_of, lengths={"time": (4, 14)}
    )
    # Attention and convolutions that see the padding: right only where a micro-batch holds one
    # length.
    yield Network(
        "audio_conformer", "audio", Conformer, frames, first_of, lengths={"time": (4, 14)}
    )
    fixed = {
        "features": floats(10, 16),
        "labels": Field(("batch", 10), "labels", VOCABULARY, IGNORE),
    }
    yield Network("audio_conformer_fixed", "audio", Conformer, fixed, first_of)
