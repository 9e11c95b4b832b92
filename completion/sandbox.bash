# Completion of sandbox(1) for bash: to /usr/share/bash-completion/completions/sandbox
# shellcheck shell=bash
_sandbox() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command=
  COMPREPLY=()
  case $before in
  --color) mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$word") && return ;;
  -j | --job)
    mapfile -t COMPREPLY < <(compgen -W "$(sandbox --json jobs 2>/dev/null |
      sed -n 's/.*"job":"\([^"]*\)".*/\1/p')" -- "$word") && return
    ;;
  --cacert | --cert | --key | --html | --cast) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
  --cacertdir) mapfile -t COMPREPLY < <(compgen -d -- "$word") && return ;;
  esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    -u | -j | --redis-url | --job | --color | --cacert | --cacertdir | --cert | --key | --sni) ((i++)) ;;
    -*) ;;
    *) command=${COMP_WORDS[i]} && break ;;
    esac
  done
  case $command in
  '')
    mapfile -t COMPREPLY < <(compgen -W "$(sandbox --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')
      --redis-url --job --json --color --quiet --cacert --cacertdir --cert --key --sni --insecure --help --version" \
      -- "$word")
    ;;
  run) mapfile -t COMPREPLY < <(compgen -W '-w -e -t -i -c --detach --id --' -- "$word") ;;
  cancel | follow)
    local flags='--running --waiting --all'
    [ "$command" = follow ] && flags='-n --since --all --timestamps --html --cast'
    mapfile -t COMPREPLY < <(compgen -W "$flags $(sandbox --json ps 2>/dev/null |
      grep -o '"id":"[^"]*"' | cut -d'"' -f4)" -- "$word")
    ;;
  shutdown) mapfile -t COMPREPLY < <(compgen -W '--now' -- "$word") ;;
  cp | write) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}
complete -F _sandbox sandbox
