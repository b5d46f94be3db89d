"""The survey: networks of real libraries, exported both ways, planned, run, and compared with
PyTorch.

    python test/models/survey.py [--binaries build/release/bin] [--only WORD]… [--library NAME]…
    [--quick]
                                 [--variant plain|default] [--jobs N] [--results FILE]

A row is a network and a way of exporting it; survey_judge.py says what its verdict means. Exports
are kept in out/survey under a key of what they depend on, and verdicts under the tools' bytes, so
that a survey that was stopped goes on, and one after a change judges again without exporting again.
Status 0: no row is WRONG or a CRASH; 1: some are.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import json
import logging
import os
import pathlib
import resource
import signal
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
TABLES = sorted(
    path.stem
    for path in (HERE / "networks").glob("*.py")
    if path.stem not in ("__init__", "network", "tiny")
)
CPU_SECONDS = 240  # of a row's process, and of each tool that it starts
WALL_SECONDS = 7200  # Shared machines have hours in which a core is a hundredth of one.


def all_networks() -> list:
    found = [
        network
        for table in TABLES
        for network in importlib.import_module(f"networks.{table}").networks()
    ]
    names = [network.name for network in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        sys.exit(f"two networks of one name: {', '.join(twice)}")
    return found


def import_once() -> None:
    """What every child needs, imported before it is forked."""
    import diffusers  # noqa: F401
    import timm  # noqa: F401
    import torch
    import torchvision  # noqa: F401
    import transformers

    import torch.onnx  # noqa: F401
    import onnxscript  # noqa: F401

    import survey_judge  # noqa: F401

    torch.set_num_threads(1)
    warm_up()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    gc.set_threshold(200_000)  # As in export.py.
    gc.freeze()


def warm_up() -> None:
    """One small export: the exporter's own first use costs more than most networks."""
    import torch

    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        torch.onnx.export(
            torch.nn.Linear(2, 2).eval(),
            (torch.zeros(3, 2),),
            dynamo=True,
            optimize=True,
            verbose=False,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )


class Survey:
    def __init__(self, arguments):
        self.binaries = arguments.binaries.resolve()
        self.folder = arguments.folder.resolve()
        digest = hashlib.sha256((HERE / "survey_judge.py").read_bytes())
        for tool in ("maestro-plan", "maestro-run"):
            digest.update((self.binaries / tool).read_bytes())
        self.tools = digest.hexdigest()[:20]
        self.fresh = arguments.fresh

    def row_folder(self, network, variant) -> pathlib.Path:
        return self.folder / network.library / network.name / variant

    def child(self, network, variant) -> None:
        """Judges one row in a process of its own, unless its verdict is there; leaves
        result.json."""
        import survey_export
        import survey_judge

        folder = self.row_folder(network, variant)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

        def phase(what):
            (folder / "phase").write_text(what)

        phase("exporting")
        started = time.time()
        key = (
            survey_export.content_key(network, survey_export.build(network, variant), variant)
            + survey_export.question_key()
            + self.tools
        )
        result = folder / "result.json"
        if not self.fresh and result.exists():
            before = json.loads(result.read_text())
            if before.get("key") == key and before["verdict"] != "CRASH":  # It may have been the hour.
                return
        found = survey_judge.judge(network, variant, folder, self.binaries, phase)
        result.write_text(
            json.dumps({**found, "key": key, "seconds": round(time.time() - started, 1)}, indent=1)
        )

    def start(self, network, variant) -> int:
        folder = self.row_folder(network, variant)
        folder.mkdir(parents=True, exist_ok=True)
        process = os.fork()
        if process:
            return process
        status = 1
        try:
            os.setpgid(0, 0)
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            self.child(network, variant)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def result(self, network, variant, status) -> dict:
        folder = self.row_folder(network, variant)
        if status == 0:
            return json.loads((folder / "result.json").read_text())
        phase = (folder / "phase").read_text() if (folder / "phase").exists() else "starting"
        ended = f"signal {-status}" if status < 0 else "an exception"
        lines = [
            line
            for line in (folder / "log").read_text(errors="replace").splitlines()
            if line.strip()
        ]
        said = f"{phase}: {ended}; {lines[-1][:300] if lines else ''}"
        verdict = "cannot" if phase == "exporting" and status < 0 else "CRASH"
        return {"verdict": verdict, "reason": said, "worst": 0.0, "parameters": 0, "runs": {}}

    def run(self, rows, jobs, tell) -> list:
        """Every row's result, in the order of rows."""
        waiting, running, results = list(enumerate(rows)), {}, {}
        while waiting or running:
            # A network's variants share an export: one at a time.
            busy = {row[0].name for _, row, _ in running.values()}
            ready = [entry for entry in waiting if entry[1][0].name not in busy]
            if ready and len(running) < jobs:
                index, row = ready[0]
                waiting.remove(ready[0])
                running[self.start(*row)] = (index, row, time.time())
                continue
            time.sleep(0.1)
            for process, (index, row, started) in list(running.items()):
                done, status = os.waitpid(process, os.WNOHANG)
                if not done and time.time() - started > WALL_SECONDS:
                    os.killpg(process, signal.SIGKILL)
                    done, status = os.waitpid(process, 0)
                if done:
                    del running[process]
                    results[index] = self.result(*row, os.waitstatus_to_exitcode(status))
                    tell(row, results[index], len(results), len(rows))
        return [results[index] for index in range(len(rows))]


