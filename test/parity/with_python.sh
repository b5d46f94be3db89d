#!/bin/sh
# with_python.sh PYTHON SCRIPT ARGUMENT…: runs the script, or ends with 77 ("skipped" to ctest) where PYTHON is not there.
if [ ! -x "$1" ]; then
  echo "skipped: no $1; ./dev test makes it, or configure with -DMAESTRO_PYTHON=…"
  exit 77
fi
exec "$@"
