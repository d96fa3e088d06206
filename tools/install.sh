#!/usr/bin/env bash
# Builds the tools of one of this folder's modules, once, and prints the folder that holds their binaries.
#
#   tools/install.sh lint         golangci-lint, gofumpt
#   tools/install.sh test         gotestsum
#   tools/install.sh release      promu
#   tools/install.sh prometheus   prometheus and promtool, v3, without service discovery (a few minutes, once)
#   tools/install.sh axe          axe-core, which checks a page's accessibility in the browser (npm)
#   tools/install.sh debian       prometheus and promtool, v2, unpacked from the Debian package (apt, nothing installed)
#
# Versions are pinned by each module's go.mod and go.sum. Binaries are kept under ${OMNI_TOOLS_CACHE:-~/.cache/...},
# keyed by a hash of these two files and of the Go version, so a changed pin builds anew and an unchanged one never.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${OMNI_TOOLS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/omni_exporter-tools}
name=${1:-}

# publish moves a finished folder into place; losing a race against another build of the same key is no error.
publish() {
  local from=$1 to=$2
  mv -T "$from" "$to" 2>/dev/null || { rm -rf "$from"; [ -d "$to" ]; }
}

install_go() {
  local module=$1 key dir tmp path flags=()
  key=$(cd "$here/$module" && { cat go.mod go.sum; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16)
  dir=$cache/$module-$key
  if [ ! -d "$dir" ]; then
    echo "tools: building $module (kept in $dir)" >&2
    mkdir -p "$cache"
    tmp=$(mktemp -d "$cache/.build-XXXXXX")
    # The server's cloud discovery mechanisms are most of its code and none of what the tests use.
    [ "$module" = prometheus ] && flags=(-tags remove_all_sd)
    (
      cd "$here/$module"
      for path in $(go list -mod=readonly "${flags[@]}" tool); do
        go build -mod=readonly -trimpath -ldflags '-s -w' "${flags[@]}" -o "$tmp/" "$path" >&2
      done
    ) || { rm -rf "$tmp"; exit 1; }
    publish "$tmp" "$dir"
  fi
  echo "$dir"
}

install_debian() {
  local dir=$cache/debian tmp
  if [ ! -x "$dir/usr/bin/prometheus" ]; then
    command -v apt-get >/dev/null || { echo "tools: the Debian package needs apt-get" >&2; exit 1; }
    echo "tools: unpacking Debian's prometheus (kept in $dir)" >&2
    mkdir -p "$cache"
    tmp=$(mktemp -d "$cache/.build-XXXXXX")
    # apt's own sandbox user cannot write into a folder of root's: the warning about that is of no use.
    (
      cd "$tmp"
      apt-get download -o APT::Sandbox::User=root prometheus >&2 ||
        { apt-get update -qq >&2 && apt-get download -o APT::Sandbox::User=root prometheus >&2; }
      dpkg -x prometheus_*.deb unpacked
    ) || { rm -rf "$tmp"; exit 1; }
    publish "$tmp/unpacked" "$dir"
    rm -rf "$tmp"
  fi
  echo "$dir/usr/bin"
}

# install_axe prints the folder that holds axe.min.js.
install_axe() {
  local key dir tmp
  key=$(sha256sum "$here/axe/package-lock.json" | cut -c1-16)
  dir=$cache/axe-$key
  if [ ! -d "$dir" ]; then
    command -v npm >/dev/null || { echo "tools: axe-core needs npm" >&2; exit 1; }
    echo "tools: getting axe-core (kept in $dir)" >&2
    mkdir -p "$cache"
    tmp=$(mktemp -d "$cache/.build-XXXXXX")
    cp "$here/axe/package.json" "$here/axe/package-lock.json" "$tmp/"
    (cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund --silent >&2) || { rm -rf "$tmp"; exit 1; }
    publish "$tmp" "$dir"
  fi
  echo "$dir/node_modules/axe-core"
}

case $name in
lint | test | release | prometheus) install_go "$name" ;;
debian) install_debian ;;
axe) install_axe ;;
*)
  sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
  ;;
esac
