#!/usr/bin/env bash
# Every number of the project, measured here (predictions alone take half an hour): the machine, the project's figures, PyTorch side
# by side, then each benchmark program. Arguments go to compare_pytorch.py: models, --dtype, --pairs, --steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
compiler=$("$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' build/release/CMakeCache.txt)" --version | head -n 1)
printf '%s, %s threads, %s, %s\n' "$processor" "$(nproc)" "$compiler" "$(uname -sr)"
printf '\n== figures\n'
.venv/bin/python -B bench/figures.py
printf '\n== predicted against measured step times\n'
.venv/bin/python -B bench/predictions.py
printf '\n== planning: the large examples for 8 to 16,384 GPUs\n'
.venv/bin/python -B bench/planning.py || true # It says what did not fit.
printf '\n== whole layers as measured on GPUs, beside plans\n'
.venv/bin/python -B bench/accelerator_layers.py compare
printf '\n== overlap: the planned layout and order against a static split in file order\n'
.venv/bin/python -B bench/overlap.py
printf '\n== checkpoints behind the steps\n'
.venv/bin/python -B bench/saving.py
printf '\n== watching a run\n'
.venv/bin/python -B bench/watching.py
printf '\n== a training step against PyTorch eager: speed (above 1 Maestro is faster) and memory (below 1 it is leaner)\n'
[ $# -gt 0 ] || set -- --pairs 3 --steps 3
.venv/bin/python -B bench/compare_pytorch.py "$@"
for program in build/release/bench/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  printf '\n== %s\n' "$(basename "$program")"
  flags=()
  [ "$(basename "$program")" != kernels_bench ] || flags=(--benchmark_min_time=0.05 --benchmark_color=false)
  "$program" "${flags[@]}"
done
