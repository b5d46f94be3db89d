"""A job is never ended for slowness: a slow disk, self-check or kernel holds the others up, and it ends with 0.

The teacher of a distillation runs ahead into the next step until its ring is full, and waits there for a student that has
not been asked for the next step yet. All runs go at the same time, since they sleep.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
for sibling in ("parity", "models"):
    sys.path.insert(0, str(FOLDER.parent / sibling))

SKIPPED = 77
KD = """
components:
  teacher: {{model: {teacher}, frozen: true}}
  student: {{model: {student}}}
dims: {{seq: {{max: 16}}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels, weight: 0.5}}
  - kl_divergence: {{student: student.logits, teacher: teacher.logits, labels: labels, weight: 0.5}}
train: {{global_batch: 64}}
"""
KD_LAYOUT = "teacher.devices=0 student.devices=1 teacher.micro_batch=4 student.micro_batch=1"
# A component that is frozen in part: its frozen section runs ahead, and its values are saved.
PARTLY = """
components:
  student: {{model: {student}, frozen: ["model.embed_tokens.*", "model.layers.0.*"], cuts: [model.layers.1]}}
dims: {{seq: {{max: 16}}}}
loss:
  - cross_entropy: {{logits: student.logits, labels: labels}}
train: {{global_batch: 64}}
"""
PARTLY_LAYOUT = "student.devices=0 student.model.layers.1.devices=1 student.micro_batch=8 student.model.layers.1.micro_batch=1"

# what is slow: from which call on, seconds, arguments of maestro-run
SLOW = {
    "fsync": (1, 4, ["--save-every", "1", "--steps", "3"]),
    "self-check": (1, 5, ["--self-check", "--steps", "3"]),
    "kernel": (4000, 6, ["--steps", "5"]),
}


def make_plan(bench, name, text, layout):
    import export
    import zoo

    cases = zoo.all_cases()
    folder = export.models_folder()
    workload = bench.scratch / f"{name}.yaml"
    workload.write_text(text.format(teacher=export.export_variant(cases["llama_logits"], "opset20", folder),
                                    student=export.export_variant(cases["qwen3_logits"], "opset20", folder)))
    pins = [word for pin in layout.split() for word in ("--pin", pin)]
    return bench.plan(workload, name, "--set", "cluster.devices_per_node=2", *pins)


def start(bench, library, plan, slow, ranks):
    call, seconds, arguments = SLOW[slow]
    name = f"{plan.stem}-{slow}-{ranks}"
    mark = bench.scratch / f"{name}.done"
    environment = dict(os.environ, OMP_NUM_THREADS="1", LD_PRELOAD=str(library), MAESTRO_SLOW=slow, MAESTRO_SLOW_CALL=str(call),
                       MAESTRO_SLOW_SECONDS=str(seconds), MAESTRO_SLOW_DONE=str(mark))
    line = [bench.binaries / "maestro-run", plan, "--out", name, "--ranks", ranks, *arguments]
    process = subprocess.Popen(list(map(str, line)), cwd=bench.scratch, env=environment, stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, text=True)
    return name, mark, process


def main() -> int:
    import tools

    bench = tools.Bench(BINARIES, pathlib.Path(tempfile.mkdtemp(prefix="maestro-slow-")))
    kd, partly = make_plan(bench, "kd", KD, KD_LAYOUT), make_plan(bench, "partly", PARTLY, PARTLY_LAYOUT)
    cases = [(kd, slow, ranks) for slow in SLOW for ranks in ("threads", "processes")] + [(partly, "fsync", "threads")]
    started = time.monotonic()
    runs = [start(bench, LIBRARY, *case) for case in cases]
    failed = 0
    for name, mark, process in runs:
        try:
            said = process.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            said = "hangs: " + process.communicate()[1]
        good = process.returncode == 0 and mark.exists()
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: status {process.returncode}, "
              f"{'slept' if mark.exists() else 'never slept'}{'' if good else ': ' + said.strip()[-600:]}")
    print(f"{time.monotonic() - started:.1f} s")
    if not failed:
        shutil.rmtree(bench.scratch)
    return failed > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--binaries", default=os.environ.get("MAESTRO_BIN", "build/release/bin"))
    arguments = parser.parse_args()
    BINARIES, LIBRARY = pathlib.Path(arguments.binaries), pathlib.Path(arguments.library).resolve()
    if not importlib.util.find_spec("torch"):
        print("skipped: no torch")
        sys.exit(SKIPPED)
    sys.exit(main())
