#!/usr/bin/env bats
# Symbols by the commands: where files are looked for, what is said, what readers make of it.

bats_require_minimum_version 1.5.0

setup_file() {
    BUILD=${HW_BUILD:-$BATS_TEST_DIRNAME/../../build}
    BUILD=$(cd "$BUILD" && pwd)
    export BUILD PATH=$BUILD/src/cli:$PATH
    BOX=$(mktemp -d)
    export BOX HOME=$BOX TMPDIR=$BOX XDG_CACHE_HOME=$BUILD/cache NO_COLOR=1
    unset LD_PRELOAD PERFETTO_BINARY_PATH PERFETTO_SYMBOLIZER_MODE BREAKPAD_SYMBOL_DIR PERFETTO_PROGUARD_MAP
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

teardown_file() {
    cd /
    rm -rf "$BOX"
}

setup() {
    cd "$BOX"
}

has() { [[ $output == *"$1"* ]] || { echo "no '$1' in: $output"; return 1; }; }

# Symbols for bare.trace by the environment given; the report's sites.
sites() {
    traceconv symbolize bare.trace symbols 2>err
    cat bare.trace symbols >both
    heapwise report both
}

@test "record: files and lines by itself, inlined functions as nodes" {
    run -0 heapwise record -i 1 -o auto.trace -- full/keep
    has "make  (src/keep.c:5)"
    run -0 heapwise tree auto.trace
    has "fill"
    has "make"
    run -0 heapwise record -i 1 --no-symbolize -o plain.trace -- full/keep
    [[ $output != *keep.c* ]]
}

@test "the places of a root: whole path, name, build id" {
    mkdir -p r1"$BOX"/app r2 r3/.build-id/"${ID:0:2}"
    cp full/keep r1"$BOX"/app/keep
    cp full/keep r2/keep
    objcopy --only-keep-debug full/keep r3/.build-id/"${ID:0:2}"/"${ID:2}".debug
    for root in r1 r2 r3 nowhere:r3; do
        PERFETTO_BINARY_PATH=$root run -0 sites
        has "make  (src/keep.c:5)"
    done
}

@test "another build of that name does not count, and is told" {
    mv app/keep app/keep.away
    mkdir -p other
    gcc -g -O1 -Wl,--build-id -o other/keep src/keep.c
    PERFETTO_BINARY_PATH=other run -0 sites
    mv app/keep.away app/keep
    [[ $output != *keep.c* ]]
    grep -q "Could not find $BOX/app/keep (Build ID: $ID)." err
    grep -q "another build is at other/.*keep (Build ID: " err
}

@test "index: by build id alone, past pipes and loops" {
    mkdir -p tree/deep
    cp full/keep tree/deep/some-name
    mkfifo tree/pipe
    ln -sfn .. tree/deep/loop
    PERFETTO_BINARY_PATH=tree PERFETTO_SYMBOLIZER_MODE=index run -0 sites
    has "make  (src/keep.c:5)"
    PERFETTO_SYMBOLIZER_MODE=guess run -1 traceconv symbolize bare.trace symbols
    has "neither find nor index"
}

@test "Breakpad's files" {
    mkdir -p breakpad
    start=$(nm full/keep | sed -n 's/^0*\([0-9a-f]*\) T fill$/\1/p')
    printf 'MODULE Linux x86_64 0 keep\nFILE 3 /away/keep.c\nFUNC %s 100 0 fill_of_breakpad\n%s 100 77 3\n' \
        "$start" "$start" >"breakpad/${ID^^}.breakpad"
    BREAKPAD_SYMBOL_DIR=breakpad run -0 sites
    has "fill_of_breakpad  (away/keep.c:77)"
}

@test "symbols and lines as go's pprof reads them" {
    cp bare.trace more.trace
    PERFETTO_BINARY_PATH=full run -0 heapwise symbolize more.trace
    has "symbolized"
    heapwise convert -t pprof more.trace more.pb.gz
    command -v go >/dev/null || skip "no go"
    run -0 go tool pprof -lines -top -sample_index=space more.pb.gz
    has "make $BOX/src/keep.c:5"
    has "fill $BOX/src/keep.c:10"
}

@test "heap_profile: symbols and symbolized-trace beside raw-trace" {
    mkdir out
    PERFETTO_BINARY_PATH=full run -0 heap_profile host -i 1 -o out -- app/keep
    cat out/raw-trace out/symbols | cmp - out/symbolized-trace
    run -0 heapwise report out/symbolized-trace
    has "src/keep.c:5"
}

@test "deobfuscate: a map, and what is no map" {
    printf 'com.example.Cache -> a.b:\n    void insert(int) -> c\n' >map.txt
    PERFETTO_PROGUARD_MAP=com.example=map.txt traceconv deobfuscate bare.trace names
    run -0 traceconv text names
    has 'deobfuscated_name: "com.example.Cache"'
    has 'package_name: "com.example"'
    PERFETTO_PROGUARD_MAP=com.example run -1 traceconv deobfuscate bare.trace names
    has "package=file"
    printf 'com.example.Cache -> a.b:\nnonsense\n' >map.txt
    PERFETTO_PROGUARD_MAP=com.example=map.txt run -1 traceconv deobfuscate bare.trace names
    has "line 2"
}
