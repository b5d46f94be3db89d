"""maestro.shards: what is in the tar files, whoever wrote them, and what is refused."""

from __future__ import annotations

import io
import json
import tarfile

import numpy
import pytest

import maestro

TEXTS = ["the cat sat", "a", "on the mat and slept there until noon", "", "then it left"]


def tokenise(row):
    return list(row["text"].encode())


def read(path):
    samples = {}
    with tarfile.open(path) as shard:
        for member in shard:
            key, field, kind = member.name.split(".")
            assert kind == "npy"
            samples.setdefault(key, {})[field] = numpy.load(io.BytesIO(shard.extractfile(member).read()))
    return list(samples.values())


def read_all(shards):
    return [sample for file in shards.files for sample in read(file)]


@pytest.fixture
def jsonl(tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 10))
    return path


def test_samples_of_an_iterable(tmp_path):
    def rows():
        for index in range(5):
            yield {"features": [0.5 * index, 1.0], "labels": index, "pixels": numpy.full((2, 2), index, numpy.uint8)}

    made = maestro.shards(rows(), tmp_path / "out" / "{:03d}.tar", per_shard=2)
    assert [file.name for file in made.files] == ["000.tar", "001.tar", "002.tar"] and made.samples == 5
    samples = read_all(made)
    assert [int(sample["labels"]) for sample in samples] == [0, 1, 2, 3, 4]
    assert samples[3]["features"].dtype == numpy.float32 and samples[3]["features"].tolist() == [1.5, 1.0]
    assert samples[3]["pixels"].dtype == numpy.uint8 and samples[3]["labels"].shape == ()
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["000.tar", "001.tar", "002.tar"]


def test_next_token_and_truncation(tmp_path, jsonl):
    made = maestro.shards(jsonl, tmp_path / "{}.tar", map=tokenise, next_token=True, truncate=8)
    samples = read_all(made)
    assert made.skipped == 20  # "a" has no next token, "" has none at all
    first = TEXTS[0].encode()
    assert bytes(samples[0]["input_ids"].tolist()) == first[:8] and bytes(samples[0]["labels"].tolist()) == first[1:9]
    assert bytes(samples[2]["labels"].tolist()) == TEXTS[4].encode()[1:9]


def test_labels_of_a_sample_are_shifted_alike(tmp_path):
    rows = [{"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8]}]
    sample = read_all(maestro.shards(rows, tmp_path / "{}.tar", next_token=True))[0]
    assert sample["input_ids"].tolist() == [5, 6, 7] and sample["labels"].tolist() == [-100, 7, 8]


def test_packing_keeps_every_token(tmp_path, jsonl):
    made = maestro.shards(jsonl, tmp_path / "{:02d}.tar", map=tokenise, pack=16, eos=0, per_shard=25)
    for file, texts in zip(made.files, (TEXTS * 5, TEXTS * 5), strict=True):
        row = b"".join(text.encode() + b"\0" for text in texts if text)
        samples = read(file)
        assert [len(sample["input_ids"]) for sample in samples[:-1]] == [16] * (len(samples) - 1)
        assert bytes(numpy.concatenate([sample["input_ids"] for sample in samples]).tolist()) == row[:-1]
        assert bytes(numpy.concatenate([sample["labels"] for sample in samples]).tolist()) == row[1:]


def test_boundaries(tmp_path):
    rows = [{"input_ids": ids} for ids in ([1, 2, 3], [4, 5], [6, 7, 8, 9])]
    samples = read_all(maestro.shards(rows, tmp_path / "{}.tar", pack=4, boundaries=True))
    assert [sample["input_ids"].tolist() for sample in samples] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert [sample["position_ids"].tolist() for sample in samples] == [[0, 1, 2, 0], [0, 0, 1, 2]]
    assert [sample["labels"].tolist() for sample in samples] == [[2, 3, -100, 5], [-100, 7, 8, 9]]


def test_processes_change_no_byte(tmp_path, jsonl):
    seen = []
    for processes in (1, 2, 3):
        made = maestro.shards(
            jsonl,
            tmp_path / f"by-{processes}-{{:02d}}.tar",
            map=lambda row: tokenise(row),
            pack=16,
            per_shard=7,
            processes=processes,
        )
        seen.append([file.read_bytes() for file in made.files])
    assert seen[0] == seen[1] == seen[2] and len(seen[0]) == 8


def test_indexed_datasets_are_read_where_they_are_used(tmp_path):
    class Squares:
        def __len__(self):
            return 10

        def __getitem__(self, index):
            if index >= 10:
                raise IndexError(index)
            return {"x": float(index * index)}

    made = maestro.shards(Squares(), tmp_path / "{}.tar", per_shard=3, processes=2)
    assert [float(sample["x"]) for sample in read_all(made)] == [index * index for index in range(10)]


def test_parquet_and_text_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS, "extra": [1.0] * 5}), tmp_path / "a.parquet")
    (tmp_path / "b.txt").write_text("one\ndocument\n\n\nanother\n")
    table = maestro.shards(tmp_path / "*.parquet", tmp_path / "a{}.tar", map=lambda row: {"n": len(row["text"])})
    assert [int(sample["n"]) for sample in read_all(table)] == [len(text) for text in TEXTS]
    texts = maestro.shards(str(tmp_path / "b.txt"), tmp_path / "b{}.tar", map=tokenise)
    assert [bytes(sample["input_ids"].tolist()) for sample in read_all(texts)] == [b"one\ndocument\n", b"another\n"]


