#!/usr/bin/env bash
# Every number of the project, measured here: the machine first, then each benchmark program, then PyTorch side by side.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
printf '%s, %s threads, %s, %s\n' "$processor" "$(nproc)" "$(g++ --version | head -n 1)" "$(uname -sr)"
for program in build/release/bench/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  printf '\n== %s\n' "$(basename "$program")"
  "$program"
done
printf '\n== against PyTorch\n'
.venv/bin/python bench/compare_pytorch.py "$@"
