#!/usr/bin/env bash
# `make demo`: one matrix looked at, then every SpMV on it checked and timed. Each command is shown as typed.
set -euo pipefail

say_and_do() {
  printf '\n$ %s\n' "$*"
  "$@"
}

recipe=rmat:scale=13,edgefactor=16
if spgraph doctor --json | python -c 'import json, sys; sys.exit(not json.load(sys.stdin)["devices"]["cuda"])'; then
  recipe=rmat:scale=20,edgefactor=16
fi
say_and_do spgraph info "$recipe"
say_and_do spgraph bench spmv "$recipe" --no-save --time-limit 1
