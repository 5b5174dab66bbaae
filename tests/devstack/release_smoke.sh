#!/usr/bin/env bash
# Tries each file of a release as its user has it: checked by the `weaver` in it, then installed and run in a clean root
# of Debian 13, in an empty one, by an emulator or under wine, or read by what it is for. Prints what was done with
# each; where that is nothing, why. What is made is removed at the end.
#
#   tests/devstack/release_smoke.sh [DIST [PUBKEY]]    DIST is dist/ by itself; PUBKEY of minisign for the signature
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh
# shellcheck source=tests/devstack/apt.sh
. tests/devstack/apt.sh

dist=$(realpath "${1-dist}")
key=${2:+$(realpath "$2")}
[[ -f $dist/SHA256SUMS && $# -le 2 ]] || {
  echo "usage: tests/devstack/release_smoke.sh [DIST [PUBKEY]]; $dist has no SHA256SUMS: \`make release\` makes it" >&2
  exit 2
}
tests/devstack/prerequisites.sh rust cc cross go image windows wine release
# shellcheck source=tests/devstack/tools.sh
. tests/devstack/tools.sh
helm
version=$(sed -n 's/^# Config Weaver //p' "$dist/RELEASE-NOTES.md")
debian=${version/-/\~}
work=$(mktemp -d)
trap 'as_root rm -rf --one-file-system "$work"' EXIT
chmod 0755 "$work"
root=$work/root
begun=$SECONDS
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
declare -A how=()

fail() {
  echo "release smoke: $*" >&2
  exit 1
}

# run COMMAND: by a shell in the root, as in packages.sh. Its output is in $work/said too.
run() {
  as_root unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
    chroot "$root" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    sh -euc "$1" </dev/null >"$work/said" 2>&1 || fail "$1: $(cat "$work/said")"
}

# is_ours COMMAND...: it prints a program and the version.
is_ours() {
  local said
  said=$("$@" --version 2>&1) || fail "$* --version: $said"
  [[ ${said%$'\r'} == *" $version" ]] || fail "$* is another version than $version: $said"
}

# alone ROOT PROGRAM: is it ours where there is nothing else?
alone() {
  local start=("/$2")
  if [[ $(od -An -tx1 -j18 -N2 "$1/$2") == ' b7 00' && $(uname -m) != aarch64 ]]; then
    cp "$emulator" "$1/emulator"
    start=(/emulator "/$2")
  fi
  is_ours as_root timeout 120 chroot "$1" "${start[@]}"
}

# The files of the list; what tries one takes its name off by saying how.
with_key=()
said="checked by weaver verify"
if [[ -n $key ]]; then
  install -D -m 0644 "$key" "$work/key.pub"
  with_key=(--key /key.pub)
  said="$said and the key"
fi
as_root mmdebstrap --quiet --mode=root --variant=minbase --skip=cleanup/apt/lists --include=apt,ca-certificates trixie "$root"
as_root mkdir "$root/dist"
as_root cp -r "$dist/." "$root/dist"
[[ -z $key ]] || as_root cp "$work/key.pub" "$root"

for file in "$dist"/weaver-"$version"-*; do
  name=${file##*/}
  case $name in
    *.tar.gz) tar -C "$work" -xzf "$file" ;;
    *.zip) (cd "$work" && unzip -q "$file") ;;
  esac
  stem=${name%.tar.gz}
  case $name in
    *-linux-amd64.tar.gz)
      run "cd /dist; tar -xzf $name -C /root; install /root/$stem/weaver /usr/local/bin; weaver crd show >/dev/null
        weaver version --client; weaver verify ${with_key[*]} ."
      grep -q "^weaver  $version\$" "$work/said" || fail "$name is another version: $(cat "$work/said")"
      as_root rm "$root/usr/local/bin/weaver"
      how[$name]="run in a clean root"
      ;;
    *-linux-arm64.tar.gz)
      is_ours timeout 120 "$emulator" -L /usr/aarch64-linux-gnu "$work/$stem/weaver"
      how[$name]="run by an emulator"
      ;;
    *-musl.tar.gz)
      alone "$work/$stem" weaver
      how[$name]="run in an empty root"
      ;;
    *-windows-*.zip)
      is_ours timeout 120 tests/devstack/laptops.sh under_wine "$work/${name%.zip}/weaver.exe"
      how[$name]="run under wine"
      ;;
    *-darwin-*) how[$name]="unpacked; not run, since no Mac is here" ;;
  esac
done

for name in config-weaver_"$debian"_arm64.deb weaver_"$debian"_arm64.deb; do
  dpkg-deb -x "$dist/$name" "$work/arm64"
  how[$name]="unpacked, its programs run by an emulator; not installed"
done
for program in weaver weaver-node-agent weaver-operator; do
  is_ours timeout 120 "$emulator" -L /usr/aarch64-linux-gnu "$work/arm64/usr/bin/$program"