def tell(row, result, done, total) -> None:
    network, variant = row
    said = "" if result["verdict"] == "right" else " ".join(result["reason"][-240:].split())
    seconds = f"{result.get('seconds', 0):.0f} s"
    name = f"{network.library}/{network.name} {variant}"
    print(f"[{done}/{total}] {result['verdict']:8s} {name} {seconds} {said}", flush=True)


def lost_since(path: pathlib.Path, rows: list, results: list) -> list:
    import survey_table

    before = survey_table.verdicts(path.read_text())
    named = [(f"{network.library} {network.name}", variant) for network, variant in rows]
    return [
        " ".join(row)
        for row, result in zip(named, results)
        if before.get(row) == "right" and result["verdict"] != "right"
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--binaries",
        type=pathlib.Path,
        default=pathlib.Path(os.environ.get("MAESTRO_BIN", ROOT / "build/release/bin")),
    )
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=ROOT / "out/survey",
        help="what is kept between surveys",
    )
    parser.add_argument(
        "--only", action="append", help="only networks whose name is this (repeatable)"
    )
    parser.add_argument(
        "--library", action="append", help="only networks of this library (repeatable)"
    )
    parser.add_argument("--variant", action="append", choices=["plain", "default"])
    parser.add_argument(
        "--quick", action="store_true", help="only the networks that every test run judges"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="judges again what was judged by the same tools"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--expected",
        type=pathlib.Path,
        help="a table: what was right there and is not now is wrong, too",
    )
    parser.add_argument(
        "--results", type=pathlib.Path, help="where the table goes, besides the screen"
    )
    arguments = parser.parse_args()
    import_once()
    import survey_table

    networks = [
        network
        for network in all_networks()
        if (not arguments.only or network.name in arguments.only)
        and (not arguments.library or network.library in arguments.library)
        and (network.quick or not arguments.quick)
    ]
    rows = [
        (network, variant)
        for network in networks
        for variant in arguments.variant or ("plain", "default")
    ]
    # Quick ones first, and then from all over, so that a survey that is stopped has seen some of
    # everything.
    rows.sort(key=lambda row: (not row[0].quick, hashlib.sha256(row[0].name.encode()).digest()))
    results = Survey(arguments).run(rows, arguments.jobs, tell)
    table = survey_table.table(
        [
            (network.library, network.name, variant, result)
            for (network, variant), result in zip(rows, results)
        ]
    )
    print(table)
    if arguments.results:
        arguments.results.write_text(table)
    lost = lost_since(arguments.expected, rows, results) if arguments.expected else []
    for row in lost:
        print(f"was right, is not: {row}")
    bad = any(result["verdict"] in survey_table.BAD for result in results)
    return 1 if bad or lost or not results else 0


if __name__ == "__main__":
    sys.exit(main())
