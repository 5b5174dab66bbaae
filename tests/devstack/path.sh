# shellcheck shell=sh
# Rust and Go as prerequisites.sh puts them into the cache, ahead of the machine's own: sourced,
# from the top of the work tree, by whatever runs them. There is nothing in these directories where the machine's own
# do. WEAVER_TOOLS=system leaves them out.
rust_version=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
go_version=1.26.8
toolchains=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/config-weaver/toolchains
rust_dir=$toolchains/rust/toolchains/$rust_version-$(uname -m)-unknown-linux-gnu
go_dir=$toolchains/go/$go_version
[ "${WEAVER_TOOLS-}" = system ] || PATH=$rust_dir/bin:$go_dir/bin:$PATH
# Of a user who is not root it may lack where mkfs and its like are.
export PATH="$PATH:/usr/sbin:/sbin"
