"""Makes images and sounds with captions: WebDataset shards of text with 0 to 3 images and 0 to 2 sounds a sample. Plain Python 3.

    python3 make_data.py OUT [SAMPLES]        # OUT/train-000.tar …, OUT/blind.json

An image is a disc, a square or a cross of one colour; a sound is a low, middle or high tone, or noise, as a spectrogram. In the
text each stands as a run of marked tokens (one per feature that its encoder makes), followed by what it shows: only who sees
the image can say the colour. A third of the samples is text alone.
"""

import array
import io
import json
import math
import pathlib
import random
import sys
import tarfile

IMAGE, SOUND = 256, 257
PATCHES, SEGMENTS = 4, 4
SIDE = 32
BANDS, FRAMES, WINDOW = 16, 32, 64
RATE = 4000.0
COLOURS = {"red": (1.0, -1.0, -1.0), "green": (-1.0, 1.0, -1.0), "blue": (-1.0, -1.0, 1.0), "white": (1.0, 1.0, 1.0)}
SHAPES = {
    "disc": lambda x, y: x * x + y * y < 100,
    "square": lambda x, y: abs(x) < 9 and abs(y) < 9,
    "cross": lambda x, y: abs(x) < 4 or abs(y) < 4,
}
TONES = {"low tone": 250.0, "middle tone": 700.0, "high tone": 1500.0, "noise": None}
TEXTS = ("nothing to see here. ", "this one has words alone. ", "no picture and no sound. ", "just text, as before. ")
SHARD_SAMPLES = 128


def image(shape, colour, chance):
    """[3, SIDE, SIDE] in about [-1, 1]: the figure somewhere on a grey, noisy ground."""
    right, down = chance.randint(-5, 5), chance.randint(-5, 5)
    inside = [SHAPES[shape](x - SIDE // 2 - right, y - SIDE // 2 - down) for y in range(SIDE) for x in range(SIDE)]
    return [(level if there else 0.0) + chance.gauss(0, 0.2) for level in COLOURS[colour] for there in inside]


def spectrogram(frequency, chance):
    """[BANDS, FRAMES]: the logarithm of each band's energy (Goertzel's filter) in each window of a second of sound."""
    loud, phase = chance.uniform(0.5, 1.0), chance.uniform(0, 6.28)
    wave = [loud * (math.sin(6.2832 * frequency * t / RATE + phase) if frequency else chance.gauss(0, 1)) + chance.gauss(0, 0.05)
            for t in range(FRAMES * WINDOW)]
    rows = []
    for band in range(BANDS):
        factor = 2 * math.cos(6.2832 * (100 + 110 * band) / RATE)
        for start in range(0, len(wave), WINDOW):
            one = two = 0.0
            for value in wave[start : start + WINDOW]:
                one, two = value + factor * one - two, one
            rows.append(0.3 * math.log(1e-3 + one * one + two * two - factor * one * two))
    return rows


def sample(chance):
    """Tokens, images, sounds. What is not text itself has no label."""
    tokens, images, sounds = [], [], []
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        shape, colour = chance.choice(list(SHAPES)), chance.choice(list(COLOURS))
        images.append(image(shape, colour, chance))
        tokens += [IMAGE] * PATCHES + list(f"a {colour} {shape}. ".encode())
    for _ in range(chance.choice((0, 0, 1, 2))):
        name = chance.choice(list(TONES))
        sounds.append(spectrogram(TONES[name], chance))
        tokens += [SOUND] * SEGMENTS + list(f"a {name}. ".encode())
    if not tokens:
        tokens = list(chance.choice(TEXTS).encode())
    labels = [token if token < 256 else -100 for token in tokens[1:]] + [-100]
    return tokens, labels, images, sounds


def npy(values, shape, code, kind):
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = array.array(code, values)
    if sys.byteorder == "big":
        data.byteswap()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data.tobytes()


def members(tokens, labels, images, sounds):
    """A sample without images or sounds lacks the field."""
    yield "input_ids", npy(tokens, (len(tokens),), "q", "i8")
    yield "labels", npy(labels, (len(labels),), "q", "i8")
    if images:
        yield "pixels", npy([value for one in images for value in one], (len(images), 3, SIDE, SIDE), "f", "f4")
    if sounds:
        yield "spectrogram", npy([value for one in sounds for value in one], (len(sounds), BANDS, FRAMES), "f", "f4")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 384
    out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    samples = [sample(chance) for _ in range(count)]
    for start in range(0, count, SHARD_SAMPLES):
        with tarfile.open(out / f"train-{start // SHARD_SAMPLES:03d}.tar", "w") as shard:
            for index, parts in enumerate(samples[start : start + SHARD_SAMPLES], start):
                for field, content in members(*parts):
                    member = tarfile.TarInfo(f"{index:06d}.{field}.npy")
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))
    # What a model that sees and hears nothing must pay: it cannot know which of the captions follows.
    images, sounds = (sum(len(parts[kind]) for parts in samples) for kind in (2, 3))
    alone = sum(not parts[2] and not parts[3] for parts in samples)
    total = sum(label >= 0 for _, labels, _, _ in samples for label in labels)
    blind = (images * math.log(len(SHAPES) * len(COLOURS)) + sounds * math.log(len(TONES)) + alone * math.log(len(TEXTS))) / total
    (out / "blind.json").write_text(json.dumps({"nats": blind, "bytes": total}) + "\n")
    print(f"{count} samples: {images} images, {sounds} sounds, {total:,} bytes of captions; {alone} samples are text alone. "
          f"Who sees and hears nothing pays at least {blind:.3f} nats a byte")


if __name__ == "__main__":
    main()
