#!/usr/bin/env bash
# A dry run of `make release`, with programs of the dev profile and with packages that are there: what is made is the
# same twice, and each file of it passes `weaver verify`; what was changed does not. Then all of a pre-release, in a
# checkout of its own, where stand-ins take the place of what `make` would build.
#
#   tests/devstack/release.sh PROGRAMS DEBS
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh

(($# == 2)) || {
  echo "usage: tests/devstack/release.sh PROGRAMS DEBS" >&2
  exit 2
}
root=$PWD
tests/devstack/prerequisites.sh rust cc go curl apt release
helm
work=$(mktemp -d)
export GNUPGHOME=$work/gnupg
trap 'gpgconf --kill gpg-agent; rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Of a commit that is being released, the section is the version's own.
notes=Unreleased
! grep -qE "^## ${version//./\\.}( |\$)" CHANGELOG.md || notes=$version
platform=linux-$(dpkg --print-architecture)
url=https://example.com/config-weaver/$version
begun=$SECONDS

fail() {
  echo "release dry run: $*" >&2
  exit 1
}

# release OUT [VARIABLE=VALUE...]: what it prints.
release() {
  env VERSION="$version" RELEASE_NOTES="$notes" "${@:2}" packaging/release.sh of "$work/programs" "$debs" "$1" 2>&1
}

# ends STATUS TEXT COMMAND...: it ends so, with this in its words.
ends() {
  local status=0 said
  said=$("${@:3}" 2>&1) || status=$?
  [[ $status == "$1" && $said == *"$2"* ]] || fail "${*:3} ended with $status, wanted $1 and '$2': $said"
}

mkdir -m 0700 "$work/programs" "$work/debs" "$GNUPGHOME"
# Two stand for all: each has its own way through the repository, and the third is large.
cp "$2"/{weaver,config-weaver-card}_*.deb "$work/debs"
debs=$work/debs
strip -o "$work/programs/weaver" "$1/weaver"
weaver=$work/programs/weaver
for name in owner other; do minisign -G -W -p "$work/$name.pub" -s "$work/$name.key" >/dev/null; done
printf 'open-sesame\nopen-sesame\n' | minisign -G -p "$work/locked.pub" -s "$work/locked.key" >/dev/null 2>&1
gpg --quiet --batch --passphrase '' --quick-generate-key 'Dry run <dry-run@example.com>' ed25519 sign 1y 2>"$work/gpg"
gpg --quiet --batch --passphrase 'open-sesame' --pinentry-mode loopback --quick-generate-key 'Locked <locked@example.com>' ed25519 sign 1y \
  2>"$work/gpg"
gpgconf --kill gpg-agent
# The repository is dated now, since its key is.
epoch=$(date +%s)
signed=("SOURCE_DATE_EPOCH=$epoch" "RELEASE_KEY=$work/owner.key" "KEY=dry-run@example.com" "RELEASE_URL=$url/")

# What cannot become a release, before anything is made.
ends 2 "VERSION=0.2.0" packaging/release.sh
ends 1 "three numbers" env VERSION=v1 packaging/release.sh
ends 1 "make version VERSION=99.0.0" env VERSION=99.0.0 packaging/release.sh
ends 1 "is no file" release "$work/none" RELEASE_KEY=/nowhere
ends 1 "does not open with this password" release "$work/none" "RELEASE_KEY=$work/locked.key" <<<"sesame"
ends 1 "does not open with this password" release "$work/none" "RELEASE_KEY=$work/locked.key" </dev/null
ends 1 "no secret key of minisign" release "$work/none" "RELEASE_KEY=$work/owner.pub"
ends 1 "begins with https://" release "$work/none" RELEASE_URL=example.com
ends 1 "gpg has no secret key of that name" release "$work/none" KEY=stranger@example.com
ends 1 "does not sign with this key" release "$work/none" KEY=locked@example.com DISPLAY= GPG_TTY= </dev/null
ends 1 "is no key" release "$work/none" "KEY=$work/owner.pub"
ends 1 "as said above" env SOURCE_DATE_EPOCH=1 VERSION="$version" RELEASE_NOTES="$notes" KEY=dry-run@example.com \
  packaging/release.sh of "$work/programs" /var/empty "$work/none"
ends 1 "no package of" env VERSION="$version" RELEASE_NOTES="$notes" packaging/release.sh of "$work/programs" /var/empty "$work/none"
ends 1 "nor quotes" release "$work/none" "RELEASE_URL=$url?x"
ends 1 "no section" release "$work/none" RELEASE_NOTES=99.0.0
[[ ! -e $work/none ]] || fail "a release that failed left something"

# A checkout of the last commit becomes the next version, as docs/how-to/make-a-release.md has it; without `make
# generate`, which compiles, it is refused.
next=99.0.0-rc.1
git clone --quiet --depth 1 "file://$root" "$work/checkout"
(
  cd "$work/checkout"
  # Not how the owner of this machine signs.
  export GIT_CONFIG_GLOBAL=/dev/null
  git config user.name 'Dry run'
  git config user.email dry-run@example.com
  # Right after a release nothing is in it yet.
  sed -i '0,/^## Unreleased$/s//&\n\n- Of the dry run./' CHANGELOG.md
  # As on a new machine, where cargo has fetched nothing.
  CARGO_HOME=$work/cargo make version "VERSION=$next" >"$work/said"
  git commit -am "Release $next" >"$work/said"
  git tag "v$next"
  [[ $(git describe --tags) == "v$next" && -z $(git status --porcelain) ]] || fail "not tagged, or not all of it committed"
  grep -q "^## $next\$" CHANGELOG.md || fail "the changelog has no section $next"
  old=$(grep -A 1 '^name = "weaver-' Cargo.lock | grep '^version' | grep -vF "\"$next\"" || :)
  [[ -z $old ]] || fail "Cargo.lock has another version than $next: $old"
  ends 1 "make generate" env VERSION="$next" packaging/release.sh
  ends 2 "is empty" make version VERSION=99.1.0
  # The release has what its pre-release had.
  make version "VERSION=${next%-*}" >"$work/said"
  [[ $(grep "^## 99" CHANGELOG.md) == "## ${next%-*}" ]] || fail "the changelog has other sections: $(grep '^## ' CHANGELOG.md)"
  [[ $(sed -n "/^## ${next%-*}\$/,/^## /p" CHANGELOG.md) == *"Of the dry run."* ]] || fail "the release lacks what the pre-release had"
  git checkout --quiet .
  # As `make generate` has it.
  sed -i -E "s/^(version|appVersion): .*/\1: $next/" deploy/chart/Chart.yaml
  git commit -qam 'Generate'
)

# made GOAL: in the place of make, in the checkout: what that goal makes there, by name.
made() {
  local file
  file() { mkdir -p "$(dirname "$1")" && echo "$1" >"$1"; }
  case $1 in
    deb)
      for file in {config-weaver,weaver}_"${next/-/\~}"_{amd64,arm64} config-weaver-card_"${next/-/\~}"_all; do file "out/$file.deb"; done
      file target/x86_64-unknown-linux-gnu/release/weaver
      printf '#!/bin/sh\nexec "%s" "$@"\n' "$weaver" >target/x86_64-unknown-linux-gnu/release/weaver
      chmod +x target/x86_64-unknown-linux-gnu/release/weaver
      ;;
    static) for file in {x86_64,aarch64}-unknown-linux-musl; do file "target/$file/release/weaver"; done ;;
    windows) file target/x86_64-pc-windows-gnu/release/weaver.exe ;;
    macos) for file in {x86_64,aarch64}-apple-darwin; do file "target/$file/release/weaver"; done ;;
    oci) file "out/weaver-operator-$next.oci.tar" ;;
    image)
      [[ -z ${K3S-} ]] || next=$next-test
      file target/image/programs/weaver
      for file in "config-weaver-$next-arm64.img.xz" sbom.cdx.json packages.lock; do file "out/$file"; done
      (cd out && sha256sum "config-weaver-$next-arm64.img.xz" >"config-weaver-$next-arm64.img.xz.sha256")
      cat >out/os-list.json <<END
{"os_list": [{"url": "file://$PWD/out/config-weaver-$next-arm64.img.xz",
  "image_download_sha256": "$(cut -d ' ' -f 1 "out/config-weaver-$next-arm64.img.xz.sha256")"}]}
