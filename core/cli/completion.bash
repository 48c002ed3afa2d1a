# SPDX-License-Identifier: Apache-2.0
# Completion of the `kvstore` command for bash. Commands and options are those that the command tells
# with --words, names of plugins those of `kvstore list`.

_kvstore_names() {
    "$1" list 2>/dev/null | awk 'NR > 1 && $1 ~ /^[a-z][a-z0-9_]*$/ { print $1 }'
}

_kvstore() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words= i

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$("$1" --words 2>/dev/null | cut -d ' ' -f 1) --help --version"
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [ "${COMP_WORDS[i]}" = -- ]; then
            COMPREPLY=($(compgen -c -f -- "$word"))
            return
        fi
    done
    case $before in
        --backend) words=$(_kvstore_names "$1") ;;
        --device) words='cpu cuda' ;;
        --announce) COMPREPLY=($(compgen -f -- "$word")) ;;
        --timeout | --grace | --workers | --servers | --address | --only) ;;
        *)
            case ${COMP_WORDS[1]} in
                info | enable | disable | conformance) words=$(_kvstore_names "$1") ;;
                bench) words=$("$1" bench --help 2>/dev/null | sed -n 's/^  \(W[0-9]*\)  .*/\1/p') ;;
                check) COMPREPLY=($(compgen -f -- "$word")) ;;
            esac
            words="$words $("$1" --words 2>/dev/null | awk -v name="${COMP_WORDS[1]}" '$1 == name { $1 = ""; print }')"
            ;;
    esac
    COMPREPLY+=($(compgen -W "$words" -- "$word"))
}

complete -F _kvstore kvstore
