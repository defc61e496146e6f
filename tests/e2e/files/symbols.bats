#!/usr/bin/env bats
# Symbols by the commands: where files are looked for, what is said, what readers make of it.

bats_require_minimum_version 1.5.0

load ../lib/keep

# Symbols for bare.trace by the environment given; the report's sites.
sites() {
    traceconv symbolize bare.trace symbols 2>err
    cat bare.trace symbols >both
    heapwise report both
}

@test "record: files and lines by itself, inlined functions as nodes" {
    run -0 heapwise record -i 1 -o auto.trace -- full/keep
    has "make < fill  (src/keep.c:5)"
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
        has "make < fill  (src/keep.c:5)"
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
    has "make < fill  (src/keep.c:5)"
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

@test "Breakpad: what is wrong in a file is told, and other symbols are used" {
    mkdir -p damaged
    printf 'MODULE Linux x86_64 0 keep\nFUNC zz 1 0 f\n' >"damaged/$ID.breakpad"
    BREAKPAD_SYMBOL_DIR=damaged PERFETTO_BINARY_PATH=full run -0 sites
    has "make < fill  (src/keep.c:5)"
    grep -q "damaged/$ID.breakpad: line 2: " err
}

@test "debug info in a file of its own, named by a link" {
    mkdir -p linked/.debug
    objcopy --only-keep-debug full/keep linked/.debug/keep.dbg
    strip -o linked/keep full/keep
    (cd linked/.debug && objcopy --add-gnu-debuglink=keep.dbg ../keep)
    PERFETTO_BINARY_PATH=linked run -0 sites
    has "make < fill  (src/keep.c:5)"
    cp /bin/true linked/.debug/keep.dbg
    PERFETTO_BINARY_PATH=linked run -0 sites
    [[ $output != *keep.c* ]]
}

@test "llvm-symbolizer: the same packets; one that dies or talks nonsense is done without" {
    PERFETTO_BINARY_PATH=full traceconv symbolize bare.trace by-libdw
    if command -v llvm-symbolizer; then
        # Of our own program, that is: of libc's aliases the two choose different ones.
        PERFETTO_BINARY_PATH=full traceconv symbolize --symbolizer llvm-symbolizer bare.trace by-llvm
        for made in by-libdw by-llvm; do
            cat bare.trace $made | heapwise query - \
                "select name, source_file, line_number, inlined from stack_profile_symbol
                 where source_file like '%keep.c'" >$made.csv
        done
        cmp by-libdw.csv by-llvm.csv
        [ "$(wc -l <by-libdw.csv)" = 4 ]
    fi
    printf '#!/bin/sh\nread x; echo nonsense; cat\n' >nonsense
    printf '#!/bin/sh\nread x; kill -9 $$\n' >dies
    chmod +x nonsense dies
    for program in ./nonsense ./dies /bin/false ./none; do
        PERFETTO_BINARY_PATH=full run -0 traceconv symbolize --symbolizer $program bare.trace by-us
        has "$program"
        has "going on without it"
        cmp by-libdw by-us
    done
}

@test "the environment counts for every command that reads" {
    export PERFETTO_BINARY_PATH=full
    run -0 heapwise report bare.trace
    has "make < fill  (src/keep.c:5)"
    run -0 heapwise tree bare.trace
    has "make"
    for command in "heapwise query bare.trace" "trace_processor_shell query bare.trace"; do
        run -0 $command "select source_file from stack_profile_symbol where name = 'make'"
        has "src/keep.c"
    done
    run -0 heapwise convert -t folded bare.trace
    has "main;fill;make"
    unset PERFETTO_BINARY_PATH
    run -0 heapwise report --symbols full bare.trace
    has "make < fill  (src/keep.c:5)"
}

@test "bundle: one archive, read wherever a trace is" {
    run -0 heapwise bundle --symbols full bare.trace one.tar
    has "Wrote one.tar."
    run -0 tar tf one.tar
    [ "$output" = $'trace.perfetto\nsymbols.pb' ]
    tar xOf one.tar trace.perfetto | cmp - bare.trace
    run -0 heapwise report one.tar
    has "make < fill  (src/keep.c:5)"
    gzip -kf one.tar
    run -0 heapwise query one.tar.gz "select count(*) as n from stack_profile_symbol where name = 'make'"
    has 1
    # Archives by others: order, names and packing as they like.
    mkdir -p parts && tar xf one.tar -C parts
    gzip -f parts/trace.perfetto
    (cd parts && tar --format=pax -cf ../two.tar symbols.pb ./trace.perfetto.gz)
    run -0 heapwise report two.tar
    has "make < fill  (src/keep.c:5)"
}

@test "bundle: flags, and what is refused" {
    printf 'com.example.Cache -> a.b:\n    void insert(int) -> c\n' >map.txt
    run -0 traceconv bundle --no-auto-symbol-paths --proguard-map com.example=map.txt bare.trace one.tar
    has "Could not find $BOX/app/keep (Build ID: $ID)."
    run -0 tar tf one.tar
    [ "$output" = $'trace.perfetto\ndeobfuscation.pb' ]
    run -0 traceconv bundle --no-auto-symbol-paths --symbol-paths full,r2 bare.trace one.tar
    run -0 tar tf one.tar
    has symbols.pb
    printf 'nonsense\n' >map.txt
    run -1 heapwise bundle --proguard-map map.txt bare.trace bad.tar
    has "line 1"
    [ ! -e bad.tar ]
    PERFETTO_PROGUARD_MAP=a=map.txt run -0 heapwise bundle bare.trace fine.tar
    has "going on without it"
    run -1 traceconv bundle bare.trace
    run -1 heapwise bundle bare.trace bare.trace
    has "is the trace itself"
    run -1 traceconv text --symbol-paths full bare.trace
    tar cf empty.tar src
    run -1 heapwise report empty.tar
    has "contains no trace"
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
    # Read by us and written again, with and without addresses, it has the same lines.
    heapwise convert -t pprof more.pb.gz again.pb.gz
    for what in "-lines -top" "-list=." "-lines -traces"; do
        for file in more again; do
            go tool pprof $what -sample_index=space $file.pb.gz 2>/dev/null >$file.said
        done
        grep -q 'keep.c' more.said
        diff more.said again.said
    done
}

# A libdw that breaks on a line table, whoever loads it.
breaking_libdw() {
    echo '#include <stdlib.h>
int dwarf_getsrcfiles(void) { abort(); }' >break.c
    gcc -shared -fPIC -o break.so break.c
}

@test "debug info that breaks libdw costs its lines, not the command" {
    breaking_libdw
    for command in "heapwise report" "heapwise tree" "traceconv profile" "heapwise stats"; do
        mkdir -p profiles
        rm -rf profiles/*
        [[ $command != *profile ]] || command="$command --output-dir profiles/x"
        LD_PRELOAD=$BOX/break.so PERFETTO_BINARY_PATH=full run --separate-stderr $command bare.trace
        echo "$command: $status $stderr" # shown when it fails
        [ "$status" -eq 0 ]
        [[ $command == *stats ]] && continue
        [[ $stderr == *"full/keep': the process that read its debug info died (Aborted)"* ]]
        [[ $stderr == *"addresses have no lines"* ]]
    done
    LD_PRELOAD=$BOX/break.so PERFETTO_BINARY_PATH=full run -0 heapwise report bare.trace
    has fill
    LD_PRELOAD=$BOX/break.so run -0 heapwise record -q -i 1 -o broken.trace -- full/keep
    run -0 heapwise report broken.trace
    has fill
}

@test "a FIFO in the place of split debug info is passed over" {
    gcc -g -gsplit-dwarf -O2 -Wl,--build-id -o split -DSPLIT src/keep.c
    heapwise record -q -i 1 --no-symbolize -o split.trace -- ./split
    rm -f ./*.dwo
    dwo=$(readelf --debug-dump=info split 2>/dev/null | sed -n 's/.*DW_AT_\(GNU_\)\?dwo_name.*: //p' | head -1)
    mkfifo "$dwo"
    mkdir -p fifo
    mv split fifo/
    PERFETTO_BINARY_PATH=fifo run -0 timeout 20 heapwise report split.trace
    has fill
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

@test "json: processes and counters as chrome://tracing opens them" {
    command -v jq >/dev/null || skip "no jq"
    traceconv json bare.trace bare.json
    run -0 jq -c '[.traceEvents[] | select(.ph == "C" and .name == "libc.malloc")][-1].args' bare.json
    has '"live_bytes":1000000,"live_objects":1000'
    run -0 jq -r '.traceEvents[] | select(.ph == "M").name' bare.json
    has process_name
    run -0 jq -c '[.traceEvents[] | select(.ph == "v")][-1].args.dumps.allocators' bare.json
    has '{"malloc":{"attrs":{"size":{"type":"scalar","units":"bytes","value":"f4240"},"object_count":'
    run -1 traceconv systrace bare.trace
    has "a heap profile records neither"
}

# The address that a memory-infra trace says of a mapping's first byte is that of the ELF file, which is neither where it is in
# the file nor where it is in the process.
@test "symbolize_trace: what a recording left as addresses, wherever the program is linked to" {
    cat >deep.c <<'C'
#include <stdlib.h>
__attribute__((noinline)) static void *inner(int n) { void *p = malloc(n); __asm__ volatile("" ::"r"(p)); return p; }
__attribute__((noinline)) static void *outer(int n) { void *p = inner(n); __asm__ volatile("" ::"r"(p)); return p; }
int main(void) { for (int i = 0; i < 100; i++) outer(1000); return 0; }
C
    mkdir -p linked
    for how in -pie -no-pie "-pie -Wl,-Ttext-segment=0x7000000" "-no-pie -Wl,-Ttext-segment=0x7000000"; do
        gcc -g -O1 $how -o linked/deep deep.c
        strip -o deep linked/deep
        rm -f deep.json*
        run -0 heapwise record -q -f -i 1 --no-symbolize --memory-infra deep.json -o deep.trace -- ./deep
        grep -q pc: deep.json
        run -0 symbolize_trace --output-directory linked deep.json
        run -0 heapwise infra -q --by backtrace deep.json
        tr -s ' ' <<<"$output" | grep -A2 'ƒ main$' | grep -A1 ' 100000 100 ƒ outer$' | grep ' 100000 100 ƒ inner$'
    done
}
