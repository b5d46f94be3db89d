#!/usr/bin/env bash
# Data, plan, train, evaluate, look: each command is printed before it runs, so that you can type it too.
# run.sh [STEPS]        MAESTRO_BIN: the folder of the tools (build/release/bin)   OUT: where all of it goes (out/gpt)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${MAESTRO_BIN:-build/release/bin}
out=${OUT:-out/gpt}
steps=${1:-300}
example=examples/gpt

run() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

rm -rf "$out"
mkdir -p "$out"
run python3 $example/make_data.py "$out/data"
run "$bin/maestro-plan" $example/workload.yaml -o "$out/gpt.mpl"
run "$bin/maestro-run" "$out/gpt.mpl" --data "$out/data/train-*.tar" --steps "$steps" --out "$out/run" \
  --trace "$out/trace.json"

checkpoint=$(ls -d "$out"/run/checkpoint-* | tail -n 1)
run "$bin/maestro-run" "$out/gpt.mpl" --data "$out/data/held-out.tar" --evaluate --weights "gpt=$checkpoint/gpt.safetensors"
run "$bin/maestro-dump" "$out/gpt.mpl"
run "$bin/maestro-dump" "$out/gpt.mpl" --measured "$out/trace.json" # predicted beside measured
"$bin/maestro-dump" "$out/gpt.mpl" --format html --measured "$out/trace.json" >"$out/gpt.html"
printf '\n'
python3 $example/report.py "$out/run/metrics.jsonl" "$out/data/byte_frequencies.json"

cat <<TEXT

  plan        $out/gpt.mpl
  page        $out/gpt.html        (the plan, and a measured step above the predicted one; needs no server)
  checkpoint  $checkpoint        (PyTorch and transformers load gpt.safetensors)
  metrics     $out/run/metrics.jsonl
  trace       $out/trace.json        (open it in a Chrome trace viewer, such as ui.perfetto.dev)
TEXT
