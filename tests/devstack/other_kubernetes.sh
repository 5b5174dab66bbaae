#!/usr/bin/env bash
# The libraries for other programs build with each version of Kubernetes that k8s-openapi has at both ends, so none of
# them chooses one (`v1_*`): two such features at once do not compile. A new library is a word in `libraries`.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Of .ci/run: what a lint advises about the types of one version is wrong with the other.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
libraries=(weaver-api weaver-client weaver-tenant)

selected=()
for library in "${libraries[@]}"; do selected+=(-p "$library"); done
for version in earliest latest; do
  # One invocation for all: each has the feature by its dependency on k8s-openapi, or by that of another one here.
  cargo check --locked --quiet --lib "${selected[@]}" --features "k8s-openapi/$version"
  echo "== ${libraries[*]}: built with k8s-openapi/$version ($SECONDS s so far)"
done
