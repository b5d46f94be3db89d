# What the examples' scripts share: `source common.sh NAME` from examples/NAME/run.sh, arguments left as they are.
# MAESTRO_BIN: the folder of the tools (build/release/bin)   OUT: where all of it goes (out/NAME), made anew
set -euo pipefail
name=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${MAESTRO_BIN:-build/release/bin}
out=${OUT:-out/$name}
example=examples/$name
rm -rf "$out"
mkdir -p "$out"

# Each command is printed before it runs, so that a reader can type it, too.
run() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  "$@"
}

newest_checkpoint() { ls -d "$1"/checkpoint-* | tail -n 1; }

show_sections() {
  printf '\n\033[1m$ %s\033[0m\n' "$bin/maestro-dump $1    # its sections"
  "$bin/maestro-dump" "$1" | sed -n '/^Sections/,/^$/p'
}

# What was predicted beside what out/NAME/trace.json measured of the plan: idle time, both timelines, a page.
show_times() {
  run "$bin/maestro-dump" "$1" --measured "$out/trace.json"
  "$bin/maestro-dump" "$1" --format trace --measured "$out/trace.json" >"$out/predicted.json"
  "$bin/maestro-dump" "$1" --format html --measured "$out/trace.json" >"$out/$name.html"
}

# where_all_lies PLAN CHECKPOINT "what the checkpoint holds"
where_all_lies() {
  cat <<TEXT

  plan        $1
  page        $out/$name.html        (the plan, and a measured step above the predicted one; needs no server)
  checkpoint  $2        ($3)
  metrics     $out/run/metrics.jsonl
  timelines   $out/trace.json measured, $out/predicted.json predicted, of the same samples
              (open them in a Chrome trace viewer, such as ui.perfetto.dev)
TEXT
}
