#!/usr/bin/env bash
# Words that only this project used do not come back: not in names, comments, messages or pages. Vale was tried for it;
# it takes minutes to build and reads neither names nor strings. And no comment is wider than .editorconfig says.
set -euo pipefail
cd "$(dirname "$0")/../.."

# A word, and what to write instead.
list='visits?|reconciliation
leftovers?|stale copy, orphan
setbacks?|backoff
lanes?|limit, permit
pulses?|heartbeat
rungs?|step
ladders?|plan
wish(es)?|request, setting
wished|requested
anew|again
beside|next to
somebody|a name, someone
nobody|no one
whoever|anyone who
goes on|continues
stands there|is there
be had|available
anybody|anyone
appliances?|card, node
for ever|forever
told|reported, distinguished
spots?|object key, target
paced?|rate limit, interval
pacing|rate limit, interval
who types|user
who leads|the leader
standing|leadership, the leader
a person|a user
the person|the user'
# What others call so: serde and syn (visit_…), the user `nobody`.
others='visit_[a-z0-9]|Visit(or)?\b|syn::|"visit"|runuser -u nobody|"nobody"\)'

# each WORDS: these, and no part of a longer one.
each() { echo "(^|[^[:alpha:]])($1)($|[^[:alpha:]])"; }

# The tree is read once, for all of them, and by bytes, which takes a tenth of the time.
all=$(LC_ALL=C git grep -niE "$(each "$(cut -d '|' -f 1 <<< "$list" | paste -sd '|')")" -- \
  . ':!CHANGELOG.md' ':!deploy/crds/released' ':!*.lock' ':!tests/devstack/words.sh' | LC_ALL=C grep -vE "$others" || :)
found=0
while IFS='|' read -r word instead; do
  hits=$(LC_ALL=C grep -iE "$(each "$word")" <<< "$all" || :)
  [[ -n $hits ]] || continue
  found=1
  printf '%s\n' "$hits" | sed "s|\$|  <- write: $instead|" >&2
done <<< "$list"

# The same in names, whose parts are words too: what is defined in Rust, as snake_case and CamelCase.
parts='told|wish(es)?|wished|leftovers?|setbacks?|lanes?|pulses?|rungs?|ladders?|visits?|standing|spots?|whoever|somebody|nobody|anew|beside'
hits=$(LC_ALL=C git grep -noE '\b(fn|let|let mut|mod|struct|enum|trait|type|const|static) +[A-Za-z_][A-Za-z0-9_]*' -- '*.rs' |
  LC_ALL=C grep -vE "$others" |
  sed -E 's/([a-z0-9])([A-Z])/\1_\2/g' | LC_ALL=C grep -iE "[ _]($parts)(_|$)" || :)
if [[ -n $hits ]]; then
  found=1
  printf '%s\n' "$hits" | sed 's|$|  <- write another name, see above|' >&2
fi

# Rows of a table cannot be broken, nor can generated files be edited.
width=$(sed -n 's/^max_line_length = //p' .editorconfig)
hits=$(git grep -nP "^\\s*(//|#)(?![!/]* \\|).{$width,}" -- '*.rs' '*.go' '*.sh' '*.toml' '*.yaml' .ci Makefile packaging systemd \
  ':!deploy/chart' ':!deploy/crds' |
  while IFS= read -r hit; do
    line=${hit#*:*:}
    ((${#line} <= width)) || [[ $line =~ ^[[:space:]]*#!?\[ ]] || printf '%s\n' "$hit"
  done)
if [[ -n $hits ]]; then
  found=1
  printf '%s\n' "$hits" | sed "s|\$|  <- a comment of more than $width characters: break the line|" >&2
fi
exit "$found"