done
packages="/dist/config-weaver_${debian}_amd64.deb /dist/weaver_${debian}_amd64.deb"
if [[ -d $dist/apt ]]; then
  run "install -D -m 644 /dist/apt/config-weaver.asc /etc/apt/keyrings/config-weaver.asc
    printf 'Types: deb\nURIs: file:/dist/apt\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/config-weaver.asc\n' \
      >/etc/apt/sources.list.d/config-weaver.sources
    apt-get update -qq"
  packages="config-weaver=$debian weaver=$debian"
  while read -r name; do
    cmp "$dist/apt/pool/${name##*/}" "$dist/${name##*/}" || fail "$name is another one than that next to apt/"
    how[$name]="the one next to apt/"
  done < <(cd "$dist" && ls apt/pool/*.deb)
  for name in $(cd "$dist" && find apt -type f ! -path 'apt/pool/*'); do how[$name]="not read by the apt of this root"; done
  for name in config-weaver.asc dists/stable/InRelease dists/stable/main/binary-amd64/Packages.xz; do how[apt/$name]="read by apt"; done
fi
run "apt-get install -qq -y --no-install-recommends $packages; dpkg -V
  for program in weaver weaver-node-agent weaver-operator; do \$program --version; done"
[[ $(grep -c "^weaver[a-z-]* $version\$" "$work/said") == 3 ]] || fail "the packages are of another version: $(cat "$work/said")"
run "apt-get install -qq -y --simulate /dist/config-weaver-card_${debian}_all.deb; apt-get purge -qq -y config-weaver weaver"
for name in {config-weaver,weaver}_"$debian"_amd64.deb; do how[$name]="installed and run in a clean root, and purged"; done
how[config-weaver-card_${debian}_all.deb]="its dependencies are in Debian 13; not installed, since it takes over a host"

for file in "$dist"/*.oci.tar; do
  mkdir "$work/oci"
  tar -C "$work/oci" -xf "$file"
  found=0
  for blob in "$work"/oci/blobs/sha256/*; do
    [[ $(sha256sum <"$blob") == "${blob##*/}  -" ]] || fail "${file##*/} has another blob than ${blob##*/}"
    mkdir "$work/layer"
    if tar -C "$work/layer" -xf "$blob" usr/bin/weaver-operator 2>/dev/null; then
      alone "$work/layer" usr/bin/weaver-operator
      found=$((found + 1))
    fi
    rm -rf "$work/layer"
  done
  ((found == 2)) || fail "${file##*/} has $found programs"
  how[${file##*/}]="both programs run in an empty root; in no container engine"
done

"$tools/helm-$helm_version/helm" lint --strict --quiet --namespace config-weaver "$dist/config-weaver-$version.tgz"
"$tools/helm-$helm_version/helm" template config-weaver "$dist/config-weaver-$version.tgz" --namespace config-weaver >/dev/null
how[config-weaver-$version.tgz]="read by helm; installed in no cluster"
tar -C "$work" -xzf "$dist/config-weaver-$version-deploy.tar.gz"
diff -r deploy "$work/config-weaver-$version-deploy/deploy" || fail "deploy/ is another one"
how[config-weaver-$version-deploy.tar.gz]="as in this checkout"

image=config-weaver-$version-arm64.img.xz
if [[ -f $dist/$image ]]; then
  unpacked=$(xz -dc "$dist/$image" | sha256sum)
  how[$image]="unpacked; not booted: \`make boot\` boots the one in out/"
  if [[ -f $dist/os-list.json ]]; then
    grep -q "\"extract_sha256\": \"${unpacked%% *}\"" "$dist/os-list.json" || fail "os-list.json has another image"
    grep -q "\"image_download_size\": $(stat -c %s "$dist/$image")\b" "$dist/os-list.json" || fail "os-list.json has another size"
    how[os-list.json]="sizes and hashes compared; not read by Imager"
  fi
fi
for file in "$dist"/*.cdx.json; do
  grep -q '"specVersion": "1.6"' "$file" || fail "${file##*/} is no CycloneDX 1.6"
  how[${file##*/}]="looked into"
done
for name in weaver.yaml weaver.rb; do how[$name]="not tried, since neither krew nor Homebrew is here"; done
for name in RELEASE-NOTES.md "config-weaver-$version-arm64.packages"; do how[$name]="read by no program"; done
how[provenance.intoto.json]="read by weaver verify"

while read -r _ name; do
  [[ -n ${how[$name]-} ]] || fail "nothing here tries $name"
  echo "  $name: $said, ${how[$name]}"
done <"$dist/SHA256SUMS"
echo "release smoke: ok, $(wc -l <"$dist/SHA256SUMS") files of $version, $((SECONDS - begun)) s"
