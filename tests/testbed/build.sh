#!/bin/sh
# Builds the testbed once per content: progress goes to stderr, the path of the binary is the
# only line on stdout. The cache lies outside the work tree; its key is the hash of every
# input below this folder and of the machine's kind; a build for another architecture lies
# next to the native one. A failed or interrupted build leaves nothing in the cache. Exit 1
# names what is missing, exit 2 is wrong usage.
#
#   build.sh                 prints the path, and builds first where that is needed
#   build.sh --cached        prints the path, or exits 3 where it would have to build
#   build.sh --arch arm64    for that machine (or amd64), with the distribution's cross compiler
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

fail() {
    echo "tests/testbed/build.sh: $*" >&2
    exit 1
}

usage() {
    echo "tests/testbed/build.sh: $1; usage: build.sh [--arch amd64|arm64] [--cached]" >&2
    exit 2
}

# Go's name of this machine's architecture, where there is a cross compiler to speak of.
case $(uname -m) in
x86_64) native=amd64 ;;
aarch64) native=arm64 ;;
*) native= ;;
esac
arch=$native
cached=
while [ $# -gt 0 ]; do
    case $1 in
    --cached) cached=1 ;;
    --arch)
        arch=${2-}
        case $arch in
        amd64) cross=x86_64-linux-gnu-gcc package=gcc-x86-64-linux-gnu libc=libc6-dev-amd64-cross ;;
        arm64) cross=aarch64-linux-gnu-gcc package=gcc-aarch64-linux-gnu libc=libc6-dev-arm64-cross ;;
        *) usage "--arch must be amd64 or arm64, and is '$arch'" ;;
        esac
        shift
        ;;
    *) usage "'$1' is not known" ;;
    esac
    shift
done
# shellcheck source=tests/testbed/flags.sh
. "$here/flags.sh"
# For this machine itself nothing differs from a plain build, the cache's key included.
if [ "$arch" != "$native" ]; then
    export CC="$cross" GOARCH="$arch"
fi

# inputs prints every file a build reads, in an order that no locale changes.
inputs() {
    find . -type f \( -name '*.go' -o -name go.mod -o -name go.sum -o -name build.sh -o -name flags.sh \) ! -name '*_test.go' |
        LC_ALL=C sort
}

key=$(
    cd "$here"
    {
        uname -sm
        [ "$arch" = "$native" ] || echo "for $arch"
        inputs | tr '\n' '\0' | xargs -0 sha256sum
    } | sha256sum | cut -d ' ' -f 1
)
store=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/config-weaver/testbed
cache=$store/$key
binary=$cache/k3s-testbed

if [ -x "$binary" ]; then
    # In use: see the clearing at the end.
    touch "$cache"
    echo "$binary"
    exit 0
fi
[ -z "$cached" ] || exit 3

command -v go >/dev/null 2>&1 ||
    fail "Go is missing (go.mod says which version): install it from your distribution or from https://go.dev/dl and put its bin/ on the PATH"
compiler=$(go env CC)
remedy="apt-get install gcc libc6-dev, or set CC"
[ "$arch" = "$native" ] || remedy="apt-get install $package $libc"
# CC may carry arguments; the first word is the program.
command -v "${compiler%% *}" >/dev/null 2>&1 ||
    fail "the C compiler '${compiler%% *}' is missing (SQLite needs one): $remedy"

mkdir -p "$cache" || fail "cannot create $cache: set XDG_CACHE_HOME to a writable directory"
partial=$(mktemp "$cache/.partial.XXXXXX") || fail "cannot write to $cache"
trap 'rm -f "$partial"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cd "$here"
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) || fail "the Kubernetes module cannot be found, see above"
minor=${kubernetes#v1.}
versions=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    versions="$versions -X $package.gitVersion=$kubernetes+testbed1 -X $package.gitCommit=$key -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean"
done

echo "testbed: building $kubernetes+testbed1 for ${arch:-$(uname -m)} (about 5 minutes with an empty Go cache)" >&2
started=$(date +%s)
go build \
    -ldflags "-s -w -X main.revision=$(echo "$key" | cut -c 1-8)$versions" \
    -o "$partial" . || fail "go build failed, see above"
chmod 0755 "$partial"
mv -f "$partial" "$binary"
# Each change of the sources leaves 190 MB behind; what was used in the last two weeks stays.
find "$store" -mindepth 1 -maxdepth 1 -type d -mtime +14 ! -name "$key" -exec rm -rf {} +
echo "testbed: built in $(($(date +%s) - started)) s" >&2
echo "$binary"
