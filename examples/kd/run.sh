#!/usr/bin/env bash
# A teacher learns text; then a student learns from it, on two devices. Each command is printed before it runs.
# run.sh [STEPS]        MAESTRO_BIN: the folder of the tools (build/release/bin)   OUT: where all of it goes (out/kd)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${MAESTRO_BIN:-build/release/bin}
out=${OUT:-out/kd}
steps=${1:-60}
example=examples/kd

run() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

rm -rf "$out"
mkdir -p "$out"
run python3 examples/gpt/make_data.py "$out/data"
run "$bin/maestro-plan" $example/teacher.yaml -o "$out/teacher.mpl" --quiet
run "$bin/maestro-run" "$out/teacher.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/teacher"
teacher=$(ls -d "$out"/teacher/checkpoint-* | tail -n 1)/teacher.safetensors

run "$bin/maestro-plan" $example/workload.yaml -o "$out/kd.mpl" --set cluster.devices_per_node=2
run "$bin/maestro-run" "$out/kd.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/run" \
  --weights "teacher=$teacher" --trace "$out/trace.json"
checkpoint=$(ls -d "$out"/run/checkpoint-* | tail -n 1)

printf '\n\033[1m$ %s\033[0m\n' "$bin/maestro-dump $out/kd.mpl    # its sections"
"$bin/maestro-dump" "$out/kd.mpl" | sed -n '/^Sections/,/^$/p'
run python3 examples/losses.py "$out/run/metrics.jsonl" --below 5.3 # ln 256 is 5.5
run "$bin/maestro-dump" "$out/kd.mpl" --measured "$out/trace.json" # idle time per section and device
"$bin/maestro-dump" "$out/kd.mpl" --format trace --measured "$out/trace.json" >"$out/predicted.json"
"$bin/maestro-dump" "$out/kd.mpl" --format html --measured "$out/trace.json" >"$out/kd.html"
cat <<TEXT

  plan        $out/kd.mpl
  page        $out/kd.html        (the plan, and a measured step above the predicted one; needs no server)
  checkpoint  $checkpoint        (student.safetensors; the teacher is frozen and not saved again)
  metrics     $out/run/metrics.jsonl
  timelines   $out/trace.json measured, $out/predicted.json predicted, of the same samples
              (open both in a Chrome trace viewer, such as ui.perfetto.dev)
TEXT
