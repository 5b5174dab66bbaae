#!/usr/bin/env bash
# RUSTC_WORKSPACE_WRAPPER of .ci/run: clippy checks what it compiles for this machine's tests, in the same pass. A step
# of its own would compile all of it again, as far as types.
set -euo pipefail
case " $* " in
  # Not what is published, or for another system: clippy turns optimizations of rustc off.
  *' --target '* | *' opt-level='* | *' sancov-module '*) exec "$@" ;;
esac
exec clippy-driver "$@"
