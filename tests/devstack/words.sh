#!/usr/bin/env bash
# Words that only this project used do not come back: not in names, comments, messages or pages. Vale was tried for it; it
# takes minutes to build and reads neither names nor strings.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What others call so: serde and syn (visit_…), the user `nobody`.
others='visit_[a-z0-9]|Visit(or)?\b|syn::|"visit"|runuser -u nobody|"nobody"\)'
found=0
while IFS='|' read -r word instead; do
  hits=$(git grep -niE "(^|[^[:alpha:]])($word)($|[^[:alpha:]])" -- . ':!CHANGELOG.md' ':!deploy/crds/released' ':!*.lock' ':!tests/devstack/words.sh' |
    grep -vE "$others" || :)
  [[ -n $hits ]] || continue
  found=1
  printf '%s\n' "$hits" | sed "s|\$|  <- write: $instead|" >&2
done << 'END'
visits?|reconciliation
leftovers?|stale copy, orphan
setbacks?|backoff
lanes?|limit, permit
pulses?|heartbeat
rungs?|step
ladders?|plan
wish(es)?|request, setting
anew|again
beside|next to
somebody|a name, someone
nobody|no one
whoever|anyone who
goes on|continues
stands there|is there
to be had|available
END
exit "$found"