def test_one_item_may_be_many_samples_or_none(tmp_path):
    made = maestro.shards(
        range(4), tmp_path / "{}.tar", map=lambda index: [{"x": index}] * index if index != 2 else None
    )
    assert [int(sample["x"]) for sample in read_all(made)] == [1, 3, 3, 3] and made.skipped == 2


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        ([{"text": "a"}], {}, "'text' is the str 'a', not numbers; make them in map="),
        ([{"x": [[1], [2, 3]]}], {}, "'x' is no array"),
        ([{"x.y": 1}], {}, "field named 'x.y'"),
        ([{"x": 1}], {"fields": ["y"]}, "has no field 'y'; it has x"),
        ([{"x": 1}], {"map": lambda row: row["y"]}, "item 0 of shard 0: map raised KeyError: 'y'"),
        ([{"x": 1}], {"pack": 4}, "no field 'input_ids'"),
        ([{"input_ids": [[1, 2]]}], {"pack": 4}, "leave out return_tensors"),
        ([{"input_ids": [1, 2], "y": 1}], {"pack": 4}, "'y' has no entry a token"),
        ([{"input_ids": [1]}], {"eos": 2}, "eos= parts the samples"),
        ([{"input_ids": [1]}], {"boundaries": True}, "boundaries are those"),
        ([], {}, "gave no sample"),
        ([{"input_ids": [1]}], {"next_token": True}, "all of its 1 items were skipped"),
        ({"train": [], "test": []}, {}, "mapping of train, test"),
        (3, {}, "source is a int"),
        ("nothing.jsonl", {}, "no such file"),
        ([{"x": 1}], {"pack": 0}, "pack is 0"),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path, rows, options, expected):
    with pytest.raises(maestro.Error) as caught:
        maestro.shards(rows, tmp_path / "{}.tar", **options)
    assert expected in str(caught.value) and not list(tmp_path.iterdir())


def test_bad_files_and_names(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"x": 1}\n{"x": \n')
    with pytest.raises(maestro.Error, match="bad.jsonl:2: not JSON"):
        maestro.shards(tmp_path / "bad.jsonl", tmp_path / "{}.tar")
    with pytest.raises(maestro.Error, match="not a name with one place for a number"):
        maestro.shards([{"x": 1}], tmp_path / "{name}.tar")
    assert maestro.shards([{"x": 1}], tmp_path / "alone").files == [tmp_path / "alone.tar"]
    maestro.shards([{"x": 1}], tmp_path / "{}.tar")
    with pytest.raises(maestro.Error, match="0.tar exists; give another path, or overwrite=True"):
        maestro.shards([{"x": 1}], tmp_path / "{}.tar")
    assert maestro.shards([{"x": 1}], tmp_path / "{}.tar", overwrite=True).samples == 1


def test_errors_of_other_processes_arrive(tmp_path):
    def fails(row):
        raise maestro.Error("the disk is full", status=2) if row == 9 else ValueError("nine")

    with pytest.raises(maestro.Error) as caught:
        maestro.shards(iter([0, 1, 2]), tmp_path / "{}.tar", map=fails, per_shard=1, processes=2)
    assert "map raised ValueError: nine" in str(caught.value)
    rows = [0.0] * 40 + ["no number"]
    with pytest.raises(maestro.Error, match="item 0 of shard 40: 'x' is the str 'no number'"):
        maestro.shards(({"x": row} for row in rows), tmp_path / "{}.tar", per_shard=1, processes=2)
    assert not list(tmp_path.iterdir())
    with pytest.raises(maestro.Error) as caught:
        maestro.shards(iter([9, 9, 9]), tmp_path / "{}.tar", map=fails, per_shard=1, processes=2)
    assert caught.value.status == 2


def test_many_shards_are_one_argument(tmp_path):
    from maestro._data import data_arguments

    def words(*names):
        return data_arguments("--data", [f"/a1/{name}.tar" for name in names])

    assert words("s-08", "s-09", "s-10") == ["--data", "/a1/s-{08..10}.tar"]
    assert words("8", "9", "10") == ["--data", "/a1/8.tar", "/a1/9.tar", "/a1/10.tar"]
    assert words("1", "3", "4") == ["--data", "/a1/1.tar", "/a1/3.tar", "/a1/4.tar"]
    assert words("*") == ["--data", "/a1/*.tar"] and data_arguments("--data", tmp_path) == ["--data", str(tmp_path)]
    assert data_arguments("--data", maestro.Shards([tmp_path / "0.tar"])) == ["--data", str(tmp_path / "0.tar")]
    with pytest.raises(maestro.Error, match="names no shard"):
        data_arguments("--data", maestro.Shards())
