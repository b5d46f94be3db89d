"""Runs one libFuzzer target for some seconds, from its seeds and what it learnt before.

    libfuzzer.py PROGRAM SECONDS

The programs are of the `fuzz` preset (clang): `./dev test` builds those of the readers, `./dev build fuzz` all. The
importer's is of the release preset.
"""

import pathlib
import re
import subprocess
import sys

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds"
OPTIONS = {"plan_run": ["-mutate_depth=1", "-cross_over=0", "-max_len=40000"]}  # One change of meaning at a time: most stay valid.


def main() -> int:
    program, seconds = pathlib.Path(sys.argv[1]), sys.argv[2]
    name = program.name
    if not program.exists():
        print(f"{program} is not there: ./dev build fuzz makes it")
        return 1
    learnt = program.parents[1] / "corpus" / name
    learnt.mkdir(parents=True, exist_ok=True)
    line = [program, f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=1", *OPTIONS.get(name, []),
            f"-artifact_prefix={learnt}-", learnt, SEEDS / name]
    done = subprocess.run(list(map(str, line)), capture_output=True, text=True, errors="replace")
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    if done.returncode != 0 or not runs or int(runs.group(1)) < 100:
        print(done.stderr[-4000:])
        return 1
    print(f"{name}: {int(runs.group(1)):,} inputs in {seconds} s without a finding")
    return 0


if __name__ == "__main__":
    sys.exit(main())