END
      ;;
    *) fail "no stand-in for \`make $1\`" ;;
  esac
}
cat >"$work/make" <<END
#!/usr/bin/env bash
set -euo pipefail
[[ \$1 == --no-print-directory && \$2 != "\${BROKEN-}" ]]
next=$next weaver=$weaver
$(declare -f fail made)
made "\$2"
END
chmod 0700 "$work/make"

# whole [VARIABLE=VALUE...]: the pre-release, by a key with a password.
whole() {
  env --chdir "$work/checkout" --unset CARGO_TARGET_DIR --unset K3S VERSION="$next" MAKE="$work/make" WEAVER_IMAGE="$image" \
    RELEASE_KEY="$work/locked.key" RELEASE_URL="$url" "$@" packaging/release.sh <<<"open-sesame"
}

# All files of a pre-release, under the names that it gives them.
image=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/weaver-image
touch "$work/checkout/new"
ends 1 "files are changed or new" whole
rm "$work/checkout/new"
ends 1 "the image is no release" whole K3S=testbed
ends 1 "RELEASE_IMAGE=no leaves it out" whole BROKEN=image
ends 0 "signed by RW" whole
before=$(sha256sum "$work/checkout/dist/SHA256SUMS")
ends 1 "" whole BROKEN=oci
sha256sum --quiet --check <<<"$before" || fail "what was made is gone after a failure"
touch "$work/checkout/dist/stale"
ends 0 "signed by RW" whole
[[ $(sha256sum "$work/checkout/dist/SHA256SUMS") == "$before" ]] || fail "a second time the pre-release is another one"
diff - <(cd "$work/checkout/dist" && find . -type f -printf '%P\n' | LC_ALL=C sort) <<END || fail "the pre-release has other files"
RELEASE-NOTES.md
SHA256SUMS
SHA256SUMS.minisig
config-weaver-$next-arm64.cdx.json
config-weaver-$next-arm64.img.xz
config-weaver-$next-arm64.packages
config-weaver-$next-deploy.tar.gz
config-weaver-$next.tgz
config-weaver-card_${next/-/\~}_all.deb
config-weaver_${next/-/\~}_amd64.deb
config-weaver_${next/-/\~}_arm64.deb
os-list.json
provenance.intoto.json
weaver-$next-darwin-amd64.tar.gz
weaver-$next-darwin-arm64.tar.gz
weaver-$next-linux-amd64-musl.tar.gz
weaver-$next-linux-amd64.tar.gz
weaver-$next-linux-arm64-musl.tar.gz
weaver-$next-linux-arm64.tar.gz
weaver-$next-windows-amd64.zip
weaver-$next.cdx.json
weaver-node-agent-$next.cdx.json
weaver-operator-$next.cdx.json
weaver-operator-$next.oci.tar
weaver.rb
weaver.yaml
weaver_${next/-/\~}_amd64.deb
weaver_${next/-/\~}_arm64.deb
END
(
  cd "$work/checkout/dist"
  ends 0 "signed by the key" "$weaver" verify --key "$work/locked.pub" --release "v$next" .
  ends 10 "it is of another release" "$weaver" verify --key "$work/locked.pub" --release 99.0.0 .
  ends 0 "$next, newer than this weaver" "$weaver" version --client --releases "file:$PWD" --key "$work/locked.pub"
  for text in "weaver.yaml 5 uri: " "weaver.rb 4 url " "os-list.json 1 \"url\": "; do
    read -r name count field <<<"$text"
    [[ $(grep -c "$field *\"$url/.*$next" "$name") == "$count" ]] || fail "$name has other addresses: $(cat "$name")"
  done
  grep -q "version: \"v$next\"" weaver.yaml || fail "weaver.yaml is of another version"
  grep -q 'pkg:cargo/windows-sys@' "weaver-$next.cdx.json" || fail "the bill of weaver lacks what it needs on Windows"
  ! grep -q 'pkg:cargo/windows-sys@' "weaver-operator-$next.cdx.json" || fail "the bill of the operator has crates of Windows"
  helm_reads=$("$tools/helm-$helm_version/helm" show chart "config-weaver-$next.tgz")
  [[ $helm_reads == *"version: $next"* ]] || fail "the chart is of another version: $helm_reads"
)

