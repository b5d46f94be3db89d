"""docs/reference says what the tools and the package say of themselves.

    MAESTRO_WRITE_GOLDEN=1 reference_test.py      writes the pages anew
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import pathlib
import subprocess
import sys

import maestro

TOOLS = ("maestro-plan", "maestro-run", "maestro-dump", "maestro-profile")
FOLDER = pathlib.Path(os.environ["MAESTRO_SOURCE"]) / "docs" / "reference"


def said(tool: str, option: str) -> str:
    return subprocess.run([pathlib.Path(os.environ["MAESTRO_BIN"]) / tool, option], capture_output=True, text=True, check=True).stdout


def files() -> str:
    return f"""# Reference: files of settings

`maestro-plan --keys` prints this page: its readers' own keys, kinds and defaults. An unknown key is refused, with the nearest right one.

{said("maestro-plan", "--keys")}"""


def tools() -> str:
    helps = "\n".join(f"## {tool}\n\n```text\n{said(tool, '--help').strip()}\n```\n" for tool in TOOLS)
    return f"""# Reference: the tools

What `--help` prints. Exit status: 0, or 1 where the input is at fault, 2 where the machine failed, 130 where you interrupted.

{helps}"""


def signature(function) -> str:
    """One parameter a line where they are many."""
    parameters = list(inspect.signature(function).parameters.values())
    marked = []
    for index, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and (index == 0 or parameters[index - 1].kind is not parameter.KEYWORD_ONLY):
            marked.append("*")
        annotation = parameter.annotation.strip("'\"") if isinstance(parameter.annotation, str) else ""
        prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        marked.append(f"{prefix}{parameter.name}{': ' + annotation if annotation else ''}{default}")
    line = f"maestro.{function.__name__}({', '.join(marked)})"
    return line if len(line) < 100 else f"maestro.{function.__name__}(\n" + "".join(f"    {each},\n" for each in marked) + ")"


def described(name: str) -> str:
    value = getattr(maestro, name)
    text = inspect.getdoc(value) or sys.exit(f"maestro.{name} has no docstring")
    if inspect.isfunction(value):
        return f"## {name}\n\n```python\n{signature(value)}\n```\n\n```text\n{text}\n```\n"
    members = [
        f"- `{key}{'(…)' if inspect.isfunction(member) else ''}`: {(inspect.getdoc(member) or sys.exit(f'maestro.{name}.{key} has no docstring')).splitlines()[0]}\n"
        for key, member in vars(value).items()
        if not key.startswith("_") and (isinstance(member, (property, functools.cached_property)) or inspect.isfunction(member))
    ]
    return f"## {name}\n\n```text\n{text}\n```\n" + ("\n" + "".join(members) if members else "")


def package() -> str:
    entries = "\n".join(described(name) for name in maestro.__all__ if not name.startswith("__"))
    return f"""# Reference: the Python package

What `help()` says. [The package](../../python/README.md) and [a recipe](../recipes/distil.md) show how it goes together.

{entries}"""


def main() -> int:
    different = []
    for name, made in (("files.md", files()), ("tools.md", tools()), ("python.md", package())):
        page = FOLDER / name
        if os.environ.get("MAESTRO_WRITE_GOLDEN"):
            FOLDER.mkdir(exist_ok=True)
            page.write_text(made)
            continue
        before = page.read_text() if page.exists() else ""
        if before != made:
            different.append(name)
            sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), made.splitlines(True), f"docs/reference/{name}", "what is said now"))
    if different:
        print(f"docs/reference: {', '.join(different)}: not what is said now; MAESTRO_WRITE_GOLDEN=1 writes them")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
