#!/usr/bin/env bash
# Makes this checkout another version, to be committed and tagged: `make version VERSION=0.2.0`.
#
# Cargo.toml and Cargo.lock, the image's tag in the manifests, names of files in the pages of the book, and the heading
# of the changelog.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION-}
old=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[[ $version =~ ^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.]+)?$ ]] || {
  echo "version: VERSION is '$version': three numbers and, for a pre-release, a name, as 0.2.0 and 0.2.0-rc.1; this is $old" >&2
  exit 2
}
[[ $version != "$old" ]] || {
  echo "version: this checkout is $old already" >&2
  exit 1
}
grep -q '^## Unreleased$' CHANGELOG.md || {
  echo "version: CHANGELOG.md has no section \`## Unreleased\`, which becomes that of $version" >&2
  exit 1
}
# What a pre-release had is in the release too.
before=
[[ $old != "${version%%-*}"-* ]] || before=$old
awk -v before="## $before" '/^## / { is_ours = $0 == "## Unreleased" || $0 == before; next } is_ours && NF { found = 1 } END { exit !found }' \
  CHANGELOG.md || {
  echo "version: the section \`## Unreleased\` of CHANGELOG.md is empty: write what a user notices" >&2
  exit 1
}
sed -i "0,/^version = .*/s//version = \"$version\"/" Cargo.toml
# The next line of each entry of ours. cargo would need its index for that, which a new machine has not fetched.
sed -i "/^name = \"weaver-/{n;s/.*/version = \"$version\"/}" Cargo.lock
# A workspace of its own, whose own package keeps its version.
sed -i "/^name = \"weaver-diagnostics\"$/{n;s/.*/version = \"$version\"/}" lib/diagnostics/fuzz/Cargo.lock
sed -i "s|\(image: localhost/weaver-operator:\).*|\1$version|" deploy/{kubernetes,installer}/*.yaml
dots=${old//./\\.}
# In the pages, and where tests hold their commands. Not where another version is meant, as in a rollback, nor where
# files are shown that were signed.
grep -rlE --exclude=install.md "weaver(-operator)?[-:]$dots|:$dots docker:|^Config Weaver $dots:" docs/how-to docs/tutorials \
  {cli,image}/src/examples.txt tests/docs/held.txt tests/docs/real_k3d.rs |
  xargs sed -i -E "s/(weaver(-operator)?[-:])$dots/\1$version/g; s/:$dots( docker:)/:$version\1/; s/^(Config Weaver )$dots:/\1$version:/"
[[ -z $before ]] || sed -i "/^## $dots\$/,+1d" CHANGELOG.md
sed -i "0,/^## Unreleased$/s//## Unreleased\n\n## $version/" CHANGELOG.md
echo "  $old is $version now; look at \`git diff\`, run \`make generate\`, commit, then: git tag v$version"
