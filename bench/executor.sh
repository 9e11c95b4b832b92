#!/bin/bash
# Runs the commands of request files in the directory $1 as scripts do: it looks for requests five
# times a second, and asks jq for each field. What `agent --ipc` is compared with.
set -u
cd "$1" || exit

run() {
  local id=${1#exec-request-} line timeout output code=0
  id=${id%.json}
  mkdir ".claim-$id" 2>/dev/null || return
  line=$(jq -r .command "$1")
  timeout=$(jq -r '.timeout // 30' "$1")
  output=$(timeout "$timeout" bash -c "$line" 2>"/tmp/executor-errors-$id") || code=$?
  jq -nc --arg id "$id" --arg stdout "$output" --rawfile stderr "/tmp/executor-errors-$id" \
    --argjson exitCode "$code" '{$id, $exitCode, $stdout, $stderr, timedOut: ($exitCode == 124)}' \
    >".result-$id"
  mv ".result-$id" "exec-result-$id.json"
  rm "/tmp/executor-errors-$id"
}

while :; do
  for request in exec-request-*.json; do
    [ -e "$request" ] && [ ! -e ".claim-${request:13:-5}" ] && run "$request" &
  done
  sleep 0.2
done
