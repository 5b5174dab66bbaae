# Tools that the tests run, once per machine: sourced by tests/devstack/test.sh and tests/devstack/image_smoke.sh.
# shellcheck shell=bash

# shellcheck source=tests/devstack/apt.sh
. tests/devstack/apt.sh

# The API servers of the tests, kubectl and the compiler collect garbage less often: a fifth of their processor time.
export GOGC=400

nextest_version=0.9.151
# shellcheck disable=SC2034  # test.sh runs it
deny_version=0.20.2
mdbook_version=0.5.4
actionlint_version=1.7.12
# The last of helm 3, whose charts helm 4 reads too.
helm_version=3.22.0
axe_version=4.14.1
axe_sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
# shellcheck disable=SC2034  # laptops.sh runs it
zigbuild_version=0.24.1
# The compiler of C that has what programs for macOS link, and its linker: a package of PyPI.
zig_version=0.17.1
zig_sum=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
tools=${XDG_CACHE_HOME:-$HOME/.cache}/config-weaver/tools
nextest=$tools/cargo-nextest-$nextest_version/bin/cargo-nextest

# tool NAME VERSION: installs a cargo tool once per machine, outside the work tree.
# A lean profile: these run for seconds, and optimising them takes minutes. Nor need nextest renew itself, for which
# it would compile a whole TLS library.
tool() {
  local dir="$tools/$1-$2"
  [[ -x $dir/bin/$1 ]] && return
  rm -rf "$dir" "$dir.new"
  local features=()
  case $1 in
    cargo-nextest) features=(--no-default-features --features default-no-update) ;;
    # Without its server.
    mdbook) features=(--no-default-features --features search) ;;
  esac
  CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_PROFILE_RELEASE_DEBUG=0 cargo install --quiet --locked --root "$dir.new" --version "$2" "${features[@]}" "$1"
  mv "$dir.new" "$dir"
}

# promtool, that of this machine or of Debian's package prometheus, which is not installed: it would start a server.
promtool() {
  local dir=$tools/promtool found
  [[ -x $dir/promtool ]] && return
  rm -rf "$dir" "$dir.new"
  mkdir -p "$dir.new"
  if found=$(type -P promtool); then
    ln -s "$found" "$dir.new/promtool"
  else
    unpack "$dir.new/package" prometheus || {
      echo "promtool is missing and apt-get could not fetch the package prometheus: put promtool on the PATH" >&2
      exit 1
    }
    mv "$dir.new/package/usr/bin/promtool" "$dir.new"
    rm -r "$dir.new/package"
  fi
  mv "$dir.new" "$dir"
}

# actionlint, a Go module, once per machine.
actionlint() {
  local dir=$tools/actionlint-$actionlint_version
  [[ -x $dir/actionlint ]] && return
  rm -rf "$dir" "$dir.new"
  GOBIN=$dir.new go install "github.com/rhysd/actionlint/cmd/actionlint@v$actionlint_version"
  mv "$dir.new" "$dir"
}

# helm, a Go module, once per machine. Not optimised, which saves a third of the minutes that it takes; the version of
# Kubernetes is what a chart is judged by where no API server is asked.
helm() {
  local dir=$tools/helm-$helm_version module=helm.sh/helm/v3
  [[ -x $dir/helm ]] && return
  rm -rf "$dir" "$dir.new"
  CGO_ENABLED=0 GOBIN=$dir.new go install -trimpath -gcflags='all=-N -l' \
    -ldflags "-s -w -X $module/pkg/chartutil.k8sVersionMajor=1 -X $module/pkg/chartutil.k8sVersionMinor=36 \
      -X $module/pkg/lint/rules.k8sVersionMajor=1 -X $module/pkg/lint/rules.k8sVersionMinor=36" \
    "$module/cmd/helm@v$helm_version"
  mv "$dir.new" "$dir"
}

# The chart as it comes, and with each file of values that the tests install.
chart() {
  local values
  for values in deploy/chart/values.yaml tests/fixtures/chart/*.yaml; do
    "$tools/helm-$helm_version/helm" lint --strict --quiet --namespace config-weaver --values "$values" deploy/chart
  done
}

# axe-core, which finds in a page what is wrong for people with other eyes or none: a package of npm, whose only file
# that is used runs in the browser.
axe_core() {
  local dir=$tools/axe-core-$axe_version
  [[ -e $dir/axe.min.js ]] && return
  rm -rf "$dir" "$dir.new"
  mkdir -p "$dir.new"
  (
    cd "$dir.new" || exit
    npm pack --loglevel=error "axe-core@$axe_version" >/dev/null || {
      echo "axe-core $axe_version could not be fetched by npm, see above" >&2
      exit 1
    }
    echo "$axe_sum  axe-core-$axe_version.tgz" | sha256sum --check --status || {
      echo "axe-core: what npm sends is not version $axe_version, and was not kept" >&2
      exit 1
    }
    tar -xzf "axe-core-$axe_version.tgz" --strip-components=1 package/axe.min.js package/LICENSE
    rm "axe-core-$axe_version.tgz"
  )
  mv "$dir.new" "$dir"
}

zig() {
  local dir=$tools/zig-$zig_version
  [[ -x $dir/ziglang/zig ]] && return
  rm -rf "$dir" "$dir.new"
  python3 -m pip install --quiet --no-deps --only-binary :all: --target "$dir.new" --require-hashes \
    --requirement /dev/stdin <<<"ziglang==$zig_version --hash=sha256:$zig_sum" || {
    echo "ziglang $zig_version could not be fetched by pip, or is another file: see above" >&2
    exit 1
  }
  mv "$dir.new" "$dir"
}

# Without shellcheck: a step is one make target.
workflows() { "$tools/actionlint-$actionlint_version/actionlint" -shellcheck= -pyflakes= .github/workflows/*.yml; }

# The book in docs/, into target/book; a page of its table of contents that is missing is an error.
book() { "$tools/mdbook-$mdbook_version/bin/mdbook" build docs; }

nextest() { "$nextest" nextest "$@"; }
