# SPDX-License-Identifier: BSD-3-Clause
# bash completion of softhca, softhca-pci, rawqp-doctor and rawqp-perf. What there is to complete is
# asked of the program itself, whose help tells it.

# Options that a help lists at the start of its lines.
_rawqp_options() {
    "$@" --help 2>/dev/null | sed -nE 's/^  (-[[:alnum:]], ?)?(--[a-z][a-z-]*).*/\2/p'
}

# Commands, by the lines of a help that show their use.
_rawqp_commands() {
    "$1" --help 2>/dev/null | sed -nE '/^Usage:/,/^$/s/^ +softhca ([a-z]+).*/\1/p'
}

# Whether "--" stands before the word to complete: in rawqp-perf it ends the options of EAL, in
# softhca those of softhca.
_rawqp_is_behind_dashes() {
    local word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word != -- ]] || return 0
    done
    return 1
}

_rawqp() {
    local program=$1 current=$2 words=
    local -a asked=("$program")
    COMPREPLY=()
    if _rawqp_is_behind_dashes; then
        [[ ${program##*/} == rawqp-perf ]] || return 0 # another program's words
        asked+=(--no-huge -m 64 --no-pci --no-shconf --no-telemetry --)
    elif [[ ${COMP_WORDS[1]} == [a-z]* && $COMP_CWORD -gt 1 ]]; then
        asked+=("${COMP_WORDS[1]}")
    fi
    if [[ $current == -* ]]; then
        words=$(_rawqp_options "${asked[@]}")
    elif [[ $COMP_CWORD -eq 1 ]]; then
        words=$(_rawqp_commands "$program")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o default -F _rawqp softhca softhca-pci rawqp-doctor rawqp-perf
