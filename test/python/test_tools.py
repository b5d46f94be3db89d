"""From exported files to what a run has learnt: workload, plan, run, and back into PyTorch, Hugging Face and ONNX."""

from __future__ import annotations

import html
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import numpy
import onnx
import pytest
import torch

import maestro
import networks

STEPS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("distil")


@pytest.fixture(scope="module")
def models():
    return {
        "teacher": networks.seeded(networks.llama(width=48), 1),
        "student": networks.seeded(networks.llama(layers=1), 2),
    }


@pytest.fixture(scope="module")
def data(folder):
    rows = numpy.random.default_rng(0).integers(3, networks.VOCABULARY, (40, 16))
    return maestro.shards(
        ({"input_ids": row} for row in rows), folder / "data" / "{:02d}", next_token=True, per_shard=10
    )


@pytest.fixture(scope="module")
def workload(folder, models):
    graphs = {name: maestro.export(model, model.dummy_inputs, folder / name) for name, model in models.items()}
    return maestro.workload(
        folder / "kd.yaml",
        components={"teacher": {"model": graphs["teacher"], "frozen": True}, "student": graphs["student"]},
        loss={
            "cross_entropy": {"logits": "student.logits", "labels": "labels", "weight": 0.5},
            "kl_divergence": {
                "student": "student.logits",
                "teacher": "teacher.logits",
                "temperature": 2.0,
                "labels": "labels",
                "weight": 0.5,
            },
        },
        dims={"seq": {"combine": "max", "max": 16}},
        train={"global_batch": 8, "ema": 0.9, "optimizer": {"adamw": {"lr": 1e-2, "no_decay": ["*norm*"]}}},
    )


@pytest.fixture(scope="module")
def plan(folder, workload):
    return maestro.plan(
        workload, pin={"teacher.devices": 0, "student.devices": 1}, set={"cluster.devices_per_node": 2}, quiet=True
    )


@pytest.fixture(scope="module")
def run(folder, plan, data):
    return maestro.run(plan, data=data, out=folder / "run", steps=STEPS, quiet=True, save_every=2)


def test_workload_file(workload):
    text = workload.read_text()
    assert "teacher: {model: teacher.onnx, frozen: true}" in text
    assert 'optimizer: {adamw: {lr: 0.01, no_decay: ["*norm*"]}}' in text
    assert "  # schedule: {" in text and text.count("#") > 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"components": {"a": {"frozen": True}}, "loss": {"mean": {}}}, "'a' has no model"),
        ({"components": {"a": "a.onnx"}, "loss": []}, "loss has no term"),
        ({"components": {"a": "a.onnx"}, "loss": {"mean": {"value": object()}}}, "no place for a object"),
    ],
)
def test_workloads_that_cannot_be_written(tmp_path, arguments, expected):
    with pytest.raises(maestro.Error, match=expected):
        maestro.workload(tmp_path / "w.yaml", **arguments)
    assert not list(tmp_path.iterdir())


def test_workload_of_every_part(tmp_path):
    maestro.workload(
        tmp_path / "w.yaml",
        components={"vision": "v.onnx", "language": {"model": "l.onnx", "cuts": ["model.layers.1"]}},
        edges=[("vision.features", "language.image_features"), "vision.grid -> language.grid"],
        inputs={"labels": {"dtype": "int64", "shape": ["batch", "seq"], "pad": -100}},
        loss=[{"output": "language.loss"}, {"mean": {"value": "language.extra", "weight": 0.1}}],
        synthetic={"seq": "lognormal(5, 1)"},
    )
    text = (tmp_path / "w.yaml").read_text()
    assert "  - vision.features -> language.image_features\n  - vision.grid -> language.grid\n" in text
    assert (
        "labels: {dtype: int64, shape: [batch, seq], pad: -100}" in text
        and 'synthetic: {seq: "lognormal(5, 1)"}' in text
    )
    with pytest.raises(maestro.Error, match=r"v\.onnx: cannot be opened"):
        maestro.plan(tmp_path / "w.yaml")


def test_plan_as_tables(plan):
    pandas = pytest.importorskip("pandas")
    assert isinstance(plan.sections, pandas.DataFrame)
    sections = plan.sections.set_index("name")
    assert list(sections.index) == ["teacher", "student"] and list(sections.trains) == [False, True]
    assert list(sections.devices) == [[0], [1]] and sections.components["teacher"] == "teacher"
    edge = plan.edges.iloc[0]
    assert (edge.producer, edge.consumer, edge["shape"]) == ("teacher", "student", ["batch", "seq", "48"])
    parameters = plan.parameters.set_index(["component", "name"])
    assert parameters.loc[("student", "lm_head.weight")].aliases == ["model.embed_tokens.weight"]
    assert not parameters.trainable["teacher"].any() and set(plan.fields.name) == {"input_ids", "labels"}
    assert (
        list(plan.losses.weight) == [0.5, 0.5]
        and len(plan.ranks) == 2
        and len(plan.decisions) > 3
        and len(plan.components) == 2
    )
    assert plan.step_seconds > 0 and plan.name == "kd" and plan.tokens_per_second > 0


