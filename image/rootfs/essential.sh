#!/bin/sh
# mmdebstrap's essential hook, run with the new root as $1 between the essential packages and all others. What
# packages do with these files is done once, for all of them, by after.sh: every start of a program costs under
# emulation.
#   py3compile               each Python package would start the interpreter for its own few files
#   update-ca-certificates   its package runs it twice, hundreds of programs each time
#   SUPPORTED                its package looks up each of 500 locales by a program, to write it into a list
set -eu
root=$1

divert() {
    chroot "$root" dpkg-divert --quiet --rename --add --divert "$1.diverted" "$1"
    mkdir -p "$root${1%/*}"
}

for program in /usr/bin/py3compile /usr/sbin/update-ca-certificates; do
    divert "$program"
    printf '#!/bin/sh\n' > "$root$program"
    chmod 755 "$root$program"
done
divert /usr/share/i18n/SUPPORTED
: > "$root/usr/share/i18n/SUPPORTED"
