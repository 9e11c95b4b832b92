#!/bin/bash
# Runs the commands of request files in the directory $1 as scripts do: it looks for requests five
# times a second, claims each by a directory, and asks jq for each field. $2, default timeout, is the
# program that ends a command in time; it may be of busybox.
set -u
cd "$1" || exit
read -ra limit <<<"${2:-timeout}"

run() {
  local id=${1#exec-request-} line seconds output errors code=0
  id=${id%.json}
  mkdir ".claim-$id" 2>/dev/null || return
  line=$(jq -r .command "$1")
  seconds=$(jq -r '.timeout // 30' "$1")
  errors=$(mktemp)
  output=$("${limit[@]}" "$seconds" bash -c "$line" 2>"$errors") || code=$?
  jq -nc --arg id "$id" --arg stdout "$output" --rawfile stderr "$errors" --argjson exitCode "$code" \
    '{$id, $exitCode, $stdout, $stderr, timedOut: ($exitCode == 124)}' >"exec-result-$id.json.tmp"
  mv "exec-result-$id.json.tmp" "exec-result-$id.json"
  rm "$errors"
}

while [ ! -e ../done ]; do
  for request in exec-request-*.json; do
    [ -e "$request" ] && [ ! -e ".claim-${request:13:-5}" ] && run "$request" &
  done
  sleep 0.2
done
wait
