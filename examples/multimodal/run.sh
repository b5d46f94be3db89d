#!/usr/bin/env bash
# A ViT, an audio encoder and a Llama in one job on two devices. Each command is printed before it runs.
# run.sh [STEPS]        MAESTRO_BIN: the folder of the tools (build/release/bin)   OUT: where all of it goes (out/multimodal)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${MAESTRO_BIN:-build/release/bin}
out=${OUT:-out/multimodal}
steps=${1:-120}
example=examples/multimodal

run() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

rm -rf "$out"
mkdir -p "$out"
run python3 $example/make_data.py "$out/data"
run "$bin/maestro-plan" $example/workload.yaml -o "$out/multimodal.mpl" --set cluster.devices_per_node=2
run "$bin/maestro-run" "$out/multimodal.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/run" \
  --trace "$out/trace.json"
checkpoint=$(ls -d "$out"/run/checkpoint-* | tail -n 1)

printf '\n\033[1m$ %s\033[0m\n' "$bin/maestro-dump $out/multimodal.mpl    # its sections"
"$bin/maestro-dump" "$out/multimodal.mpl" | sed -n '/^Sections/,/^$/p'
# Long enough, it says what it sees; a short run knows at least which letters are frequent (2.9 nats).
below=2.9
[ "$steps" -lt 100 ] || below=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["nats"])' "$out/data/blind.json")
run python3 examples/losses.py "$out/run/metrics.jsonl" --below "$below"
run "$bin/maestro-dump" "$out/multimodal.mpl" --measured "$out/trace.json" # idle time per section and device
"$bin/maestro-dump" "$out/multimodal.mpl" --format trace --measured "$out/trace.json" >"$out/predicted.json"
"$bin/maestro-dump" "$out/multimodal.mpl" --format html --measured "$out/trace.json" >"$out/multimodal.html"
cat <<TEXT

  plan        $out/multimodal.mpl
  page        $out/multimodal.html        (the plan, and a measured step above the predicted one; needs no server)
  checkpoint  $checkpoint        (vision, audio and language, a file each)
  metrics     $out/run/metrics.jsonl
  timelines   $out/trace.json measured, $out/predicted.json predicted, of the same samples
              (open both in a Chrome trace viewer, such as ui.perfetto.dev)
TEXT
