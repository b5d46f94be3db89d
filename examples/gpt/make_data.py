"""Makes the demo's data from text that every Debian carries: WebDataset shards of bytes as tokens. Plain Python 3.

    python3 make_data.py OUT       # OUT/train-000.tar …, OUT/held-out.tar, OUT/byte_frequencies.json

A sample is a window of at most 256 bytes: `<key>.input_ids.npy`, and `<key>.labels.npy`, the byte that follows each.
Labels are shifted here: Maestro's losses never shift. The last window of a text is shorter, as real samples are.
"""

import array
import collections
import io
import json
import math
import pathlib
import random
import sys
import tarfile

CONTEXT = 256
SHARD_SAMPLES = 512
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def texts():
    """The licences that Debian installs everywhere, and this repository's own pages."""
    files = sorted(path for path in pathlib.Path("/usr/share/common-licenses").glob("*") if not path.is_symlink())
    files += sorted(REPOSITORY.glob("docs/**/*.md")) + sorted(REPOSITORY.glob("*/README.md"))
    return [path.read_bytes() for path in files]


def windows(text):
    for start in range(0, len(text) - 1, CONTEXT):
        piece = text[start : start + CONTEXT + 1]
        if len(piece) > 16:
            yield piece[:-1], piece[1:]


def npy(values):
    """The .npy file, format 1.0, of int64 values [len(values)]."""
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = array.array("q", list(values))
    if sys.byteorder == "big":
        data.byteswap()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data.tobytes()


def write_shard(path, samples):
    with tarfile.open(path, "w") as shard:
        for key, fields in samples:
            for field, values in zip(("input_ids", "labels"), fields):
                content = npy(values)
                member = tarfile.TarInfo(f"{key}.{field}.npy")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))


def byte_frequency_loss(samples):
    """What a model that only knows how frequent each byte is would pay for these labels, in nats a byte."""
    counts = collections.Counter(byte for _, (_, labels) in samples for byte in labels)
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values()), total


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__))
    out.mkdir(parents=True, exist_ok=True)
    samples = [(f"{index:06d}", pair) for index, pair in enumerate(p for text in texts() for p in windows(text))]
    if len(samples) < 100:
        sys.exit(f"make_data: only {len(samples)} samples of text in /usr/share/common-licenses; 100 are wanted")
    random.Random(0).shuffle(samples)
    held_out, train = samples[: len(samples) // 20], samples[len(samples) // 20 :]
    write_shard(out / "held-out.tar", held_out)
    for number, start in enumerate(range(0, len(train), SHARD_SAMPLES)):
        write_shard(out / f"train-{number:03d}.tar", train[start : start + SHARD_SAMPLES])
    nats, total = byte_frequency_loss(train)
    (out / "byte_frequencies.json").write_text(json.dumps({"nats": nats, "bytes": total, "samples": len(train)}) + "\n")
    print(f"{len(train)} samples, {total:,} bytes of text; knowing only how frequent each byte is costs {nats:.3f} nats a byte")


if __name__ == "__main__":
    main()
