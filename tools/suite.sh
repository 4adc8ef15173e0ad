# Sourced by ./dev: the parts of `./dev test` and their sums.

total_passed=0 total_failed=0 total_skipped=0
summary=()

# record NAME PASSED FAILED SKIPPED SECONDS
record() {
  total_passed=$((total_passed + $2)) total_failed=$((total_failed + $3)) total_skipped=$((total_skipped + $4))
  local colour=$green
  (($3 == 0)) || colour=$red
  summary+=("$(printf '%-8s %s%5d passed, %d failed, %d skipped%s   %dm %02ds' \
    "$1" "$colour" "$2" "$3" "$4" "$plain" $(($5 / 60)) $(($5 % 60)))")
}

cmd_test() {
  local quick=false parts=() filter=() fuzz_seconds=60
  while (($#)); do
    case $1 in
      --quick) quick=true; shift ;;
      --only | --filter | --fuzz-seconds)
        (($# > 1)) || usage_error "$1 wants a value" test
        case $1 in
          --only)
            [[ $2 =~ ^(release|asan|arm|fuzz|check)$ ]] || usage_error "no part $2" test
            parts+=("$2")
            ;;
          --filter) filter=(-R "$2") ;;
          --fuzz-seconds)
            [[ $2 =~ ^[1-9][0-9]*$ ]] || usage_error "--fuzz-seconds wants a number" test
            fuzz_seconds=$2
            ;;
        esac
        shift 2
        ;;
      *) usage_error "unknown option $1" test ;;
    esac
  done
  if ((${#parts[@]} == 0)); then
    parts=(release asan)
    can_cross_build && parts+=(arm)
    parts+=(fuzz check)
    $quick && parts=(release check)
  fi

  # One look for packages, before anything is built. Only a long test opens the status page in a browser.
  local more=()
  if ! $quick && [[ " ${parts[*]} " == *" release "* ]]; then more+=(browser); fi
  if [[ " ${parts[*]} " == *" arm "* ]]; then more+=(aarch64); fi
  need_packages build test python demo check fuzz "${more[@]}"
  need_venv
  need_models

  local part started
  for part in "${parts[@]}"; do
    started=$SECONDS
    case $part in
      release)
        section "release: $($quick && echo 'suite without long model runs' || echo 'whole suite')"
        if $quick; then suite release -LE long "${filter[@]}"; else suite release "${filter[@]}"; fi
        ;;
      asan)
        section "asan: suite without long model runs, address and undefined-behaviour sanitizers"
        suite asan -LE long "${filter[@]}"
        ;;
      arm)
        section "arm: kernels, operators and sessions built for 64-bit Arm, under qemu"
        arm_suite "${filter[@]}"
        ;;
      fuzz)
        section "fuzz: ${fuzz_seconds} s for each target"
        fuzz "$fuzz_seconds"
        ;;
      check)
        section "check: the source tree's habits"
        source_checks
        ;;
    esac
    record "$part" "$passed" "$failed" "$skipped" $((SECONDS - started))
  done

  section summary
  printf '%s\n' "${summary[@]}"
  echo
  echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
  ((total_failed == 0))
}

# The parts below set passed, failed, skipped and never end the script.

# suite PRESET [CTEST OPTION...]
suite() {
  passed=0 failed=0 skipped=0
  build "$1" || { echo "build of $1 failed"; failed=1; return; }
  run_suite "$@"
}

# arm_suite [CTEST OPTION...]: the rooms that compute, whole. Serving is long to compile and knows
# nothing of the processor; the scripts that start `parallax` would need the emulator.
arm_suite() {
  local targets=({base,threads,kernels,onnx,passes,plan,runtime,api}_test ops_cases_test node_cases_test)
  passed=0 failed=0 skipped=0
  if ! command -v aarch64-linux-gnu-g++ >/dev/null; then  # with PARALLAX_SETUP=skip only
    echo "no cross-compiler for 64-bit Arm"
    skipped=1
    return
  fi
  build aarch64 "${targets[@]}" || { echo "build of aarch64 failed"; failed=1; return; }
  run_suite aarch64 -E '^(router|server)[/_]' "$@"
}

