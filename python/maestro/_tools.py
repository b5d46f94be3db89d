"""Finds the C++ tools and runs them. All that they say goes on to the user; how they end becomes an exception."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, TextIO

from ._error import Error

_PACKAGE = Path(__file__).resolve().parent


def find_tool(name: str) -> Path:
    """Where `name` (maestro-plan …) is: $MAESTRO_BIN, a wheel's maestro/bin, PATH, the build of a source tree."""
    chosen = os.environ.get("MAESTRO_BIN")
    if chosen:
        path = Path(chosen) / name
        if not os.access(path, os.X_OK):
            raise Error(f"MAESTRO_BIN is {chosen}, where there is no {name}", status=2)
        return path
    if os.access(_PACKAGE / "bin" / name, os.X_OK):
        return _PACKAGE / "bin" / name
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    built = _PACKAGE.parents[1] / "build" / "release" / "bin" / name
    if os.access(built, os.X_OK):
        return built
    raise Error(
        f"{name} is not found: not in $MAESTRO_BIN (unset), {_PACKAGE / 'bin'}, PATH or {built.parent}; "
        "build it with ./dev build, or install a wheel that carries the tools",
        status=2,
    )


def run_tool(name: str, arguments: Iterable[object], *, quiet: bool = False, capture: bool = False) -> str:
    """Runs a tool to its end. What it prints goes to sys.stderr line by line as it comes (not with `quiet`), errors
    excepted: they are the text of the exception. With `capture` its standard output is the result instead.

    Ctrl-C interrupts the tool as it does in a shell: a run saves its last step, and this raises KeyboardInterrupt.
    """
    command = [str(find_tool(name)), *map(str, arguments)]
    errors: list[str] = []
    last = [""]  # What a tool that cannot even start says is said by others, in other words.
    captured: list[str] = []
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
        env=_environment(),
    )
    assert process.stdout is not None and process.stderr is not None
    readers = [
        threading.Thread(
            target=_pass_on, args=(process.stdout, captured.append if capture else _say(quiet)), daemon=True
        ),
        threading.Thread(target=_pass_on, args=(process.stderr, _split_errors(errors, last, _say(quiet))), daemon=True),
    ]
    for reader in readers:
        reader.start()
    status = _wait(process)
    for reader in readers:
        reader.join()
    if status == 130:
        raise KeyboardInterrupt
    if status != 0:
        text = "\n".join(errors) or (
            f"{name} was ended by {signal.Signals(-status).name}" if status < 0 else last[0] or f"{name} failed"
        )
        raise Error(text, status=status if status > 0 else 2)
    return "".join(captured)


def _environment() -> dict[str, str]:
    return dict(os.environ, OMP_WAIT_POLICY=os.environ.get("OMP_WAIT_POLICY", "passive"))


def _wait(process: subprocess.Popen[str]) -> int:
    """Ctrl-C comes to this process alone (the tool has a session of its own) and goes on to the tool, which ends its step and
    saves it. A second one ends the tool at once."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait()
        except KeyboardInterrupt:
            process.kill()
            process.wait()
        return 130


def _pass_on(stream: IO[str], take: Callable[[str], Any]) -> None:
    with stream:
        for line in stream:
            take(line)


def _say(quiet: bool) -> Callable[[str], Any]:
    def say(line: str) -> None:
        target: TextIO = sys.stderr
        target.write(line)
        target.flush()

    return (lambda line: None) if quiet else say


def _split_errors(errors: list[str], last: list[str], say: Callable[[str], Any]) -> Callable[[str], Any]:
    """Lines from the first `error:` on are one message."""

    def take(line: str) -> None:
        last[0] = line.strip() or last[0]
        if errors or line.startswith("error: "):
            errors.append(line.rstrip("\n").removeprefix("error: "))
        else:
            say(line)

    return take


def repeated(flag: str, values: Mapping[str, object] | None) -> list[str]:
    """{"train.lr": 0.1} -> --set train.lr=0.1, as often as there are entries."""
    words: list[str] = []
    for key, value in (values or {}).items():
        words += [flag, f"{key}={_plain(value)}"]
    return words


def _plain(value: object) -> str:
    """As a workload file would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_plain(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) + "}"
    return str(value)
