"""Shards, arrays, weights and checkpoints with one thing wrong, for the token model whose plan is valid."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy

import good


def members(change):
    """The valid shard with one change to its list of [member name, bytes]."""

    def write(folder: pathlib.Path) -> str:
        listed = good.token_members()
        change(listed)
        return str(good.write_tar(listed, folder / "wrong.tar"))

    return write


def array(index: int, value):
    """Member `index` holds `value` instead: an array, or bytes as they are."""

    def change(listed):
        listed[index][1] = value if isinstance(value, bytes) else good.array_bytes(value)

    return members(change)


def pair(inputs, labels):
    """Sample 1 holds these."""

    def change(listed):
        listed[2][1], listed[3][1] = good.array_bytes(inputs), good.array_bytes(labels)

    return members(change)


def raw(content):
    def write(folder):
        (folder / "wrong.tar").write_bytes(content(folder) if callable(content) else content)
        return str(folder / "wrong.tar")

    return write


def ids(*values):
    return numpy.array(values, numpy.int64)


def header(text: str) -> bytes:
    padded = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


def drop(index):
    return members(lambda listed: listed.pop(index))


def rename(index, name):
    return members(lambda listed: listed[index].__setitem__(0, name))


def shard_bytes(folder) -> bytes:
    return (folder / "shard.tar").read_bytes()


VALID = good.array_bytes(ids(1, 2, 3))

# name: (writer of the --data pattern, words). Members alternate: sample0.input_ids, sample0.labels, sample1.input_ids, …
DATA = {
    "data matches nothing": (lambda folder: str(folder / "none-*.tar"), ["none-*.tar"]),
    "data directory": (lambda folder: str(folder), [("director", "tar", "shard")]),
    "shard empty": (raw(b""), ["wrong.tar"]),
    "shard without members": (members(lambda listed: listed.clear()), ["wrong.tar"]),
    "shard text": (raw(b"no tar at all\n" * 100), ["wrong.tar"]),
    "shard half": (raw(lambda folder: shard_bytes(folder)[: len(shard_bytes(folder)) // 2 - 300]), ["wrong.tar"]),
    "npy empty": (array(2, b""), ["sample1", "input_ids", "wrong.tar"]),
    "npy magic": (array(2, b"\x93NUMPZ" + VALID[6:]), ["sample1", "input_ids"]),
    "npy cut header": (array(2, VALID[:20]), ["sample1", "input_ids"]),
    "npy cut data": (array(2, VALID[:-4]), ["sample1", "input_ids"]),
    "npy surplus data": (array(2, VALID + b"\0" * 8), ["sample1", "input_ids"]),
    "npy version 9": (array(2, b"\x93NUMPY\x09\x00" + VALID[8:]), ["sample1", "input_ids"]),
    "npy header no dict": (array(2, header("[1, 2, 3]")), ["sample1", "input_ids"]),
    "npy negative dim": (array(2, header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }")),
                         ["sample1", "input_ids"]),
    "npy huge dims": (array(2, header("{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }")),
                      ["sample1", "input_ids"]),
    "npy objects": (array(2, numpy.array([{"a": 1}], object)), ["sample1", "input_ids"]),
    "npy floats for ids": (array(2, numpy.array([1.0, 2.0])), ["sample1", "input_ids", ("int64", "i64")]),
    "npy rank": (array(2, numpy.ones((2, 2, 2), numpy.int64)), ["sample1", "input_ids"]),
    "npy scalar": (array(2, numpy.array(3, numpy.int64)), ["sample1", "input_ids"]),
    "id beyond vocabulary": (pair(ids(1, good.VOCABULARY, 3), ids(1, 2, 3)), ["sample1", "input_ids", str(good.VOCABULARY)]),
    "id negative": (pair(ids(1, -1, 3), ids(1, 2, 3)), ["sample1", "input_ids", "-1"]),
    "label beyond classes": (pair(ids(1, 2, 3), ids(*[good.VOCABULARY] * 3)), ["sample1", "labels"]),
    "label negative": (pair(ids(1, 2, 3), ids(*[-7] * 3)), ["sample1", "labels", "-7"]),
    "sequence above its bound": (array(2, ids(*[1] * 13)), ["sample1", "input_ids", "13", "12", "seq"]),
    "more labels than ids": (pair(ids(1, 2, 3), ids(*[1] * 7)), ["sample1", "wrong.tar", "labels", "input_ids", "7 positions", "has 3", "seq"]),
    "fewer labels than ids": (pair(ids(1, 2, 3), ids(1, 2)), ["sample1", "labels", "input_ids", "2 positions", "has 3"]),
    "field lacking": (drop(3), ["sample1", "labels"]),
    "field misspelt": (rename(3, "sample1.label.npy"), ["sample1", "labels"]),
    "member without field": (rename(3, "sample1"), ["sample1"]),
    "member unknown type": (rename(3, "sample1.labels.txt"), ["sample1", "labels"]),
    "json no number": (members(lambda listed: listed.__setitem__(3, ["sample1.labels.json", b"{]"])),
                       ["sample1", "labels"]),
}


# ---- weights ------------------------------------------------------------------------------------------------------


def write_safetensors(path: pathlib.Path, tensors: dict, change=None) -> pathlib.Path:
    """`change` edits the header before it is written."""
    entries, content = {}, b""
    for name, value in tensors.items():
        kind = {"float32": "F32", "int64": "I64"}[str(value.dtype)]
        entries[name] = {"dtype": kind, "shape": list(value.shape),
                         "data_offsets": [len(content), len(content) + value.nbytes]}
        content += value.tobytes()
    if change:
        change(entries)
    text = json.dumps(entries).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return path


def weights(change_tensors=None, change_header=None, cut=None, prefix=None):
    def write(folder):
        tensors = {"embed.weight": good.weights((good.VOCABULARY, 8), 4),
                   "head.weight": good.weights((8, good.VOCABULARY), 5)}
        if change_tensors:
            change_tensors(tensors)
        path = write_safetensors(folder / "wrong.safetensors", tensors, change_header)
        if cut or prefix:
            path.write_bytes((prefix or b"") + path.read_bytes()[len(prefix or b"") : cut])
        return f"tokens={path}"

    return write


def offsets(begin, end):
    return lambda entries: entries["head.weight"].__setitem__("data_offsets", [begin, end])


def pickled(folder):
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(100))
    return "tokens=checkpoint"


def index_out_of_its_folder(folder):
    weights()(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"head.weight": "../wrong.safetensors"}}))
    return "tokens=model.safetensors.index.json"


# name: (writer of the argument of --weights, words)
WEIGHTS = {
    "weights pickle": (pickled, ["tokens", "pytorch_model.bin", "pickle", "save_pretrained"]),
    "weights index elsewhere": (index_out_of_its_folder, ["tokens", "../wrong.safetensors", "own folder"]),
    "weights missing": (lambda folder: "tokens=gone.safetensors", ["gone.safetensors"]),
    "weights without component": (lambda folder: "wrong.safetensors", ["wrong.safetensors"]),
    "weights unknown component": (lambda folder: weights()(folder).replace("tokens=", "tokenz="), ["tokenz", "tokens"]),
    "weights empty": (weights(cut=0 or 1), ["wrong.safetensors"]),
    "weights cut header": (weights(cut=40), ["wrong.safetensors"]),
    "weights cut data": (weights(cut=-100), ["wrong.safetensors"]),
    "weights huge header": (weights(prefix=b"\xff" * 7 + b"\x7f"), ["wrong.safetensors"]),
    "weights header no JSON": (weights(prefix=(64).to_bytes(8, "little") + b"]" * 64), ["wrong.safetensors"]),
    "weights lacking": (weights(lambda tensors: tensors.pop("head.weight")), ["head.weight"]),
    "weights shape": (weights(lambda tensors: tensors.update({"head.weight": good.weights((8, 5), 5)})), ["head.weight"]),
    "weights dtype": (weights(lambda tensors: tensors.update({"head.weight": numpy.ones((8, 16), numpy.int64)})),
                      ["head.weight"]),
    "weights offsets beyond": (weights(change_header=offsets(1 << 40, (1 << 40) + 512)), ["head.weight"]),
    "weights offsets reversed": (weights(change_header=offsets(1024, 512)), ["head.weight"]),
    "weights offsets short": (weights(change_header=offsets(512, 520)), ["head.weight"]),
    "weights offsets negative": (weights(change_header=offsets(-8, 504)), ["wrong.safetensors"]),
    "weights no offsets": (weights(change_header=lambda entries: entries["head.weight"].pop("data_offsets")),
                           ["head.weight"]),
    "weights shape no list": (weights(change_header=lambda entries: entries["head.weight"].update(shape="8x16")),
                              ["head.weight"]),
}

# Arguments after `maestro-run plan.mpl --data shard.tar`: name, arguments, words.
RUN_FLAGS = {
    "flag weights twice": (["--weights", "tokens=a.safetensors", "--weights", "tokens=b.safetensors"], ["--weights", "a.safetensors", "tokens", "folder"]),
    "flag steps 0": (["--steps", "0"], ["steps"]),
    "flag steps negative": (["--steps", "-3"], ["steps"]),
    "flag steps words": (["--steps", "all"], ["steps"]),
    "flag seed negative": (["--steps", "1", "--seed", "-1"], ["error: --seed", "-1"]),
    "flag trace in no folder": (["--steps", "1", "--trace", "nowhere/trace.json"], ["--trace", "nowhere"]),
    "flag save-every 0": (["--steps", "1", "--save-every", "0"], ["save-every"]),
    "flag run unknown": (["--step", "3"], ["--step"]),
    "flag ranks": (["--ranks", "fibres"], ["fibres"]),
    "flag out is a file": (["--steps", "1", "--out", "shard.tar"], ["shard.tar"]),
    "flag out below a file": (["--steps", "1", "--out", "shard.tar/run"], ["shard.tar"]),
    "flag out not writable": (["--steps", "1", "--out", "/proc/maestro"], ["/proc/maestro"]),
    "flag cache below a file": (["--steps", "1", "--cache", "shard.tar/indexes"], ["--cache", "shard.tar/indexes"]),
    "flag misspelt": (["--save-evry", "1"], ["unknown option '--save-evry'", "did you mean '--save-every'"]),
    "flag resume without out": (["--steps", "1", "--resume"], ["--out"]),
}


# ---- checkpoints --------------------------------------------------------------------------------------------------


def cut(name, keep):
    def change(checkpoint):
        path = checkpoint / name
        path.write_bytes(path.read_bytes()[:keep])

    return change


def rewrite(name, content):
    return lambda checkpoint: (checkpoint / name).write_bytes(content)


def remove(name):
    return lambda checkpoint: (checkpoint / name).unlink()


# name: (change to a whole checkpoint, words); the run is then resumed.
CHECKPOINTS = {
    "checkpoint weights cut": (cut("tokens.safetensors", 300), ["tokens.safetensors"]),
    "checkpoint weights missing": (remove("tokens.safetensors"), ["tokens.safetensors"]),
    "checkpoint optimizer cut": (cut("optimizer.safetensors", 200), ["optimizer.safetensors"]),
    "checkpoint optimizer missing": (remove("optimizer.safetensors"), ["optimizer.safetensors"]),
    "checkpoint state empty": (rewrite("state.json", b""), ["state.json"]),
    "checkpoint state foreign": (rewrite("state.json", b"[1, 2]"), ["state.json"]),
    "checkpoint state lacks": (rewrite("state.json", b"{}"), ["state.json"]),
    "checkpoint of another step": (lambda checkpoint: checkpoint.rename(checkpoint.parent / "checkpoint-000007"), ["checkpoint-000007", "step 2"]),
    "checkpoint state negative": (rewrite("state.json", b'{"step": -4}'), ["state.json"]),
}


def copy_run(whole: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    shutil.copytree(whole, folder)
    return sorted(folder.glob("checkpoint-*"))[-1]
