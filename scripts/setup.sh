# Shared by scripts/run and scripts/test: installs what is missing. Sourced, not run.

# Prints a heading, and how long the step before it took.
step() {
  local now=$SECONDS
  [ -n "${STEP_NAME:-}" ] && echo "-- $STEP_NAME took $((now - STEP_START)) s"
  STEP_NAME=$1 STEP_START=$now
  [ -n "$1" ] && printf '\n== %s\n' "$1"
  return 0
}

# Installs the Debian packages among the arguments that are not there yet.
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing ${missing[*]}"
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

BUILD_PACKAGES=(g++ cmake ninja-build ccache libhwy-dev libexpected-dev libtbb-dev)

# Clones share what was compiled: paths are taken from the clone's root.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Configures and builds a preset out of tree: build_preset PRESET [cmake options ...]
build_preset() {
  local preset=$1
  shift
  cmake --preset "$preset" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache "$@" >/dev/null
  cmake --build --preset "$preset" | tail -n 1
}

# Unpacks arm64 packages of the libraries into a folder, without installing them: fetch_arm64 FOLDER PACKAGE ...
fetch_arm64() {
  local root=$1
  shift
  [ -e "$root/complete" ] && return 0
  mkdir -p "$root"/{lists/partial,cache/archives/partial,packages}
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=
    -o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache" -o Dir::State::status=/dev/null)
  "${apt[@]}" update
  (cd "$root/packages" && "${apt[@]}" download "$@" >/dev/null)
  local package
  for package in "$root"/packages/*.deb; do dpkg -x "$package" "$root"; done
  touch "$root/complete"
}