def test_plan_for_a_cluster(folder, workload):
    from conftest import SOURCE

    cluster = SOURCE / "examples" / "clusters" / "h100x8.yaml"
    plan = maestro.plan(workload, folder / "best.mpl", cluster=cluster, deadline=5, top_k=2, quiet=True)
    assert len(plan.ranks) <= 8 and (folder / "best.2.mpl").exists() and "H100" in plan.explain().upper()


def test_plan_without_pandas(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [row["name"] for row in maestro.Plan(plan.path).sections] == ["teacher", "student"]


def test_plan_as_text_and_page(plan):
    assert "Sections" in str(plan) and repr(plan) == f"maestro.Plan('{plan.path}')"
    page = plan.html()
    assert page.startswith("<!DOCTYPE html>") and html.escape(page, quote=True) in plan._repr_html_()
    assert "student" in plan.explain(section="student")
    assert plan.diff(plan.path) == "the plans are the same\n"
    assert set(plan.lint().get("check", [])) <= {"idle-devices"}  # Which depends on what the search found.
    plan.verify()


def test_errors_are_the_tools(folder, workload, capfd):
    with pytest.raises(maestro.Error) as caught:
        maestro.plan(workload, folder / "wrong.mpl", set={"train.global_bach": 8})
    assert caught.value.status == 1 and not (folder / "wrong.mpl").exists()
    assert str(caught.value).startswith("--set train.global_bach=8: unknown key") and "global_batch" in str(
        caught.value
    )
    assert "unknown key" not in capfd.readouterr().err
    (folder / "no.mpl").write_bytes(b"nothing")
    with pytest.raises(maestro.Error, match="no.mpl"):
        maestro.Plan(folder / "no.mpl").verify()
    with pytest.raises(maestro.Error, match="no workload file"):
        maestro.plan([])


def test_where_tools_are(plan, monkeypatch, tmp_path):
    from maestro._tools import find_tool

    tools = pathlib.Path(os.environ["MAESTRO_BIN"])
    assert find_tool("maestro-dump") == tools / "maestro-dump"
    monkeypatch.setenv("MAESTRO_BIN", str(tmp_path))
    with pytest.raises(maestro.Error, match="MAESTRO_BIN is .* no maestro-dump") as caught:
        str(plan)
    assert caught.value.status == 2
    monkeypatch.delenv("MAESTRO_BIN")
    monkeypatch.setenv("PATH", str(tools))
    assert find_tool("maestro-dump") == tools / "maestro-dump"


def test_run_and_metrics(folder, run, plan, data, capsys):
    assert [row["step"] for row in run.rows] == [1, 2, 3]
    metrics = run.metrics
    assert list(metrics.step) == [1, 2, 3] and {"loss", "losses.kl_divergence", "lr", "tokens"} <= set(metrics.columns)
    assert [path.name for path in run.checkpoints] == ["checkpoint-000002", "checkpoint-000003"]
    (folder / "run" / "checkpoint-000009").mkdir()  # One that was never finished.
    assert run.checkpoint.name == "checkpoint-000003" and run.plan.name == "kd"
    (folder / "run" / "checkpoint-000009").rmdir()
    with pytest.raises(maestro.Error, match="resume"):
        maestro.run(plan, data=data, out=run, steps=1)
    capsys.readouterr()
    more = maestro.run(plan, data=data, out=run, steps=STEPS + 1, resume=True)
    assert len(more.rows) == 4 and "step 4/4" in capsys.readouterr().err


def test_validation(folder, plan, data):
    run = maestro.run(plan, data=data, out=folder / "watched", steps=4, validate=data, validate_every=2, keep_best="loss", quiet=True)
    first, last = (row["validation"] for row in run.rows if "validation" in row)
    assert first["samples"] == data.samples and last["loss"] < first["loss"] and run.best == run.checkpoint.resolve()
    pandas = pytest.importorskip("pandas")
    assert isinstance(run.metrics, pandas.DataFrame)
    assert list(run.metrics["validation.losses.cross_entropy"].notna()) == [False, True, False, True]
    with pytest.raises(maestro.Error, match="keep_best"):
        maestro.Run(folder / "run").best


def test_a_checkpoint_of_what_trains(folder, models, data):
    path = maestro.workload(
        folder / "part.yaml",
        components={"student": {"model": folder / "student.onnx", "trainable": ["*norm*"], "save": "trained"}},
        loss={"cross_entropy": {"logits": "student.logits", "labels": "labels"}},
    )
    run = maestro.run(maestro.plan(path, quiet=True), data=data, out=folder / "part", steps=2, quiet=True)
    model = networks.seeded(networks.llama(layers=1), 2)
    kept = maestro.load(run, model)
    assert "lm_head.weight" in kept and not any("norm" in name for name in kept)
    assert not torch.equal(model.model.norm.weight, models["student"].model.norm.weight)
    with pytest.raises(maestro.Error, match="save_pretrained"):
        maestro.to_hf(run, folder / "part-hf")


def test_evaluate(run, plan, data):
    first = maestro.evaluate(plan, data=data, quiet=True)
    later = maestro.evaluate(plan, data=data, weights={"student": run.checkpoint / "student.safetensors"}, quiet=True)
    assert first["samples"] == data.samples == 40 and later["loss"] < first["loss"]


def test_a_run_that_keeps_nothing(plan, tmp_path):
    run = maestro.Run(None)
    with pytest.raises(maestro.Error, match="kept nothing"):
        run.rows
    with pytest.raises(maestro.Error, match="no such folder"):
        maestro.Run(tmp_path / "none").rows
    with pytest.raises(maestro.Error, match="is .* the folder of a run"):
        maestro.Run(tmp_path).rows
    with pytest.raises(maestro.Error, match="no whole checkpoint"):
        maestro.Run(tmp_path).checkpoint


def test_interrupting_saves_the_step(plan, data, tmp_path):
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(pathlib.Path(maestro.__file__).parents[1])!r})
        import maestro
        try:
            maestro.run({str(plan.path)!r}, data={[str(file) for file in data.files]!r}, out="run", steps=100000)
        except KeyboardInterrupt:
            sys.exit(7)
    """)
    process = subprocess.Popen([sys.executable, "-B", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("step 2/"):
            process.send_signal(signal.SIGINT)
            break
    process.stderr.read()
    assert process.wait(timeout=60) == 7
    run = maestro.Run(tmp_path / "run")
    assert json.loads((run.checkpoint / "state.json").read_text())["step"] >= 2


def test_load(run, models):
    model = networks.llama(layers=1)
    assert maestro.load(run, model) == []
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert not torch.equal(model.model.norm.weight, models["student"].model.norm.weight)
    again = networks.llama(layers=1)
    maestro.load(run.checkpoint, again, "student")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert maestro.load(run, again, ema=True) == []
    averaged, last = again.model.norm.weight, model.model.norm.weight
    assert not torch.equal(averaged, last) and torch.allclose(averaged, last, atol=0.1)
    maestro.load(run.checkpoint, again, "student")
    ids = torch.arange(3, 11)[None]
    assert torch.equal(model.eval()(ids).logits, again.eval()(ids).logits)


def test_what_cannot_be_loaded(run):
    with pytest.raises(maestro.Error, match="'teacher' is frozen as a whole"):
        maestro.load(run, networks.llama(), "teacher")
    for words in ({}, {"ema": True}):
        with pytest.raises(maestro.Error, match="no component 'pupil'; it holds student"):
            maestro.load(run, networks.llama(), "pupil", **words)
    with pytest.raises(maestro.Error, match=r"it lacks 'model.layers.1.* and 5 more \(strict=False"):
        maestro.load(run, networks.llama(layers=2))
    assert len(maestro.load(run, networks.llama(layers=2), strict=False)) == 9
    with pytest.raises(maestro.Error, match="has shape"):
        maestro.load(run, networks.llama(layers=1, width=64))
    with torch.device("meta"):
        empty = networks.llama(layers=1)
    with pytest.raises(maestro.Error, match="to_empty"):
        maestro.load(run, empty)


def test_to_hf(run, tmp_path):
    import transformers

    loaded = networks.llama(layers=1)
    maestro.load(run, loaded)
    maestro.to_hf(run, tmp_path / "hf")
    model, notes = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert type(model) is transformers.LlamaForCausalLM and not any(notes.values())
    assert model.lm_head.weight is model.model.embed_tokens.weight and model.dtype == torch.float32
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))
    small = maestro.to_hf(run.out, tmp_path / "half", "student", dtype="bfloat16")
    assert transformers.AutoModelForCausalLM.from_pretrained(small, dtype="auto").dtype == torch.bfloat16
    with pytest.raises(maestro.Error, match="dtype is 'float99'"):
        maestro.to_hf(run, tmp_path / "x", dtype="float99")


def test_graphs_are_found_or_named(run, tmp_path, folder):
    moved = tmp_path / "elsewhere" / "run"
    moved.parent.mkdir()
    moved.symlink_to(run.out.resolve())
    assert maestro.Run(moved).model_file("student").samefile(folder / "student.onnx")
    with pytest.raises(maestro.Error, match="has no component 'x'; it has teacher, student"):
        run.model_file("x")
    assert maestro.to_hf(run, tmp_path / "hf", model=folder / "student.onnx").exists()
    with pytest.raises(maestro.Error, match="not an ONNX file"):
        maestro.to_hf(run, tmp_path / "hf", model=folder / "kd.yaml")


def test_to_onnx(run, tmp_path, folder):
    path = maestro.to_onnx(run, "student", tmp_path / "student.onnx")
    onnx.checker.check_model(path)
    loaded = networks.llama(layers=1)
    maestro.load(run, loaded)
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    for name, parameter in loaded.named_parameters():
        kept = "lm_head.weight" if name == "model.embed_tokens.weight" else name
        assert numpy.array_equal(values[kept], parameter.detach().numpy()), name
    assert maestro.plan(path, tmp_path / "again.mpl", quiet=True).name == "student"