# run_suite PRESET [CTEST OPTION...]: what is built.
run_suite() {
  local preset=$1 status=0 results="$PWD/build/$1/ctest.xml"
  shift
  rm -f "$results"
  export ASAN_OPTIONS="allocator_may_return_null=1:detect_stack_use_after_return=1"
  export UBSAN_OPTIONS="print_stacktrace=1"
  ctest --test-dir "build/$preset" -j 2 --timeout 900 --output-on-failure --no-tests=error \
    --output-junit "$results" "$@" | quiet_ctest || status=1
  if [[ ! -s $results ]]; then
    failed=1
    return
  fi
  local all
  all=$(suite_count "$results" tests)
  failed=$(suite_count "$results" failures)
  skipped=$(($(suite_count "$results" skipped) + $(suite_count "$results" disabled)))
  passed=$((all - failed - skipped))
  # Programs that ctest could not start count as skipped in its file; its status tells.
  if ((status && failed == 0)); then failed=1; fi
}

suite_count() { grep -om1 "\b$2=\"[0-9]*\"" "$1" | tr -dc 0-9; }

# Leaves out the start of each test and those that passed within five seconds.
quiet_ctest() {
  awk '/^ *Start +[0-9]+: / { next }
       / Test +#[0-9]+: .* Passed +[0-9.]+ sec/ { if ($(NF - 1) < 5) { quick++; next } }
       /tests passed, / { if (quick) print quick " tests passed in under 5 s each" }
       { print; fflush() }'
}

# fuzz SECONDS: every program fuzz_* of the preset `fuzz`.
fuzz() {
  local seconds=$1 target targets=()
  passed=0 failed=0 skipped=0
  if ! compgen -G 'tests/fuzz/*.cc' >/dev/null; then
    echo "no fuzz target in tests/fuzz yet"
    return
  fi
  configure fuzz || { echo "configuring fuzz failed"; failed=1; return; }
  mapfile -t targets < <(ninja -C build/fuzz -t targets all | sed -n 's/^\(fuzz_[a-z0-9_]*\): .*EXECUTABLE.*/\1/p')
  if ((${#targets[@]} == 0)); then
    echo "tests/fuzz has sources, but the preset builds no fuzz_* program"
    failed=1
    return
  fi
  build fuzz "${targets[@]}" || { echo "build of fuzz failed"; failed=1; return; }
  node_seeds build/fuzz/seeds/fuzz_import
  for target in "${targets[@]}"; do
    local corpus="build/fuzz/corpus/$target" crashes="build/fuzz/crashes/$target" log="build/fuzz/$target.log"
    local seeds=() folder
    for folder in {tests,build}/fuzz/seeds/"$target"; do
      [[ -d $folder ]] && seeds+=("$folder")
    done
    mkdir -p "$corpus" "$crashes"
    if "build/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 -max_len=65536 \
      -print_final_stats=1 -artifact_prefix="$crashes/" "$corpus" "${seeds[@]}" </dev/null >"$log" 2>&1; then
      passed=$((passed + 1))
      echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, nothing found"
    else
      failed=$((failed + 1))
      echo "$target: FAILED, see $log"
      grep -E 'ERROR|SUMMARY|runtime error|Test unit written|    #[0-9] ' "$log" | head -n 30
      echo "again: build/fuzz/$target FILE"
    fi
  done
}

# node_seeds FOLDER: the models of ONNX's operator cases, one file each.
node_seeds() {
  local folder=$1 model name
  [[ -f $folder/.complete ]] && return
  mkdir -p "$folder"
  for model in /usr/share/libonnx-testdata/data/node/*/model.onnx; do
    name=${model%/model.onnx}
    cp "$model" "$folder/${name##*/}.onnx"
  done
  touch "$folder/.complete"
}

source_checks() {
  passed=0 failed=0 skipped=0
  local run
  for run in "tools/check --self-test" "tools/check"; do
    if $run; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  done
}
