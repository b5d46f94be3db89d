"""Writes the golden files of this folder with the libraries that users write theirs with: numpy, tarfile, safetensors.

They are committed; run this again only to add one: .venv/bin/python test/executor_files/golden/make.py
"""

import gzip
import io
import pathlib
import subprocess
import tarfile

import numpy
import torch
from safetensors.torch import save_file, save_model

FOLDER = pathlib.Path(__file__).parent


def npy(array: numpy.ndarray, version: tuple | None = None) -> bytes:
    buffer = io.BytesIO()
    numpy.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def write_arrays() -> None:
    signed = numpy.arange(6).reshape(2, 3) - 2
    arrays = {code: npy(signed.astype("<" + code)) for code in ["f2", "f4", "f8", "i1", "i2", "i4", "i8"]}
    for code in ["u1", "u2", "u4"]:
        arrays[code] = npy((numpy.arange(6).reshape(2, 3) + numpy.iinfo(code).max - 5).astype("<" + code))
    arrays["b1"] = npy(numpy.array([[True, False, True], [False, False, True]]))
    arrays["scalar"] = npy(numpy.array(7, numpy.int64))
    arrays["empty"] = npy(numpy.zeros((0, 4), numpy.float32))
    arrays["fortran"] = npy(numpy.asfortranarray(numpy.arange(24, dtype=numpy.int32).reshape(2, 3, 4)))
    arrays["version2"] = npy(signed.astype("<i8"), (2, 0))
    arrays["version3"] = npy(signed.astype("<i8"), (3, 0))
    arrays["big_endian"] = npy(signed.astype(">f4"))
    arrays["complex"] = npy(signed.astype("c8"))
    arrays["record"] = npy(numpy.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))
    arrays["object"] = npy(numpy.array([1, "x"], dtype=object))
    for name, content in arrays.items():
        (FOLDER / f"{name}.npy").write_bytes(content)


def write_tar(name: str, members: list, tar_format: int, mode: str = "w") -> None:
    with tarfile.open(FOLDER / name, mode, format=tar_format) as tar:
        for member, content in members:
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def samples(first: int, count: int) -> list:
    """Sample k has k+1 ids from 10k on and label k mod 5; every second has a weight, too."""
    members = []
    for k in range(first, first + count):
        members.append((f"train/s{k:03d}.ids.npy", npy((numpy.arange(k + 1) + 10 * k).astype("<i8"))))
        members.append((f"train/s{k:03d}.label.cls", str(k % 5).encode()))
        if k % 2:
            members.append((f"train/s{k:03d}.weight.json", b"0.5\n"))
    return members


def write_shards() -> None:
    write_tar("gnu.tar", samples(0, 3), tarfile.GNU_FORMAT)
    long_name = "train/" + "l" * 120
    long = [(long_name + ".ids.npy", npy(numpy.array([1, 2], "<i8"))), (long_name + ".label.cls", b"3")]
    write_tar("pax.tar", samples(3, 2) + long, tarfile.PAX_FORMAT)
    write_tar("ustar.tar.gz", samples(5, 3), tarfile.USTAR_FORMAT, "w:gz")
    tar = gzip.decompress((FOLDER / "ustar.tar.gz").read_bytes())
    for packer, suffix in (("zstd", "zst"), ("xz", "xz"), ("bzip2", "bz2")):
        packed = subprocess.run([packer, "-c"], input=tar, capture_output=True, check=True).stdout
        (FOLDER / f"ustar.tar.{suffix}").write_bytes(packed)


def write_safetensors() -> None:
    tensors = {
        "a": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "c": torch.tensor(7, dtype=torch.int64),
        "d": torch.tensor([True, False]),
        "e": torch.zeros(0, 3),
    }
    save_file(tensors, FOLDER / "types.safetensors", {"made": "by torch"})
    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(4, 2), "head": torch.nn.Linear(2, 4, bias=False)})
    model["head"].weight = model["embed"].weight
    with torch.no_grad():
        model["embed"].weight.copy_(torch.arange(8).reshape(4, 2))
    save_model(model, FOLDER / "tied.safetensors")


if __name__ == "__main__":
    write_arrays()
    write_shards()
    write_safetensors()
