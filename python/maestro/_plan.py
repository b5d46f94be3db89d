"""`maestro.plan` and `maestro.Plan`: maestro-plan and maestro-dump from Python."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ._data import Data, data_arguments
from ._error import Error
from ._tables import Rows, Table, table
from ._tools import repeated, run_tool


def plan(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str] | None = None,
    *,
    set: Mapping[str, object] | None = None,
    pin: Mapping[str, object] | None = None,
    cluster: str | os.PathLike[str] | None = None,
    data: Data | None = None,
    deadline: float | str | None = None,
    top_k: int | None = None,
    quiet: bool = False,
) -> Plan:
    """Plans the training of a workload file or of exported models, as maestro-plan does; what it says goes to stderr.

    Args:
        source: a workload file, an .onnx file, or several of these.
        path: the plan file to write; by default beside the source, `kd.yaml` -> `kd.mpl`.
        set: values of the workload or cluster file: `{"train.global_batch": 64}`.
        pin: decisions that the search would make: `{"student.dp": 4, "*.micro_batch": 3}`.
        cluster: a cluster file; by default this machine.
        data: plan for the sizes of these samples (headers alone are read).
        deadline: seconds for the whole of planning.
        top_k: also writes the next best plans, `kd.2.mpl` …
        quiet: warnings only.

    Raises:
        Error: with maestro-plan's message.
    """
    if not isinstance(source, (str, os.PathLike, Sequence)):
        raise Error(
            f"the source is a {type(source).__name__}; give files: what maestro.export or maestro.workload returned"
        )
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not sources:
        raise Error("no workload file or model to plan")
    target = Path(path) if path is not None else Path(sources[0]).with_suffix(".mpl")
    words: list[object] = [
        *(os.fspath(item) for item in sources),
        "-o",
        target,
        *repeated("--set", set),
        *repeated("--pin", pin),
    ]
    if cluster is not None:
        words += ["--cluster", os.fspath(cluster)]
    words += data_arguments("--data", data)
    if deadline is not None:
        words += ["--deadline", deadline if isinstance(deadline, str) else f"{deadline:g}s"]
    if top_k is not None:
        words += ["--top-k", top_k]
    run_tool("maestro-plan", words + (["--quiet"] if quiet else []), quiet=False)
    return Plan(target)


class Plan:
    """A plan file, read by maestro-dump. In a notebook it shows itself as its page; `print(plan)` is its summary.

    Tables are DataFrames where pandas is installed, else lists of dicts.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path`: an .mpl file. It is read when it is first asked something."""
        self.path = Path(path)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"maestro.Plan({os.fspath(self.path)!r})"

    def __str__(self) -> str:
        return self._dump()

    def _repr_html_(self) -> str:
        """The page in a frame of its own, whose style does not meet the notebook's."""
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0" title="{html.escape(str(self.path))}"></iframe>'

    def _dump(self, *words: object) -> str:
        return run_tool("maestro-dump", [self.path, *words], capture=True)

    @cached_property
    def json(self) -> dict[str, Any]:
        """Every field of the plan, as `maestro-dump --format json` has them."""
        found: dict[str, Any] = json.loads(self._dump("--format", "json"))
        return found

    def html(self, measured: str | os.PathLike[str] | None = None) -> str:
        """The plan as one page; with a run's trace beside its prediction."""
        return self._dump("--format", "html", *([] if measured is None else ["--measured", measured]))

    def explain(self, section: str | None = None) -> str:
        """Why it is so, and what would be better."""
        return self._dump("--explain", *([] if section is None else ["--section", section]))

    def lint(self) -> Table:
        """What looks wrong or wasteful: check, place, value, limit, text, remedy."""
        return table(json.loads(run_tool("maestro-dump", ["lint", self.path, "--format", "json"], capture=True)))

    def diff(self, other: Plan | str | os.PathLike[str]) -> str:
        """What `other` has different, and what that is worth."""
        return run_tool("maestro-dump", ["diff", self.path, os.fspath(other)], capture=True)

    def verify(self) -> None:
        """Raises an Error where the file is not a valid plan."""
        run_tool("maestro-dump", ["verify", self.path], capture=True)

    # ---- tables ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the file that it was made from: a workload or a model."""
        return str(self.json["name"])

    @property
    def step_seconds(self) -> float:
        """The predicted time of a step."""
        return float(self.json["prediction"]["step_seconds"])

    @property
    def tokens_per_second(self) -> float:
        """Predicted, without padding."""
        return float(self.json["prediction"]["tokens_per_second"])

    @property
    def components(self) -> Table:
        """The models: name, frozen, model (the path of its graph), precision."""
        return table(
            [
                {
                    "name": item["name"],
                    "frozen": item["frozen"],
                    "model": item["model_path"],
                    "precision": item["precision"],
                }
                for item in self.json["components"]
            ]
        )

    @property
    def sections(self) -> Table:
        """What is laid out by itself, and how: replicas, stages, samples of a micro-batch, devices."""
        components = [item["name"] for item in self.json["components"]]
        rows: Rows = []
        for number, item in enumerate(self.json["sections"]):
            layout = item["layout"]
            rows.append(
                {
                    "name": item["name"],
                    "components": ", ".join(components[index] for index in item["components"] or []),
                    "trains": item["trains"],
                    "dp": layout["data_parallel"],
                    "stages": layout["stages"],
                    "tensor": layout["tensor_parallel"],
                    "micro_batch": item["micro_batch_samples"],
                    "recompute": _recompute(layout),
                    "split_backward": layout["split_backward"],
                    "loss_chunks": layout["loss_chunks"],
                    "devices": self._devices(number),
                }
            )
        return table(rows)

    def _devices(self, section: int) -> list[int]:
        executables = self.json["executables"]
        ranks = {
            rank
            for station in self.json["stations"]
            if executables[station["executable"]]["section"] == section
            for rank in station["ranks"]
        }
        return sorted({self.json["ranks"][rank]["device"] for rank in ranks})

    @property
    def edges(self) -> Table:
        """What crosses from one section or stage to another."""
        names = [item["name"] for item in self.json["sections"]]
        return table(
            [
                {
                    "name": item["name"],
                    "producer": names[item["producer"]],
                    "producer_stage": item["producer_stage"],
                    "consumer": names[item["consumer"]],
                    "consumer_stage": item["consumer_stage"],
                    "dtype": item["dtype"],
                    "shape": [self._expression(index) for index in item["shape"]],
                    "carries_gradient": item["carries_gradient"],
                }
                for item in self.json["edges"] or []
            ]
        )

    @property
    def parameters(self) -> Table:
        """Parameters and buffers, by component and state_dict name."""
        components = [item["name"] for item in self.json["components"]]
        return table(
            [
                {
                    "component": components[item["component"]],
                    "name": item["name"],
                    "kind": item["kind"],
                    "dtype": item["dtype"],
                    "shape": item["shape"],
                    "trainable": item["trainable"],
                    "aliases": item["aliases"] or [],
                }
                for item in self.json["parameters"] or []
            ]
        )

    @property
    def fields(self) -> Table:
        """What the data must have."""
        return table(
            [
                {
                    "name": item["name"],
                    "dtype": item["dtype"],
                    "shape": [self._expression(index) for index in item["shape"] or []],
                    "pad": item["pad"],
                    "ids_below": item["index_limit"] or None,
                    "optional": item["optional"],
                }
                for item in self.json["fields"] or []
            ]
        )

    @property
    def losses(self) -> Table:
        """The terms that are trained or watched: name, weight."""
        return table([{"name": item["name"], "weight": item["weight"]} for item in self.json["losses"] or []])

    @property
    def decisions(self) -> Table:
        """What was decided, by whom and why."""
        return table(list(self.json["decisions"] or []))

    @property
    def ranks(self) -> Table:
        """Each rank's device and predicted peak memory."""
        return table(list(self.json["ranks"]))

    def _expression(self, index: int) -> str:
        item = self.json["exprs"][index]
        kind, a, b = item["op"], item["a"], item["b"]
        if kind == "Constant":
            return str(a)
        if kind == "Symbol":
            return str(self.json["symbols"][a]["name"])
        left, right = self._expression(a), self._expression(b)
        signs = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "Mod": "%"}
        return f"({left} {signs[kind]} {right})" if kind in signs else f"{kind.lower()}({left}, {right})"


def _recompute(layout: Mapping[str, Any]) -> str:
    """As --pin SECTION.recompute takes it."""
    kind = "full" if layout["full_recompute"] else "selective" if layout["recompute"] else "none"
    if layout["lighter_layers"]:
        kind += f"-{layout['lighter_layers']}" + ("-evenly" if layout["lighter_evenly"] else "")
    return kind
