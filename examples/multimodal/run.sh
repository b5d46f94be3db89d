#!/usr/bin/env bash
# A ViT, an audio encoder and a Llama in one job on two devices.    run.sh [STEPS]; settings: examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh" multimodal
steps=${1:-120}

run python3 $example/make_data.py "$out/data"
run "$bin/maestro-plan" $example/workload.yaml -o "$out/multimodal.mpl" --set cluster.devices_per_node=2
run "$bin/maestro-run" "$out/multimodal.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/run" \
  --trace "$out/trace.json"

show_sections "$out/multimodal.mpl"
# Long enough, it says what it sees; a short run knows at least which letters are frequent (2.9 nats).
below=2.9
[ "$steps" -lt 100 ] || below=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["nats"])' "$out/data/blind.json")
run python3 examples/losses.py "$out/run/metrics.jsonl" --below "$below"
show_times "$out/multimodal.mpl"
where_all_lies "$out/multimodal.mpl" "$(newest_checkpoint "$out/run")" "vision, audio and language, a file each"
