# Completion of sandbox(1) for bash. Install it as /usr/share/bash-completion/completions/sandbox.
# shellcheck shell=bash
#
# Anyone who can write to Redis chooses job names and step ids. Therefore only plain names are offered, and the shell
# expands no candidate: "compgen -W" would execute the command in a name such as $(reboot).

# _sandbox_ask COMMAND FIELD: prints the names in this field, one per line. Passes on the options before the command,
# which say where Redis is.
_sandbox_ask() {
  timeout 2 sandbox "${connection[@]}" --json "$1" 2>/dev/null |
    LC_ALL=C grep -o "\"$2\":\"[A-Za-z0-9._:{}][A-Za-z0-9._:{}-]*\"" | cut -d '"' -f 4
}

# _sandbox_offer CANDIDATE…: offers those that begin with the current word.
_sandbox_offer() {
  local candidate
  for candidate; do
    [[ $candidate != "$word"* ]] || COMPREPLY+=("$candidate")
  done
}

# _sandbox_offer_names COMMAND FIELD
_sandbox_offer_names() {
  local names
  mapfile -t names < <(_sandbox_ask "$@")
  _sandbox_offer "${names[@]}"
}

# _sandbox_offer_files -f|-d: readline quotes the names of files.
_sandbox_offer_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$word")
}

_sandbox() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command='' commands connection=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    -u | -j | --redis-url | --job | --job-id | --cacert | --cacertdir | --cert | --key | --sni)
      connection+=("${COMP_WORDS[i]}" "${COMP_WORDS[++i]}")
      while [ "${COMP_WORDS[i + 1]:-}" = : ]; do # readline splits a URL there
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
  :--color) _sandbox_offer auto always never ;;
  :-j | :--job | :--job-id)
    connection=("${connection[@]:0:${#connection[@]}-2}") # without the incomplete job
    _sandbox_offer_names jobs job
    ;;
  :--cacert | :--cert | :--key | follow:--html | follow:--cast) _sandbox_offer_files -f ;;
  :--cacertdir) _sandbox_offer_files -d ;;
  :-u | :--redis-url | :--sni | run:-[wetc] | run:--id | run:--workdir | run:--env | run:--timeout | run:--fence | run:--limits) ;;
  follow:-n | follow:--since | read:-l | grep:-[gABC]) ;;
  :* | help:*)
    mapfile -t commands < <(sandbox --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
    _sandbox_offer "${commands[@]}"
    [ -n "$command" ] || _sandbox_offer help --redis-url --job --json --color --quiet --cacert --cacertdir --cert \
      --key --sni --insecure --help --version
    ;;
  run:*)
    _sandbox_offer -w --workdir -e --env -t --timeout -i -c --raw --text --fence --read-only --no-network --limits \
      --detach --id --json --help --
    ;;
  follow:*)
    _sandbox_offer -n --since --all --timestamps --html --cast --json --help
    _sandbox_offer_names ps id
    ;;
  cancel:*)
    _sandbox_offer --running --waiting --all --help
    _sandbox_offer_names ps id
    ;;
  read:*) _sandbox_offer -l --json --help ;;
  edit:*) _sandbox_offer --all --json --help ;;
  grep:*) _sandbox_offer -g -i -l -c -A -B -C --hidden --json --help ;;
  shutdown:*) _sandbox_offer --now --help ;;
  cp:*) _sandbox_offer_files -f ;;
  *) _sandbox_offer --json --help ;;
  esac
}
complete -F _sandbox sandbox