# All of it, twice.
release "$work/dist" "${signed[@]}" >"$work/said"
(umask 077 && TZ=Pacific/Apia release "$work/again" "${signed[@]}" >/dev/null)
diff -r "$work/dist" "$work/again" || fail "made again it is another one"
[[ $(find "$work/dist" ! -perm -o+r) == '' ]] || fail "not for a web server to read: $(find "$work/dist" ! -perm -o+r)"

# Each file by our program, all of it by those of others.
cd "$work/dist"
key=(--key "$work/owner.pub")
while read -r _ name; do
  ends 0 "$name: as published, built of commit" "$weaver" verify "${key[@]}" --sums SHA256SUMS "$name"
done < <(grep -v provenance.intoto.json SHA256SUMS)
ends 0 "signed by the key" "$weaver" verify "${key[@]}" .
ends 0 "$version, the same as this weaver (signed by the key" "$weaver" version --client --releases "file:$work/dist" "${key[@]}"
ends 10 "it is by the key" "$weaver" version --client --releases "file:$work/dist" --key "$work/other.pub"
sha256sum --quiet --check SHA256SUMS
archive=weaver-$version-$platform.tar.gz
# As the user of a laptop has it, who fetches no more than the page names.
mkdir "$work/fetched"
(
  cd "$work/fetched"
  curl --fail-early -fLO "file://$work/dist/{SHA256SUMS,SHA256SUMS.minisig,provenance.intoto.json}" 2>"$work/said"
  curl -fLO "file://$work/dist/$archive" 2>"$work/said"
  grep " $archive\$" SHA256SUMS | sha256sum -c >"$work/said"
  ends 0 "$archive: as published, built of commit" "$weaver" verify "${key[@]}" "$archive"
)
# As a Mac has it.
grep " $archive\$" SHA256SUMS | shasum -a 256 -c >"$work/said"
minisign -V -q -p "$work/owner.pub" -m SHA256SUMS
ends 10 "it is by the key" "$weaver" verify --key "$work/other.pub" .
sum=$(sha256sum "$archive" | cut -d ' ' -f 1)
for manifest in weaver.yaml weaver.rb; do
  grep -q "\"$url/$archive\"" $manifest || fail "$manifest has another address: $(cat $manifest)"
  grep -q "\"$sum\"" $manifest || fail "$manifest has another hash: $(cat $manifest)"
