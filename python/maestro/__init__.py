"""Maestro from Python: models and data into the files that its tools read, the tools themselves, and results back.

    maestro.export(model, example, "student.onnx")
    data = maestro.shards("text.jsonl", "data/{:05d}.tar", map=tokenise, pack=1024)
    plan = maestro.plan("student.onnx", "student.mpl")
    run = maestro.run(plan, data=data, out="run1", steps=1000)
    maestro.load(run, model)

`export`, `load`, `to_hf` and `to_onnx` need what `pip install maestro[export]` brings; all else needs NumPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._error import Error
from ._version import __version__

if TYPE_CHECKING:
    from ._checkpoints import load, to_hf, to_onnx
    from ._export import export
    from ._plan import Plan, plan
    from ._run import Run, evaluate, run
    from ._shards import Shards, shards
    from ._workload import workload

__all__ = [
    "Error",
    "Plan",
    "Run",
    "Shards",
    "__version__",
    "evaluate",
    "export",
    "load",
    "plan",
    "run",
    "shards",
    "to_hf",
    "to_onnx",
    "workload",
]

# Imported when they are first used: PyTorch takes seconds.
_PLACES = {
    "export": "_export",
    "Plan": "_plan",
    "plan": "_plan",
    "Run": "_run",
    "evaluate": "_run",
    "run": "_run",
    "Shards": "_shards",
    "shards": "_shards",
    "workload": "_workload",
    "load": "_checkpoints",
    "to_hf": "_checkpoints",
    "to_onnx": "_checkpoints",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'maestro' has no attribute '{name}'")
    import importlib

    try:
        value = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        raise Error(f"maestro.{name} needs the package {error.name}: pip install 'maestro[export]'") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
