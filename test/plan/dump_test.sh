#!/bin/sh
# The command line of maestro-dump: exit statuses, messages, a reader that goes away, a full disk.
#   dump_test.sh MAESTRO_DUMP PLAN
dump=$1
plan=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

# expect STATUS TEXT ARGUMENT…: the exit status, and the text in what is printed.
expect() {
  status=$1 text=$2
  shift 2
  "$dump" "$@" >"$folder/out" 2>&1
  actual=$?
  if [ "$actual" -ne "$status" ] || ! grep -qF -- "$text" "$folder/out"; then
    echo "maestro-dump $*: status $actual, expected $status and '$text'; printed:"
    cat "$folder/out"
    failures=$((failures + 1))
  fi
}

expect 0 "Plan 'example'" "$plan"
expect 0 "Plan 'example'" show "$plan"
expect 0 '"version_major": 1' "$plan" --format json
expect 0 "digraph" "$plan" --format=dot
expect 0 '"plan.plan"() {name = "example"' "$plan" --format mlir
expect 0 "<!DOCTYPE html>" "$plan" --format html
expect 0 "Timeline of a steady step" "$plan" --format html
expect 0 '"thread_name"' "$plan" --format trace
expect 0 '"file_order":true' "$plan" --format trace --file-order
expect 0 "train.optimizer = adamw (default)" "$plan" --explain
expect 0 "Memory of 'student'" "$plan" --section student
expect 0 ": valid, format 1." verify "$plan"
expect 0 "the plans are the same" diff "$plan" "$plan"
expect 0 "padding: section student: along seq its micro-batches are padded to" lint "$plan"
expect 0 '"check": "padding"' lint "$plan" --format json
expect 1 "lint writes --format json, or lines for people, not dot" lint "$plan" --format dot
expect 0 "Examples:" --help
expect 0 "maestro-dump " --version
expect 1 "no plan given; for example: maestro-dump plan.mpl"
expect 1 "did you mean 'verify'?" verfy "$plan"
expect 1 "did you mean '--format'?" "$plan" --formt json
expect 1 "did you mean 'json'?" "$plan" --format jsn
expect 1 "cannot be opened" "$plan" --measured "$folder/missing.json"
expect 1 "is not JSON" "$plan" --format html --measured "$plan"
expect 1 "--measured goes with --format summary, trace or html, not dot" "$plan" --format dot --measured "$plan"
expect 1 "did you mean 'student'?" "$plan" --section studnt
expect 1 "takes 2 plans, and 1 were given" diff "$plan"
expect 1 "cannot be opened" "$folder/missing.mpl"
expect 1 "is not a file" verify "$folder"
: >"$folder/empty.mpl"
expect 1 "the file is empty" verify "$folder/empty.mpl"
head -c 3000 "$plan" >"$folder/cut.mpl"
expect 1 "make the plan again" "$folder/cut.mpl"
expect 1 "not a Maestro plan" lint "$0"

{
  sleep 0.2
  "$dump" "$plan" --format json 2>"$folder/out"
  echo $? >"$folder/status"
} | true
[ "$(cat "$folder/status")" = 0 ] || { echo "a reader that goes away: $(cat "$folder/status" "$folder/out")"; failures=$((failures + 1)); }
if [ -w /dev/full ]; then
  "$dump" "$plan" >/dev/full 2>"$folder/out"
  [ $? -eq 2 ] || { echo "a full disk: $(cat "$folder/out")"; failures=$((failures + 1)); }
fi
[ "$failures" -eq 0 ] && echo "everything as expected"
exit "$failures"
