# shellcheck shell=sh
# Flags of every Go build of the testbed, so that build, vet and tests share what is compiled:
# sourced by tests/testbed/build.sh and tests/devstack/test.sh. No one steps through Kubernetes: without its debug
# information, and with SQLite's one large file less optimised, a cold build is a fifth shorter. Line numbers in a panic
# stay. The compiler collects no garbage below the limit, for another fifth.
export CGO_ENABLED=1 CGO_CFLAGS='-O1 -g0' GOFLAGS='-trimpath -buildvcs=false -gcflags=all=-dwarf=false'
export GOGC=off GOMEMLIMIT=2GiB
