#!/usr/bin/env bash
# Data, plan, train, evaluate, look.    run.sh [STEPS]; settings: examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh" gpt
steps=${1:-300}

run python3 $example/make_data.py "$out/data"
run "$bin/maestro-plan" $example/workload.yaml -o "$out/gpt.mpl"
run "$bin/maestro-run" "$out/gpt.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/run" \
  --trace "$out/trace.json"

checkpoint=$(newest_checkpoint "$out/run")
run "$bin/maestro-run" "$out/gpt.mpl" --data "$out/data/held-out.tar" --evaluate --weights "gpt=$checkpoint/gpt.safetensors"
run "$bin/maestro-dump" "$out/gpt.mpl"
show_times "$out/gpt.mpl"
printf '\n'
python3 $example/report.py "$out/run/metrics.jsonl" "$out/data/byte_frequencies.json"
where_all_lies "$out/gpt.mpl" "$checkpoint" "PyTorch and transformers load gpt.safetensors"