done
for bill in *.cdx.json; do grep -q '"bomFormat": "CycloneDX"' "$bill" || fail "$bill is no bill"; done
grep -q 'pkg:cargo/kube@' "weaver-$version.cdx.json" || fail "the bill of weaver lacks kube"
grep -q '^- ' RELEASE-NOTES.md || fail "the notes are not those of the changelog"

# What is in the archive.
tar -C "$work" -xzf "$archive"
cd "$work"
install -d "$work/bin"
install "weaver-$version-$platform/weaver" "$work/bin/"
[[ $(bin/weaver --version) == "weaver $version" ]] || fail "$(bin/weaver --version)"
cd "weaver-$version-$platform"
for name in LICENSE man/man1/weaver.1 man/man1/weaver-verify.1 completions/bash/weaver completions/zsh/_weaver completions/fish/weaver.fish; do
  [[ -s $name ]] || fail "the archive lacks $name"
done
[[ $(tar -tvzf "$work/dist/$archive" | awk '{print $2}' | sort -u) == 0/0 ]] || fail "the archive has an owner"

# The chart is one for Helm, of this version.
chart=$work/dist/config-weaver-$version.tgz
"$tools/helm-$helm_version/helm" lint --strict --quiet --namespace config-weaver "$chart"
"$tools/helm-$helm_version/helm" template config-weaver "$chart" --namespace config-weaver >"$work/chart.yaml"
grep -q "image: \"localhost/weaver-operator:$version\"" "$work/chart.yaml" || fail "the chart has another image: $(grep image: "$work/chart.yaml")"

# What was changed on the way.
cd "$work/again"
truncate -s -1 "$archive"
ends 10 "cut off, changed or of another release" "$weaver" verify "${key[@]}" "$archive"
echo x >"more"
ends 10 "does not list more" "$weaver" verify "${key[@]}" .
rm "weaver-$version.cdx.json"
ends 10 "weaver-$version.cdx.json" "$weaver" verify "${key[@]}" .
sed -i 's/by-hand/by-me/' provenance.intoto.json
ends 10 "provenance.intoto.json" "$weaver" verify "${key[@]}" weaver.rb
sed -i 's/weaver.rb/weaver.rc/' SHA256SUMS
ends 10 "not match these bytes" "$weaver" verify "${key[@]}" weaver.rb

# Without keys and an address.
cd "$root"
release "$work/bare" >"$work/said"
for text in "apt repository: pass KEY" "pass RELEASE_URL" "pass RELEASE_KEY=FILE" "not signed"; do
  grep -q "$text" "$work/said" || fail "'$text' is not in: $(cat "$work/said")"
done
for name in SHA256SUMS.minisig weaver.yaml weaver.rb apt; do [[ ! -e $work/bare/$name ]] || fail "$name, without a key"; done
ends 0 "The signature was not checked" "$weaver" verify "$work/bare"
ends 1 "there is no" "$weaver" verify "${key[@]}" "$work/bare"
echo "release dry run: ok, $((SECONDS - begun)) s"
