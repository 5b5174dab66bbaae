#!/bin/sh
# mmdebstrap's essential hook, run with the new root as $1 between the essential packages and all others: each
# Python package would start the interpreter for its own few files, which costs seconds under emulation; after.sh
# compiles all of them at once.
set -eu
root=$1

chroot "$root" dpkg-divert --quiet --rename --add --divert /usr/bin/py3compile.diverted /usr/bin/py3compile
printf '#!/bin/sh\n' > "$root/usr/bin/py3compile"
chmod 755 "$root/usr/bin/py3compile"
