# Completion of sandbox(1) for bash: to /usr/share/bash-completion/completions/sandbox
# shellcheck shell=bash

# The options before the command are those that say where Redis is, and they are passed on.
_sandbox_ask() {
  timeout 2 sandbox "${connection[@]}" --json "$1" 2>/dev/null | tr '{' '\n' | sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p"
}

_sandbox() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command='' words='' connection=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    -u | -j | --redis-url | --job | --cacert | --cacertdir | --cert | --key | --sni)
      connection+=("${COMP_WORDS[i]}" "${COMP_WORDS[++i]}")
      while [ "${COMP_WORDS[i + 1]:-}" = : ]; do # at which a URL is taken apart
        connection[-1]+=:${COMP_WORDS[i + 2]:-}
        ((i += 2))
      done
      ;;
    --color) ((i++)) ;;
    -*) ;;
    *) command=${COMP_WORDS[i]} && break ;;
    esac
  done
  case $command:$before in
  :--color) words='auto always never' ;;
  :-j | :--job)
    connection=("${connection[@]:0:${#connection[@]}-2}") # the job itself, as far as it is typed
    words=$(_sandbox_ask jobs job)
    ;;
  :--cacert | :--cert | :--key | follow:--html | follow:--cast)
    mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
  :--cacertdir) mapfile -t COMPREPLY < <(compgen -d -- "$word") && return ;;
  :-u | :--redis-url | :--sni | run:-[wetc] | run:--id | follow:-n | follow:--since | read:-l | grep:-g) return ;;
  :*)
    words="$(sandbox --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
      --redis-url --job --json --color --quiet --cacert --cacertdir --cert --key --sni --insecure --help --version"
    ;;
  run:*) words='-w -e -t -i -c --detach --id --json --help --' ;;
  follow:*) words="-n --since --all --timestamps --html --cast --json --help $(_sandbox_ask ps id)" ;;
  cancel:*) words="--running --waiting --all --help $(_sandbox_ask ps id)" ;;
  read:*) words='-l --json --help' ;;
  edit:*) words='--all --json --help' ;;
  grep:*) words='-g -i --json --help' ;;
  shutdown:*) words='--now --help' ;;
  cp:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") && [ -n "${COMPREPLY[*]}" ] && return ;;
  *) words='--json --help' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _sandbox sandbox
