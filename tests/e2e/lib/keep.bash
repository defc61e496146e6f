# A box with a program whose debug info is separate: full/keep has it, app/keep is stripped, bare.trace
# is a recording of the latter, ID its build id. Loaded by the tests of symbols.

setup_file() {
    BUILD=${HW_BUILD:-$BATS_TEST_DIRNAME/../../../build}
    BUILD=$(cd "$BUILD" && pwd)
    export BUILD PATH=$BUILD/src/cli:$PATH
    BOX=$(mktemp -d)
    export BOX HOME=$BOX TMPDIR=$BOX XDG_CACHE_HOME=$BOX/cache NO_COLOR=1
    unset LD_PRELOAD PERFETTO_BINARY_PATH PERFETTO_SYMBOLIZER_MODE BREAKPAD_SYMBOL_DIR \
        PERFETTO_PROGUARD_MAP DEBUGINFOD_URLS
    command -v objcopy >/dev/null || skip "no objcopy"
    cd "$BOX"
    mkdir src app full
    cat >src/keep.c <<'END'
#include <stdlib.h>
void *kept[1000];
static inline __attribute__((always_inline)) void *make(size_t n)
{
    return malloc(n);
}
__attribute__((noinline)) void fill(void)
{
    for (int i = 0; i < 1000; i++)
        kept[i] = make(1000);
}
int main(void)
{
    fill();
    return kept[999] == 0;
}
END
    gcc -g -O2 -Wl,--build-id -o full/keep src/keep.c
    strip -o app/keep full/keep
    heapwise record -q -i 1 --no-symbolize -o bare.trace -- app/keep
    ID=$(readelf -n full/keep | sed -n 's/.*Build ID: //p')
    export ID
}

# Checks that all traces still follow the format's rules, whatever symbols, names and packets were added.
teardown_file() {
    cd /
    python3 -B "$BATS_TEST_DIRNAME/../lib/checked.py" "$BUILD/src/cli/heapwise" "$BOX" || return 1
    rm -rf "$BOX"
}

setup() {
    cd "$BOX"
}

has() { [[ $output == *"$1"* ]] || { echo "no '$1' in: $output"; return 1; }; }
