#!/usr/bin/env bash
# Makes a signed apt repository of the Debian packages, which any static web server or a USB stick serves as it is.
#
#   packaging/apt.sh                 of those that `make deb` made, from out/ into out/apt
#   packaging/apt.sh of DEBS OUT     of those in the directory DEBS, into the directory OUT
#   packaging/apt.sh check           none: checks the key and the dates, before hours are spent on packages
#
# KEY=FILE|ID is the key that signs: a file that `gpg --export-secret-keys` wrote, or a key of your own keyring. apt
# refuses the repository VALID_DAYS (365) after its date, so that no one can serve an old one forever. The same
# packages and key give the same bytes: the date is SOURCE_DATE_EPOCH or else that of the last commit. What is wrong is
# said before out/apt is replaced.
set -euo pipefail
# A web server reads it, whatever the umask of who makes it.
umask 022
cd "$(dirname "$0")/.."

from=out
out=out/apt
if (($# == 3)) && [[ $1 == of ]]; then
  from=$2
  out=$3
elif (($# != 0)) && [[ $* != check ]]; then
  echo "usage: packaging/apt.sh [check | of DEBS OUT]" >&2
  exit 2
fi
days=${VALID_DAYS:-365}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Else each tool takes the time of its own.
unset SOURCE_DATE_EPOCH
export LC_ALL=C.UTF-8 TZ=UTC
now=$(date +%s)

fail() {
  echo "apt: $*" >&2
  exit 1
}

if [[ -z ${KEY-} ]]; then
  cat >&2 <<'EOT'
apt: `make apt` signs with your key: KEY=FILE, or KEY=ID of one in your keyring. To make one that is valid for two years:
  gpg --quick-generate-key 'Config Weaver packages <you@example.com>' ed25519 sign 2y
  make apt KEY=you@example.com
Keep it: without it no host that trusts it takes another repository of yours. For a machine without your keyring:
  gpg --armor --export-secret-keys you@example.com > "$HOME/config-weaver-key.asc"
EOT
  exit 2
fi
[[ $days =~ ^[1-9][0-9]{0,3}$ ]] || fail "VALID_DAYS is '$days': a number of days from 1 to 9999"
[[ $epoch =~ ^[0-9]+$ ]] || fail "SOURCE_DATE_EPOCH is '$epoch': seconds since 1970"
until=$((epoch + days * 86400))
((until > now)) || fail "the repository would be valid until $(date -d "@$until" +%F), which is over: pass a larger VALID_DAYS, or
  SOURCE_DATE_EPOCH=$now, which dates it now"
((epoch <= now + 10)) || fail "SOURCE_DATE_EPOCH is in the future, and apt refuses such a repository: pass $now"
shopt -s nullglob
packages=("$from"/*.deb)
[[ $* == check ]] || ((${#packages[@]} > 0)) || fail "there is no package in $from: \`make deb\` makes them"
tests/devstack/prerequisites.sh apt

work=$(mktemp -d)
own=
trap '[[ -z $own ]] || gpgconf --homedir "$own" --kill gpg-agent; rm -rf "$work"' EXIT
if [[ -e $KEY ]]; then
  [[ $(realpath "$KEY") != "$(realpath .)"/* ]] || fail "$KEY is in this checkout, where it could be committed: move it elsewhere"
  own=$work/gnupg
  mkdir -m 0700 "$own"
  gpg=(gpg --quiet --homedir "$own")
  "${gpg[@]}" --batch --import "$KEY" 2>"$work/said" || fail "$KEY is no key: $(cat "$work/said")"
  keys=$("${gpg[@]}" --batch --with-colons --list-secret-keys)
  [[ $keys == *sec:* ]] || fail "$KEY has no secret key: \`gpg --export-secret-keys\` writes one"
else
  gpg=(gpg --quiet)
  keys=$("${gpg[@]}" --batch --with-colons --list-secret-keys -- "$KEY" 2>/dev/null) ||
    fail "KEY=$KEY is no file, and gpg has no secret key of that name: gpg --list-secret-keys"
fi
[[ $(grep -c '^sec:' <<<"$keys") == 1 ]] || fail "KEY=$KEY stands for several keys: name one by its fingerprint"
case $(sed -n 's/^sec:\(.\).*/\1/p' <<<"$keys") in
  e) fail "the key has expired, and apt would refuse what it signs: gpg --quick-set-expire FINGERPRINT 2y, and hand out its public key again" ;;
  r) fail "the key is revoked: make another" ;;
esac
fingerprint=$(sed -n 's/^fpr:::::::::\([0-9A-F]*\):.*/\1/p' <<<"$keys" | head -n 1)
# Where its password cannot be asked for, or is not known, that is seen now.
[[ $* != check ]] || {
  "${gpg[@]}" --local-user "$fingerprint" --output "$work/signed" --clearsign packaging/apt.sh 2>"$work/said" ||
    fail "gpg does not sign with this key: $(cat "$work/said")"
  exit
}
# No signature is older than its key.
born=$(sed -n 's/^\(sec\|ssb\):[^:]*:[^:]*:[^:]*:[^:]*:\([0-9]*\):.*/\2/p' <<<"$keys" | sort -n | tail -n 1)
signed=$((epoch > born ? epoch : born))

new=$work/apt
index=$new/dists/stable
mkdir -p "$new/pool"
cp "${packages[@]}" "$new/pool"
chmod 0644 "$new"/pool/*
for architecture in amd64 arm64; do
  binary=$index/main/binary-$architecture
  mkdir -p "$binary"
  (cd "$new" && apt-ftparchive --arch "$architecture" -o APT::FTPArchive::MD5=false -o APT::FTPArchive::SHA1=false packages pool) \
    >"$binary/Packages"
  xz --keep --threads=1 "$binary/Packages"
done
date_of() { date -d "@$1" '+%a, %d %b %Y %H:%M:%S UTC'; }
apt-ftparchive -o APT::FTPArchive::MD5=false -o APT::FTPArchive::SHA1=false -o APT::FTPArchive::SHA512=false \
  -o APT::FTPArchive::Release::Origin='Config Weaver' -o APT::FTPArchive::Release::Label='Config Weaver' \
  -o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Codename=stable \
  -o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures='amd64 arm64' \
  -o APT::FTPArchive::Release::Date="$(date_of "$epoch")" \
  release "$index" >"$work/Release"
# apt-ftparchive counts it from the clock's time.
sed "s/^Date: .*/&\nValid-Until: $(date_of "$until")/" "$work/Release" >"$index/Release"
grep -q '^Valid-Until: ' "$index/Release" || fail "apt-ftparchive wrote no date"
# sign OUTPUT HOW...: it warns of each date that is not that of the clock.
sign() {
  "${gpg[@]}" --yes --faked-system-time "$signed!" --digest-algo SHA512 --local-user "$fingerprint" --output "$index/$1" "${@:2}" \
    "$index/Release" 2>"$work/said" || fail "gpg did not sign: $(cat "$work/said")"
}
sign InRelease --clearsign
sign Release.gpg --armor --detach-sign
"${gpg[@]}" --armor --export "$fingerprint" >"$new/config-weaver.asc"

mkdir -p "$(dirname "$out")"
rm -rf "$out.old" "$out.new"
cp -r "$new" "$out.new"
[[ ! -e $out ]] || mv "$out" "$out.old"
mv "$out.new" "$out"
rm -rf "$out.old"
echo "  $out: ${#packages[@]} packages, valid until $(date -d "@$until" +%F), signed by $fingerprint; $out/config-weaver.asc is its public key"
