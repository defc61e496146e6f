#!/usr/bin/env bats
# Where debug info may be, and what symbols can say: servers, packed symbol tables, shared and split
# debug info, kernels, functions that a linker folded.

bats_require_minimum_version 1.5.0

load ../lib/keep
load ../lib/wait

@test "a packed symbol table inside the program (.gnu_debugdata)" {
    # As Fedora's packages are made: the symbols that .dynsym lacks, alone, by xz.
    mkdir -p mini
    objcopy --only-keep-debug full/keep mini/debug
    nm -D full/keep --format=posix --defined-only | awk '{print $1}' | sort >mini/dynamic
    nm full/keep --format=posix --defined-only | awk '$2 ~ /[Tt]/ {print $1}' | sort >mini/all
    comm -13 mini/dynamic mini/all >mini/keep-list
    objcopy -S --remove-section .gdb_index --remove-section .comment \
        --keep-symbols=mini/keep-list mini/debug mini/symbols
    xz -f mini/symbols
    strip -o mini/keep full/keep
    objcopy --add-section .gnu_debugdata=mini/symbols.xz mini/keep
    ! nm mini/keep 2>/dev/null | grep -q fill
    PERFETTO_BINARY_PATH=mini run -0 heapwise tree bare.trace
    has "fill"
}

@test "debug info shared by two files (dwz)" {
    command -v dwz >/dev/null || skip "no dwz"
    mkdir -p shared
    gcc -g -O2 -Wl,--build-id -o shared/other -DOTHER src/keep.c
    cp full/keep shared/keep
    (cd shared && dwz -m common -M common keep other)
    if readelf -SW shared/keep | grep -q gnu_debugaltlink; then
        PERFETTO_BINARY_PATH=shared run -0 heapwise report bare.trace
        has "make < fill  (src/keep.c:5)"
    fi
}

@test "a server of debug info (debuginfod), asked only when the environment says so" {
    command -v debuginfod >/dev/null || skip "no debuginfod"
    mkdir -p served
    objcopy --only-keep-debug full/keep served/keep.debug
    port=$((20000 + $$ % 20000))
    debuginfod -d :memory: -p $port -F "$BOX/served" >server.log 2>&1 &
    server=$!
    wait_for grep -q "started http server on" server.log
    id=$(readelf -n full/keep | sed -n 's/ *Build ID: //p')
    wait_for python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/buildid/$id/debuginfo')"
    run -0 heapwise report --symbols nowhere bare.trace
    [[ $output != *keep.c* ]]
    DEBUGINFOD_URLS=http://127.0.0.1:$port run -0 heapwise report --symbols nowhere bare.trace
    kill $server
    has "make < fill  (src/keep.c:5)"
    # What was fetched is kept; a server that is gone costs no more than its own time limit.
    DEBUGINFOD_URLS=http://127.0.0.1:$port run -0 heapwise report --symbols nowhere bare.trace
    has "make < fill  (src/keep.c:5)"
}

@test "kernel frames: the image of the trace's release" {
    mkdir -p k/boot
    cat >src/kernel.c <<'END'
int grow(int n) { volatile int x = n; return x * 3; }
void _start(void) { for (;;) grow(1); }
END
    gcc -g -O1 -nostdlib -static -no-pie -fno-pie -Wl,-Ttext=0xffffffff81000000 -mcmodel=kernel \
        -Wl,--build-id=none -o k/boot/vmlinux-9.9.9-test src/kernel.c
    start=$(readelf -lW k/boot/vmlinux-9.9.9-test | awk '/LOAD/ && /R E/ {print $3; exit}')
    grow=$(nm k/boot/vmlinux-9.9.9-test | sed -n 's/ T grow//p')
    pc=$((0x$grow - start))
    cat >kernel.txt <<END
packet { clock_snapshot { clocks { clock_id: 6 timestamp: 1 } clocks { clock_id: 4 timestamp: 1 } } }
packet { system_info { utsname { sysname: "Linux" release: "9.9.9-test" } } }
packet { trusted_packet_sequence_id: 2 sequence_flags: 1
  interned_data {
    mapping_paths { iid: 1 str: "kernel" }
    mappings { iid: 1 path_string_ids: 1 }
    function_names { iid: 1 str: "" }
    frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: $pc }
    callstacks { iid: 1 frame_ids: 1 }
  }
  profile_packet { process_dumps { pid: 1 heap_name: "h" timestamp: 5
    samples { callstack_id: 1 self_allocated: 10 alloc_count: 1 } } } }
END
    traceconv binary kernel.txt kernel.trace
    PERFETTO_BINARY_PATH=k run -0 heapwise query kernel.trace \
        "select name, source_file, line_number from stack_profile_symbol"
    has '"grow","'"$BOX"'/src/kernel.c",1'
    run -0 heapwise query --symbols nowhere kernel.trace "select count(*) as n from stack_profile_symbol"
    has "Could not find /kernel"
}

@test "functions that a linker folded are marked; aliases are not" {
    command -v ld.lld >/dev/null || skip "no lld"
    cat >src/fold.cc <<'END'
#include <stdlib.h>
void *kept[4000];
int n_kept;
template <class T> struct list {
    __attribute__((noinline)) void grow(T *) { kept[n_kept++] = malloc(1000); }
};
struct apple {};
struct pear {};
extern "C" __attribute__((noinline)) void stay(void) { kept[n_kept++] = malloc(500); }
extern "C" void stay_too(void) __attribute__((weak, alias("stay")));
extern "C" __attribute__((noinline)) void _IO_new_rest(void) { kept[n_kept++] = malloc(400); }
extern "C" void _IO_rest(void) __attribute__((alias("_IO_new_rest"))); /* as libc's versions of one function */
int main(void)
{
    list<apple> a;
    list<pear> p;
    apple x;
    pear y;
    for (int i = 0; i < 1000; i++) {
        a.grow(&x);
        p.grow(&y);
        stay_too();
        _IO_rest();
    }
    return kept[3999] == 0;
}
END
    g++ -g -O2 -ffunction-sections -fuse-ld=lld -Wl,--icf=all -o fold src/fold.cc
    run -0 heapwise record -i 1 -o fold.trace -- ./fold
    has ">::grow [folded]"
    has "[folded]"
    has "note: [folded]: the code of several functions is one"
    [[ $output != *"stay [folded]"* && $output != *"main [folded]"* ]]
    has "rest"
    [[ $output != *"rest [folded]"* ]]
    run -0 heapwise convert -t folded fold.trace
    has "[folded]"
    run -0 heapwise explain deduped
    has "dex2oat"
}

@test "the index reads a tree of links once, and no pipes, sockets or unreadable files" {
    mkdir -p maze/end
    cp full/keep maze/end/it
    mkfifo maze/end/pipe
    ln -s /proc maze/proc
    ln -s nowhere maze/dangling
    # Without memory of where it was, 2^24 ways lead to the end.
    for i in $(seq 24); do
        mkdir -p "maze/d$i"
        next=$((i + 1))
        [ $next -le 24 ] && target=../d$next || target=../end
        ln -s $target "maze/d$i/a"
        ln -s $target "maze/d$i/b"
    done
    PERFETTO_BINARY_PATH=maze PERFETTO_SYMBOLIZER_MODE=index run -0 timeout 20 heapwise report bare.trace
    has "make < fill  (src/keep.c:5)"
}
