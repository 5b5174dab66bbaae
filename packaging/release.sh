#!/usr/bin/env bash
# Makes a release: everything that is published of a version, its list, signature and provenance, into dist/.
#
#   VERSION=0.2.0 packaging/release.sh                  all of it, built here
#   VERSION=… packaging/release.sh of PROGRAMS DEBS OUT of existing programs for this machine, and packages: for tests
#
# RELEASE_URL=ADDRESS is where the files will be fetched from: with it there are a manifest for krew and a formula for
# Homebrew. RELEASE_KEY=FILE is the secret key of minisign that signs, KEY=FILE|ID that of gpg which signs the apt
# repository. RELEASE_IMAGE=no leaves the card image out, RELEASE_BUILDER=URI says who builds, RELEASE_NOTES=HEADING
# takes another section of CHANGELOG.md. The same commit, tools and keys give the same bytes: every date is
# SOURCE_DATE_EPOCH or else that of the last commit. What is wrong is said before dist/ is replaced. For tests, MAKE and
# WEAVER_IMAGE name other programs than make and weaver-image.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
# shellcheck source=tests/devstack/path.sh
. tests/devstack/path.sh

fail() {
  echo "release: $*" >&2
  exit 1
}
left_out() { echo "  left out: $*" >&2; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=dist
programs=
debs=out
level=-9
if (($# == 4)) && [[ $1 == of ]]; then
  programs=$2 debs=$3 out=$4 level=-1
elif (($# != 0)); then
  echo "usage: packaging/release.sh [of PROGRAMS DEBS OUT]" >&2
  exit 2
fi

# What can be said before anything is built.
version=${VERSION-}
[[ -n $version ]] || {
  echo "release: \`make release VERSION=0.2.0\` makes that version" >&2
  exit 2
}
[[ $version =~ ^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.]+)?$ ]] ||
  fail "VERSION is '$version': three numbers and, for a pre-release, a name, as 0.2.0 and 0.2.0-rc.1"
own=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[[ $version == "$own" ]] ||
  fail "this checkout is $own, not $version: \`make version VERSION=$version\` and a commit make it that, a tag v$version says so"
grep -qx "version: $version" deploy/chart/Chart.yaml ||
  fail "deploy/chart is of another version than $version: \`make generate\` makes it that, commit it"
url=${RELEASE_URL-}
odd='[[:space:]"'\''\#?]'
[[ -z $url || ($url == http?(s)://* && ! $url =~ $odd) ]] ||
  fail "RELEASE_URL is '$url': the address of a directory, which begins with https:// and has neither blanks nor quotes"
key=${RELEASE_KEY-}
if [[ -n $key ]]; then
  [[ -f $key ]] || fail "RELEASE_KEY=$key is no file: the secret key of minisign, which \`minisign -G\` makes"
  head -n 1 "$key" | grep -q 'secret key' || fail "RELEASE_KEY=$key is no secret key of minisign: the file that -s names, not the .pub"
  [[ $(realpath "$key") != "$(realpath .)"/* ]] || fail "$key is in this checkout, where it could be committed: move it elsewhere"
fi
notes=${RELEASE_NOTES:-$version}
grep -qE "^## ${notes//./\\.}( |\$)" CHANGELOG.md ||
  fail "CHANGELOG.md has no section \`## $notes\`: \`make version\` makes it of what is below \`## Unreleased\`"
awk -v ours="## $notes" '/^## / { is_ours = $0 == ours || index($0, ours " ") == 1; next } is_ours && NF { found = 1 } END { exit !found }' \
  CHANGELOG.md || fail "the section \`## $notes\` of CHANGELOG.md is empty: write what a user notices"
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
[[ $epoch =~ ^[0-9]+$ ]] || fail "SOURCE_DATE_EPOCH is '$epoch': seconds since 1970"
export SOURCE_DATE_EPOCH=$epoch LC_ALL=C.UTF-8 TZ=UTC
[[ -z ${KEY-} ]] || packaging/apt.sh check || fail "KEY=$KEY cannot sign the apt repository, as said above"
native=$(dpkg --print-architecture)
if [[ -z $programs ]]; then
  [[ $native == amd64 ]] || fail "needs a machine of amd64, whose programs run here and are packed; this is $native"
  [[ -z $(git status --porcelain) ]] || fail "files are changed or new, so this is no commit's release: git status"
  [[ " $(git tag --points-at HEAD | tr '\n' ' ')" == *" v$version "* ]] ||
    echo "  no tag v$version is on this commit: tag it before you publish" >&2
fi
tests/devstack/prerequisites.sh rust cc release

public=
password=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new=$work/dist
mkdir "$new" "$work/man"

# minisigned ARGUMENT...: minisign with the secret key, which asks for no password; what it prints is in $work/said.
minisigned() { minisign "$@" -s "$key" <<<"$password" >"$work/said" 2>&1; }

# Now, since the list is signed at the end, an hour or two later. A key without a password takes any.
if [[ -n $key ]]; then
  minisigned -R -p "$work/public" || {
    IFS= read -rs -p "Password of $key: " password || :
    [[ ! -t 0 ]] || echo >&2
    minisigned -R -f -p "$work/public" || fail "$key does not open with this password, which is read from the terminal or
  from standard input: $(tail -n 1 "$work/said")"
  }
  public=$(tail -n 1 "$work/public")
fi

# archive PLATFORM FORMAT PROGRAM: the program with its man pages, completions and licence.
archive() {
  local name=weaver-$version-$1 file=$3
  local tree=$work/$name to
  mkdir -p "$tree/man/man1" "$tree/completions/bash" "$tree/completions/zsh" "$tree/completions/fish"
  install -m 0755 "$file" "$tree/"
  cp LICENSE "$tree"
  cp "$work"/man/*.1 "$tree/man/man1"
  cp "$work/weaver.bash" "$tree/completions/bash/weaver"
  cp "$work/weaver.zsh" "$tree/completions/zsh/_weaver"
  cp "$work/weaver.fish" "$tree/completions/fish/weaver.fish"
  to=$new/$name.$2
  case $2 in
    tar.gz) packed "$work" "$name" "$to" ;;
    zip)
      find "$tree" -exec touch -d "@$epoch" {} +
      (cd "$work" && find "$name" -type f | sort | zip -q -X "$level" "$to" -@)
      ;;
    *) fail "packaging/targets: $1: the archive is tar.gz or zip, not $2" ;;
  esac
}

# packed DIRECTORY NAME FILE: without anything of this machine.
packed() {
  tar -C "$1" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --mtime="@$epoch" -cf - "$2" |
    gzip -n "$level" >"$3"
}

image=${WEAVER_IMAGE-}
[[ -n $image ]] || {
  # With another date, what C compiles would be compiled again.
  env -u SOURCE_DATE_EPOCH cargo build --locked --quiet -p weaver-image
  image=$target/debug/weaver-image
}
platforms=() triples=() goals=()
while read -r platform triple format goal program; do
  [[ -n $platform && $platform != \#* ]] || continue
  [[ -z $programs || $platform == "linux-$native" ]] || continue
  if [[ -n $programs ]]; then
    program=$programs/weaver
  elif [[ $program == image/* ]]; then
    # The image's are always there.
    program=$PWD/target/$program
  else
    program=$target/$program
  fi
  platforms+=("$platform $format $program")
  triples+=(--target "$triple")
  [[ " ${goals[*]} " == *" $goal "* ]] || goals+=("$goal")
done <packaging/targets
goal() { "${MAKE:-make}" --no-print-directory "$1"; }
if [[ -z $programs ]]; then
  programs=$target/x86_64-unknown-linux-gnu/release
  # First, since k3s is what most often cannot be fetched.
  if [[ ${RELEASE_IMAGE-} == no ]]; then
    left_out "the card image, as RELEASE_IMAGE=no asks"
  else
    goal image || fail "there is no card image, as said above; RELEASE_IMAGE=no leaves it out"
    stem=config-weaver-$version-arm64
    [[ -f out/$stem.img.xz.sha256 ]] || fail "out/ has no $stem.img.xz: with this K3S or KERNEL the image is no release"
    (cd out && sha256sum --quiet --check "$stem.img.xz.sha256")
    cp "out/$stem.img.xz" out/os-list.json "$new"
    cp out/sbom.cdx.json "$new/$stem.cdx.json"
    cp out/packages.lock "$new/$stem.packages"
    [[ -n $url ]] || {
      rm "$new/os-list.json"
      left_out "os-list.json for Raspberry Pi Imager: it names an address, pass RELEASE_URL"
    }
  fi
  for one in "${goals[@]}" oci; do goal "$one"; done
  cp "out/weaver-operator-$version.oci.tar" "$new"
fi

shopt -s nullglob
packages=("$debs"/{config-weaver,config-weaver-card,weaver}_"${version/-/\~}"_*.deb)
((${#packages[@]} > 0)) || fail "there is no package of $version in $debs: \`make deb\` makes them"

"$programs/weaver" man "$work/man"
for shell in bash zsh fish; do "$programs/weaver" completion $shell >"$work/weaver.$shell"; done
for line in "${platforms[@]}"; do
  read -r platform format program <<<"$line"
  archive "$platform" "$format" "$program"
done
mkdir "$work/config-weaver-$version-deploy"
cp -r deploy "$work/config-weaver-$version-deploy"
packed "$work" "config-weaver-$version-deploy" "$new/config-weaver-$version-deploy.tar.gz"
# As `helm package` has it, which would date each file by its own time.
cp -r deploy/chart "$work/config-weaver"
packed "$work" config-weaver "$new/config-weaver-$version.tgz"
cp "${packages[@]}" "$new"
if [[ -n ${KEY-} ]]; then
  packaging/apt.sh of "$new" "$new/apt" >"$work/said"
else
  left_out "the apt repository: pass KEY, as \`make apt\` explains"
fi
[[ -n $url ]] || left_out "manifests for krew and Homebrew: they name an address, pass RELEASE_URL"

"$image" release --dist "$new" --version "$version" --notes "$notes" ${url:+--url "$url"} \
  --builder "${RELEASE_BUILDER:-https://weaver.example.com/release/by-hand}" "${triples[@]}"
if [[ -n $key ]]; then
  minisigned -S -m "$new/SHA256SUMS" -t "Config Weaver $version" -c "signature of a release of Config Weaver" ||
    fail "minisign did not sign: $(cat "$work/said")"
else
  left_out "the signature: pass RELEASE_KEY=FILE, a secret key of minisign (\`minisign -G -s FILE\` makes one)"
fi
"$programs/weaver" verify ${public:+--key "$public"} "$new" >"$work/said" || fail "what was made is not as it should be: $(cat "$work/said")"

mkdir -p "$(dirname "$out")"
rm -rf "$out.old" "$out.new"
cp -r "$new" "$out.new"
[[ ! -e $out ]] || mv "$out" "$out.old"
mv "$out.new" "$out"
rm -rf "$out.old"
signed="not signed"
[[ -z $key ]] || signed="signed by $public"
echo "  $out: $(wc -l <"$out/SHA256SUMS") files of $version, $signed; the notes are RELEASE-NOTES.md, \`make release-smoke\` tries each file"
