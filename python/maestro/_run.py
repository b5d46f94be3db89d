"""`maestro.run`, `maestro.evaluate` and `maestro.Run`: maestro-run from Python, and what it leaves in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ._data import Data, data_arguments
from ._error import Error
from ._plan import Plan
from ._tables import Rows, Table, table
from ._tools import run_tool

_NOTES = "maestro.json"  # What this package adds to a run's folder.


def run(
    plan: Plan | str | os.PathLike[str],
    *,
    data: Data | None = None,
    out: str | os.PathLike[str] | None = None,
    steps: int | None = None,
    resume: bool | Literal["auto"] = False,
    overwrite: bool = False,
    weights: Mapping[str, str | os.PathLike[str]] | None = None,
    validate: Data | None = None,
    quiet: bool = False,
    **options: object,
) -> Run:
    """Trains a plan, as maestro-run does; its progress goes to stderr. Ctrl-C ends it after a step, which it saves.

    Args:
        plan: what `maestro.plan` returned, or an .mpl file.
        data: shards: a glob, paths, or what `maestro.shards` returned. Without it, made-up samples.
        out: the folder for metrics and checkpoints; without it nothing is kept.
        steps: stop after this step; by default one pass over the data.
        resume: go on from the newest whole checkpoint in `out`; `"auto"` also begins where there is none.
        overwrite: replace an older run in `out`.
        weights: initial values by component: a safetensors file, the index of several, or a folder with either.
        validate: data over which the losses are evaluated, every `validate_every` steps and at the end.
        quiet: warnings only.
        options: any other option of maestro-run by its name: `save_every=100, keep_last=3, validate_every=50,
            keep_best="loss", trace="t.json"`.

    Raises:
        Error: with maestro-run's message and status.
        KeyboardInterrupt: the run was interrupted.
    """
    words: list[object] = [
        os.fspath(plan),
        *data_arguments("--data", data),
        *data_arguments("--validate", validate),
    ]
    if out is not None:
        words += ["--out", os.fspath(out)]
    if steps is not None:
        words += ["--steps", steps]
    if resume:
        words.append("--resume=auto" if resume == "auto" else "--resume")
    if overwrite:
        words.append("--overwrite")
    words += _weights(weights) + _options(options) + (["--quiet"] if quiet else [])
    try:
        run_tool("maestro-run", words)
    finally:
        if out is not None and (Path(out) / "plan.mpl").exists():
            _note_plan(Path(out), Path(os.fspath(plan)))
    return Run(out)


def evaluate(
    plan: Plan | str | os.PathLike[str],
    *,
    data: Data | None = None,
    weights: Mapping[str, str | os.PathLike[str]] | None = None,
    steps: int | None = None,
    quiet: bool = False,
    **options: object,
) -> dict[str, Any]:
    """The mean losses over the data, without an update: `{"samples": …, "loss": …, "losses": {…}}`. Arguments as
    `run`'s.
    """
    words: list[object] = [os.fspath(plan), "--evaluate", *data_arguments("--data", data)]
    if steps is not None:
        words += ["--steps", steps]
    said = run_tool(
        "maestro-run", words + _weights(weights) + _options(options) + (["--quiet"] if quiet else []), capture=True
    )
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        raise Error(f"maestro-run --evaluate printed no result: {said[-200:]!r}", status=2)
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _weights(weights: Mapping[str, str | os.PathLike[str]] | None) -> list[object]:
    return [word for name, path in (weights or {}).items() for word in ("--weights", f"{name}={os.fspath(path)}")]


def _options(options: Mapping[str, object]) -> list[object]:
    """keep_last=3 -> --keep-last 3; self_check=True -> --self-check."""
    words: list[object] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, (list, tuple)):
            words += [flag, *value]
        elif value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, value]
    return words


def _note_plan(folder: Path, plan: Path) -> None:
    """Where the run's plan came from: the paths inside its copy are relative to that place."""
    origin = os.path.relpath(plan.resolve(), folder.resolve())
    if origin != "plan.mpl":
        aside = folder / f".{_NOTES}.{os.getpid()}"
        aside.write_text(json.dumps({"plan": origin}) + "\n")
        os.replace(aside, folder / _NOTES)


