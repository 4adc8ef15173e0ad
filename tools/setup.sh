# Sourced by ./dev, in the root of the tree: Debian packages, the Python venv, models, CMake.

# By what needs them. The program itself needs `build` only; its CMake lists the tests too.
packages_build="cmake ninja-build ccache g++ pkg-config libhwy-dev libprotobuf-dev protobuf-compiler
  libonnx-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libfmt-dev libzip-dev libboost-dev"
packages_test="curl libgtest-dev libgmock-dev libonnx-testdata"
packages_python="python3 python3-venv"
# For the long tests only: with what it needs 600 MB, more than all of the above.
packages_browser="chromium"
packages_demo="espeak-ng fonts-dejavu-core"
packages_check="git python3 clang-format"
packages_fuzz="clang libclang-rt-14-dev"
packages_bench="libbenchmark-dev"
# libonnx-dev:arm64 collides with libonnx-dev: the headers are the host's, the library libonnx1's.
packages_aarch64="g++-aarch64-linux-gnu qemu-user-static libhwy-dev:arm64 libprotobuf-dev:arm64
  libonnx1:arm64 libfmt-dev:arm64 libzip-dev:arm64 libtomlplusplus-dev:arm64 libgtest-dev:arm64
  libgmock-dev:arm64"

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
else
  bold='' red='' green='' plain=''
fi

section() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

# need_packages GROUP...: all packages of the groups are installed when it returns; else exit 2.
need_packages() {
  [[ ${PARALLAX_SETUP:-} == skip ]] && return
  local group name wanted=() missing=()
  for group in "$@"; do
    name="packages_$group"
    read -r -d '' -a names <<<"${!name}" || true
    wanted+=("${names[@]}")
  done

  if ! is_debian; then
    echo "dev: this is not Debian; it would run" >&2
    echo "  apt-get install --no-install-recommends ${wanted[*]}" >&2
    echo "Install the like of these, then set PARALLAX_SETUP=skip." >&2
    exit 2
  fi

  local installed
  # dpkg-query exits 1 where it does not know one of the names; the others are still listed.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n${db:Status-Status} ${Package}:${Architecture}\n' \
    "${wanted[@]}" 2>/dev/null || true)
  for name in "${wanted[@]}"; do
    [[ " ${missing[*]} " == *" $name "* ]] || grep -qxF "installed $name" <<<"$installed" || missing+=("$name")
  done
  ((${#missing[@]})) || return 0

  local commands=("apt-get update" "apt-get install -y --no-install-recommends ${missing[*]}")
  if [[ " ${missing[*]} " == *:arm64\ * ]] && ! dpkg --print-foreign-architectures | grep -qx arm64; then
    commands=("dpkg --add-architecture arm64" "${commands[@]}")
  fi
  if ((EUID != 0)); then
    echo "dev: packages are missing; as root, run" >&2
    printf '  %s\n' "${commands[@]}" >&2
    exit 2
  fi
  section "packages: ${missing[*]}"
  local command log
  log=$(mktemp)
  for command in "${commands[@]}"; do
    # Waits for another apt-get to finish; asks nothing; is quiet but for errors.
    DEBIAN_FRONTEND=noninteractive ${command/apt-get/apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0} \
      </dev/null >"$log" 2>&1 || {
      tail -n 30 "$log" >&2
      echo "dev: \`$command\` failed" >&2
      exit 1
    }
  done
  rm -f "$log"
}

# On an Arm machine the release build is the Arm build, and the packages of `aarch64` collide with its own.
can_cross_build() { [[ $(uname -m) == x86_64 ]]; }

is_debian() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null &&
    grep -qE '^ID(_LIKE)?=.*debian' /etc/os-release 2>/dev/null
}

# need_venv: .venv holds exactly requirements-dev.txt. Its stamp is written last, so an interrupted
# install starts again.
need_venv() {
  local stamp=.venv/.requirements.sha256 wanted
  wanted=$(sha256sum <requirements-dev.txt)
  [[ -x .venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]] && return
  section "Python packages in .venv"
  new_venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-dev.txt
  echo "$wanted" >"$stamp"
}

# need_peers: .venv-peers holds what can be installed of bench/peers/requirements.txt. The benchmark says
# which rival is not there and goes on with the others.
need_peers() {
  local list=bench/peers/requirements.txt stamp=.venv-peers/.requirements.sha256 wanted line
  wanted=$(sha256sum <"$list")
  [[ -x .venv-peers/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]] && return
  section "rivals' Python packages in .venv-peers"
  new_venv .venv-peers
  while read -r line; do
    [[ -z $line || $line == \#* ]] && continue
    .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$line" </dev/null ||
      echo "dev: $line cannot be installed; remove .venv-peers to try again" >&2
  done <"$list"
  echo "$wanted" >"$stamp"
}

# new_venv FOLDER: an empty one, of the distribution's Python, whatever else is in PATH.
new_venv() {
  local python=python3
  [[ -x /usr/bin/python3 ]] && python=/usr/bin/python3
  rm -rf "$1"
  "$python" -m venv "$1"
}

need_models() {
  .venv/bin/python models/materialize.py
  .venv/bin/python models/fetch_trained.py
}

# configure PRESET [CMAKE OPTION...]: always with options, else only where the presets or .venv (whose
# presence decides which tests there are) are newer.
configure() {
  local preset=$1 folder="build/$1"
  shift
  if (($#)) || [[ ! -f $folder/build.ninja || CMakePresets.json -nt $folder/CMakeCache.txt ||
    .venv/.requirements.sha256 -nt $folder/CMakeCache.txt ]]; then
    cmake --preset "$preset" "$@" && touch "$folder/CMakeCache.txt"
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  configure "$preset" && cmake --build "build/$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}

build_kernel_benchmarks() {
  configure release -DPARALLAX_BENCH=ON && build release
}
