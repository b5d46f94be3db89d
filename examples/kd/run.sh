#!/usr/bin/env bash
# A teacher learns text; then a student learns from it, on two devices.    run.sh [STEPS]; settings: examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh" kd
steps=${1:-60}

run python3 examples/gpt/make_data.py "$out/data"
run "$bin/maestro-plan" $example/teacher.yaml -o "$out/teacher.mpl" --quiet
run "$bin/maestro-run" "$out/teacher.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/teacher"

run "$bin/maestro-plan" $example/workload.yaml -o "$out/kd.mpl" --set cluster.devices_per_node=2
run "$bin/maestro-run" "$out/kd.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/run" \
  --weights "teacher=$(newest_checkpoint "$out/teacher")/teacher.safetensors" --trace "$out/trace.json"

show_sections "$out/kd.mpl"
run python3 examples/losses.py "$out/run/metrics.jsonl" --below 5.3 # ln 256 is 5.5
show_times "$out/kd.mpl"
where_all_lies "$out/kd.mpl" "$(newest_checkpoint "$out/run")" "student.safetensors; the teacher is frozen and not saved again"