class Run:
    """A run's folder: its metrics, its checkpoints and its plan."""

    def __init__(self, out: str | os.PathLike[str] | None) -> None:
        """`out`: the folder that a run wrote, from Python or from the command line."""
        self._out = None if out is None else Path(out)

    def __fspath__(self) -> str:
        return os.fspath(self.out)

    def __repr__(self) -> str:
        return f"maestro.Run({None if self._out is None else os.fspath(self._out)!r})"

    @property
    def out(self) -> Path:
        """The folder."""
        if self._out is None:
            raise Error("the run kept nothing; give maestro.run a folder with out=")
        if not self._out.is_dir():
            raise Error(f"{self._out}: no such folder")
        return self._out

    @property
    def rows(self) -> Rows:
        """metrics.jsonl: a dict a step."""
        path = self.out / "metrics.jsonl"
        if not path.exists():
            raise Error(f"{path}: no such file; is {self.out} the folder of a run?")
        with path.open() as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def metrics(self) -> Table:
        """A row a step: step, loss, losses.…, grad_norm, lr, tokens, step_seconds …; a DataFrame where pandas is
        installed.
        """
        return table([_flat(row) for row in self.rows])

    @property
    def plan(self) -> Plan:
        """The plan that ran."""
        return Plan(self.out / "plan.mpl")

    @property
    def checkpoints(self) -> list[Path]:
        """The whole checkpoints, oldest first."""
        found = [
            (_step(folder), folder)
            for folder in self.out.glob("checkpoint-*")
            if _step(folder) is not None and _is_whole(folder)
        ]
        return [folder for _, folder in sorted(found, key=lambda item: item[0] or 0)]

    @property
    def checkpoint(self) -> Path:
        """The newest whole checkpoint."""
        found = self.checkpoints
        if not found:
            raise Error(f"{self.out} has no whole checkpoint")
        return found[-1]

    @property
    def best(self) -> Path:
        """The checkpoint whose validation loss is the best (`keep_best="loss"`)."""
        link = self.out / "best"
        if not _is_whole(link):
            raise Error(f"{link} is no whole checkpoint; give maestro.run validate=, validate_every= and keep_best=")
        return link.resolve()

    def model_file(self, component: str) -> Path:
        """The component's exported graph, found from where the plan was made or beside the run's folder."""
        named: dict[str, str] = {item["name"]: item["model_path"] for item in self.plan.json["components"]}
        if component not in named:
            raise Error(f"the plan of {self.out} has no component '{component}'; it has {', '.join(named)}")
        places = [self.out, self.out.resolve().parent, Path.cwd()]
        notes = self.out / _NOTES
        if notes.exists():
            places.insert(0, (self.out / json.loads(notes.read_text())["plan"]).resolve().parent)
        for place in places:
            if (place / named[component]).is_file():
                return place / named[component]
        raise Error(
            f"{named[component]}, the graph of component '{component}', is not found from {places[0]}; name it with model="
        )


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is measured per step as columns; what is measured per section and device stays in `rows`."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "losses" and isinstance(value, Mapping):
            flat |= {f"losses.{key}": item for key, item in value.items()}
        elif name == "validation" and isinstance(value, Mapping):
            flat |= {f"validation.{key}": item for key, item in _flat(value).items()}
        elif not isinstance(value, (Mapping, list)):
            flat[name] = value
    return flat


def _step(folder: Path) -> int | None:
    number = folder.name.removeprefix("checkpoint-")
    return int(number) if number.isdigit() else None


def _is_whole(folder: Path) -> bool:
    """As maestro-run reads it: state.json names every file and its size."""
    try:
        state = json.loads((folder / "state.json").read_text())
        return all((folder / name).stat().st_size == size for name, size in state["files"].items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False
