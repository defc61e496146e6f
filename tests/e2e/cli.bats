#!/usr/bin/env bats
# The commands as a person types them: help, wrong usage, exit codes, configurations, messages.

bats_require_minimum_version 1.5.0

load lib/wait

setup() {
    BUILD=${HW_BUILD:-$BATS_TEST_DIRNAME/../../build}
    BUILD=$(cd "$BUILD" && pwd)
    PATH=$BUILD/src/cli:$PATH
    export BOX=$(mktemp -d)
    cd "$BOX"
    export HOME=$BOX TMPDIR=$BOX XDG_CONFIG_HOME=$BOX/config XDG_CACHE_HOME=$BUILD/cache NO_COLOR=1
    export PERFETTO_PRODUCER_SOCK_NAME=$BOX/producer PERFETTO_CONSUMER_SOCK_NAME=$BOX/consumer
    unset LD_PRELOAD HEAPWISE_INTERVAL HEAPWISE_LOG
    SERVICE=
    STEPS_NAME=t_steps.$$ # recordings of other tests on this machine look for names, too
    ln -s "$BUILD/tests/targets/t_steps" "$STEPS_NAME"
}

teardown() {
    [ -z "$SERVICE" ] || kill "$SERVICE" 2>/dev/null || true
    [ -z "$SERVICE" ] || wait "$SERVICE" 2>/dev/null || true
    cd /
    # Whatever was recorded and converted keeps to the format's rules.
    python3 -B "$BATS_TEST_DIRNAME/lib/checked.py" "$BUILD/src/cli/heapwise" "$BOX" || return 1
    rm -rf "$BOX"
}

service() {
    "$@" 2>service.log &
    SERVICE=$!
    wait_for test -S consumer || { cat service.log; return 1; }
}

has() { [[ $output == *"$1"* ]] || { echo "no '$1' in: $output"; return 1; }; }

# ---- help and words ----

@test "every command has help, and -h fits a screen" {
    for c in $(heapwise completion bash | sed -n 's/^    \([a-z_]*\)) words=.*/\1/p'); do
        run heapwise help "$c"
        [ "$status" -eq 0 ]
        has "usage: "
        run heapwise "$c" -h
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -le 24 ] || { echo "$c -h has ${#lines[@]} lines"; return 1; }
    done
}

@test "every command of the help has a manual page to install" {
    for c in $(heapwise completion bash | sed -n 's/^    \([a-z_]*\)) words=.*/\1/p'); do
        [ -s "$BUILD/src/cli/$c.1" ] || [ -s "$BUILD/src/cli/heapwise-$c.1" ] ||
            { echo "no manual page of $c is built"; return 1; }
    done
}

@test "an unknown word: did you mean, exit 2" {
    run heapwise reocrd
    [ "$status" -eq 2 ]
    has "unknown command 'reocrd'"
    has "did you mean 'heapwise record'?"
    run heapwise run
    [ "$status" -eq 2 ]
    run heap_profile host --traceconv-binary /nonexistent -- true
    [ "$status" -eq 1 ]
    has "--traceconv-binary '/nonexistent': No such file or directory"
    has "the converter is built in"
    run heapwise record --no-report -c 5 -o step.trace -- true
    has "a dump every 5 ms"
    run heapwise run
    has "did you mean 'heapwise record -- COMMAND'?"
    run heapwise
    [ "$status" -eq 2 ]
    run heapwise help recordd
    [ "$status" -eq 2 ]
}

@test "an unknown option: did you mean, exit 2; perfetto and traceconv 1" {
    run heapwise record --intervl 4 -- true
    [ "$status" -eq 2 ]
    has "did you mean '--interval'?"
    run heap_profile --foo
    [ "$status" -eq 2 ]
    run perfetto --foo
    [ "$status" -eq 1 ]
}

@test "known words that are not here yet: what to do instead, exit 77; options are not listed" {
    for c in attach live ui leaks diff merge; do
        heapwise completion bash | grep -q "^    $c)" && continue
        run -77 heapwise "$c" 1
        has "'$c' is not in this version"
        has "hint: "
    done
    for o in --live; do
        run heapwise record $o -- true
        [ "$status" -eq 2 ]
        has "unknown option '$o'"
    done
}

@test "completions are valid for their shells" {
    heapwise completion bash | bash -n
    if command -v zsh >/dev/null; then heapwise completion zsh | zsh -n; fi
    if command -v fish >/dev/null; then heapwise completion fish | fish -n; fi
    run heapwise completion tcsh
    [ "$status" -eq 2 ]
}

@test "manual pages have no roff errors" {
    command -v man >/dev/null || skip "man is not installed"
    for p in "$BUILD"/src/cli/*.1; do
        run bash -c "LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z '$p' 2>&1 >/dev/null"
        [ -z "$output" ] || { echo "$p: $output"; return 1; }
    done
}

# The anchors of a page as its readers make them of its headings.
anchors() {
    sed -n 's/^#\{1,6\} //p' "$1" | tr 'A-Z' 'a-z' | sed 's/[^a-z0-9 -]//g; s/ /-/g'
}

@test "every page that a message or another page points to is there, with its anchor" {
    doc=$BATS_TEST_DIRNAME/../../doc/guide
    src=$BATS_TEST_DIRNAME/../../src
    n=0
    for place in $(sed -n 's/.*"\([a-z-]*\.md#[a-z-]*\)")$/\1/p' "$src/config/command/explain.def") \
        $(grep -rhoE 'doc/guide/[a-z-]+\.md(#[a-z-]+)?' "$src" | sed 's,doc/guide/,,') \
        $(grep -hoE '\]\([a-z-]+\.md#[a-z-]+\)' "$doc"/*.md | sed 's/](//; s/)//'); do
        page=$doc/${place%%#*}
        [ -f "$page" ] || { echo "no page: $place"; return 1; }
        [[ $place != *#* ]] || anchors "$page" | grep -qx -- "${place#*#}" || {
            echo "no anchor: $place"
            return 1
        }
        n=$((n + 1))
    done
    for page in "$doc"/*.md; do
        for place in $(grep -oE '\]\(#[a-z-]+\)' "$page" | sed 's/](#//; s/)//'); do
            anchors "$page" | grep -qx -- "$place" || { echo "$page: no #$place"; return 1; }
        done
    done
    [ "$n" -ge 24 ]
    # Every code that a message carries is explained.
    for code in $(grep -rhoE 'find\(out, "[a-z-]+"|hw_cli_error\([^,]+, "[a-z-]+"' "$src/cli" "$src/record" "$src/open" |
        sed 's/.*"\(.*\)"/\1/'); do
        run heapwise explain "$code"
        [ "$status" -eq 0 ] || { echo "not explained: $code"; return 1; }
        has "More: doc/guide/"
    done
}

@test "convert: the end, and where little is left there a note" {
    heapwise record --no-report -i 1 -o x.trace -- "$BUILD/tests/targets/t_truth" >/dev/null
    cat >freed.c <<'END'
#include <stdlib.h>
int main(void) { for (int i = 0; i < 3; i++) { char *volatile p = malloc(100000); p[0] = 1; free(p); } }
END
    gcc -O0 freed.c -o freed
    heapwise record --no-report -i 1 -o f.trace -- ./freed
    run bash -c 'heapwise convert -t folded f.trace >out'
    has "--peak takes the peak"
    [ ! -s out ]
    run bash -c 'heapwise convert -t folded --peak f.trace >out'
    [ -z "$output" ]
    grep -q 'main.* 100000' out
    run bash -c 'heapwise convert -t folded -m alloc_space f.trace >out'
    [ -z "$output" ]
    grep -q 'main.* 300000' out
}

@test "explain knows the codes of messages" {
    run heapwise explain static
    [ "$status" -eq 0 ]
    run heapwise explain EINVAL
    [ "$status" -eq 0 ]
    has "heapwise help COMMAND"
    run heapwise explain cut-stacks
    has "stacks deeper than 512 frames"
    run heapwise explain no-such
    [ "$status" -eq 2 ]
}

# ---- exit codes of record ----

@test "record: not found 127, not runnable 126, no command 2" {
    run -127 heapwise record -- no-such-command
    [ "$status" -eq 127 ]
    has "command not found: 'no-such-command'"
    run heapwise record -- /etc/passwd
    [ "$status" -eq 126 ]
    run heapwise record
    [ "$status" -eq 2 ]
    [ -z "$(ls ./*.part ./*.trace 2>/dev/null)" ]
}

@test "record: the program's own status, by signal 128+N" {
    run heapwise record --no-report -i 1 -- sh -c 'exit 7'
    [ "$status" -eq 7 ]
    run heapwise record --no-report -i 1 -- "$BUILD/tests/targets/t_truth"
    [ "$status" -eq 0 ]
    run heapwise record --no-report -i 1 -- sh -c 'kill -TERM $$'
    [ "$status" -eq 143 ]
    run heapwise record --no-report --no-passthrough -i 1 -- bash -c 'exit 7'
    [ "$status" -eq 0 ]
}

@test "record: an empty profile leaves the program's own status" {
    run heapwise record -i 1G -- true
    [ "$status" -eq 0 ]
    has "[never-allocated]"
    run heapwise record -i 1G -- false
    [ "$status" -eq 1 ]
    run heapwise record --json -q -i 1G -- true
    [ "$status" -eq 0 ]
    [[ $output =~ \"empty\":\ *true ]]
}

@test "record: an output that cannot be written is found before the program starts" {
    mkdir directory
    for out in directory directory/ missing/x.trace; do
        run heapwise record -o "$out" -- touch started
        [ "$status" -eq 1 ]
        [ ! -e started ]
    done
    run heapwise record -o directory -- touch started
    has "is a directory; name a file in it: 'directory/NAME.trace'"
}

@test "record: a trace that cannot be handed over is saved beside, and said where" {
    run bash -c "heapwise record -i 1 -o - -- '$BUILD/tests/targets/t_truth' 2>err >/dev/full"
    [ "$status" -eq 0 ]
    grep -q "the trace is in './heap.t_truth.*.trace' instead" err
    run heapwise report heap.t_truth.*.trace
    [ "$status" -eq 0 ]
    run heapwise record -i 1 -o /dev/full -- "$BUILD/tests/targets/t_truth"
    [ "$status" -eq 0 ]
    has "instead"
    [ "$(ls heap.t_truth.*.trace | wc -l)" -eq 2 ]
    run heapwise record --no-passthrough -i 1 -o /dev/full -- "$BUILD/tests/targets/t_truth"
    [ "$status" -eq 1 ]
}

@test "record: named after the program underneath; nothing is overwritten" {
    printf '#!/bin/sh\nexec env A=1 "%s"\n' "$BUILD/tests/targets/t_truth" >run.sh
    chmod +x run.sh
    run heapwise record --no-report -i 1 -- ./run.sh
    [ "$status" -eq 0 ]
    ls heap.t_truth.*.trace
    [ -z "$(ls ./*.part 2>/dev/null)" ]
    run heapwise record --no-report -o x.trace -i 1 -- "$BUILD/tests/targets/t_truth"
    [ "$status" -eq 0 ]
    run heapwise record --no-report -o x.trace -- true
    [ "$status" -eq 1 ]
    has "exists; --force overwrites it"
    run heapwise record --no-report -f -o x.trace -i 1 -- "$BUILD/tests/targets/t_truth"
    [ "$status" -eq 0 ]
}

@test "record: file, summary and report are about the program that did the work" {
    run heapwise record -i 1 -- bash -c "ls / >/dev/null; '$BUILD/tests/targets/t_truth' >/dev/null; true"
    [ "$status" -eq 0 ]
    trace=$(ls heap.t_truth.*.trace)
    has "t_truth ("
    has "also: "
    has "started by: bash"
    run heapwise report --json "$trace"
    echo "$output" | python3 -c 'import json, sys; assert json.load(sys.stdin)["process"]["name"].endswith("t_truth")'
    command -v g++ >/dev/null || skip "no g++"
    echo 'int main() { return 0; }' >a.cc
    run heapwise record -- g++ -c a.cc
    [ "$status" -eq 0 ]
    has "cc1plus ("
    ls heap.cc1plus.*.trace
}

@test "record: an empty profile says why" {
    if ! echo 'int main(void){return 0;}' | gcc -static -xc - -o static 2>/dev/null; then
        skip "no static libc"
    fi
    run heapwise record --no-passthrough -- ./static
    [ "$status" -eq 5 ]
    has "statically linked"
    has "[static]"
    echo 'int main(void){return 0;}' | gcc -xc - -o idle
    run heapwise record --no-passthrough -- ./idle
    [ "$status" -eq 5 ]
    has "[never-allocated]"
    for way in "sh -c ./static" "sh -c 'exec ./static'" "env -i ./idle"; do
        run bash -c "heapwise record --no-passthrough -i 1G -- $way"
        [ "$status" -eq 5 ]
        has "starts other programs; none of those contacted the recorder [not-seen]"
        [[ $output != *"next:"* ]]
    done
    run heapwise record -i 1 -- sh -c ./static
    [ "$status" -eq 0 ]
    has "note: only 'sh' was profiled"
    for way in "env LD_PRELOAD=libm.so.6 ./idle" "env -u LD_PRELOAD ./idle" "env -i A=1 ./idle" "sh -c 'LD_PRELOAD=libm.so.6 ./idle'"; do
        run bash -c "heapwise record --no-passthrough -i 1 -f -- $way"
        has "takes LD_PRELOAD away"
    done
    for way in "env A=1 ./idle LD_PRELOAD=x" "sh -c 'LD_PRELOAD=\$LD_PRELOAD:libm.so.6 ./idle'" "./idle -i"; do
        run bash -c "heapwise record --no-passthrough -i 1 -f -- $way"
        [[ $output != *"takes LD_PRELOAD away"* ]]
    done
    run heap_profile -n nobody-of-this-name -d 200
    [ "$status" -eq 1 ]
    has "no process named 'nobody-of-this-name' ran [no-process]"
    run heap_profile -p 1 -d 200
    has "[protected]"
    run heap_profile -p 99999999 -d 200
    has "no process 99999999 [no-process]"
}

@test "record: too few descriptors are what is told, whichever is the one too many" {
    for n in 18 20 22 24 25 26 27 28 29; do
        run bash -c "ulimit -n $n; heapwise record --no-passthrough -f -i 1 -o few.trace -- '$BUILD/tests/targets/t_truth'"
        [[ $output != *"profile is empty"* && $output != *"recorder is gone"* ]] ||
            [[ $output == *"oo many open files"* || $output == *"no more descriptors"* ]] ||
            { echo "$n: $output"; return 1; }
        [[ $output != *"not-seen"* ]] || { echo "$n: $output"; return 1; }
    done
}

@test "record: trace on standard output, the program's own output elsewhere" {
    heapwise record -i 1 -o - -- "$BUILD/tests/targets/t_truth" >out.trace 2>err
    protoc --decode_raw <out.trace >/dev/null
    grep -q EXPECT err
}

@test "record: --json is JSON" {
    heapwise record -i 1 --json -- sh -c "'$BUILD/tests/targets/t_truth' >/dev/null" >j 2>err
    python3 -c 'import json; d = json.load(open("j")); assert d["version"] == 1 and d["samples"] > 0, d'
}

@test "record: conditions end or dump, others are refused" {
    run heapwise record --stop-when 'cpu>3' -- true
    [ "$status" -eq 2 ]
    has "is not one of rss>SIZE, rss+SIZE, time>TIME, samples>N, dumps=N, failure, memory-limit[>PERCENT]"
    start=$(date +%s)
    run heapwise record --no-report -i 1 --stop-when 'time>300ms' --no-passthrough -- \
        bash -c 'x=$(seq 1000); sleep 1'
    [ "$status" -eq 0 ]
}

@test "record: options that contradict themselves" {
    run heapwise record --block-client --no-block-client -- true
    [ "$status" -eq 2 ]
    run heapwise record --exact -i 5 -- true
    [ "$status" -eq 2 ]
    run heapwise record -i 0 -- true
    [ "$status" -eq 2 ]
    has "zero sampling interval."
    run heapwise record --shmem-size 5000 -- true
    [ "$status" -eq 2 ]
    has "not a power of two"
}

# ---- configurations ----

@test "heap_profile --print-config, exactly" {
    run heap_profile -p 12,34 -n a,b --heaps x -i 8192 -c 5000 -d 60000 --block-client-timeout 7 \
        --no-startup --dump-at-max --disable-fork-teardown --all-heaps --print-config
    [ "$status" -eq 0 ]
    diff <(echo "$output") - <<'END'
buffers {
  size_kb: 63488
}
data_sources {
  config {
    name: "android.heapprofd"
    heapprofd_config {
      shmem_size_bytes: 8388608
      sampling_interval_bytes: 8192
      block_client: true
      block_client_timeout_us: 7
      no_startup: true
      dump_at_max: true
      disable_fork_teardown: true
      all_heaps: true
      pid: 12
      pid: 34
      process_cmdline: "a"
      process_cmdline: "b"
      heaps: "x"
      continuous_dump_config {
        dump_phase_ms: 0
        dump_interval_ms: 5000
      }
    }
  }
}
duration_ms: 60000
write_into_file: true
flush_timeout_ms: 30000
flush_period_ms: 604800000
data_sources {
  config {
    name: "android.packages_list"
  }
}
END
}

@test "heap_profile host --print-config: the command's name, no packages, no block" {
    run heap_profile host --no-block-client --print-config -- /bin/ls -l
    [ "$status" -eq 0 ]
    has 'process_cmdline: "ls"'
    [[ $output != *packages_list* ]]
    [[ $output != *block_client* ]]
    run heap_profile --print-config --no-versions -n x
    [[ $output != *packages_list* ]]
    run heap_profile host --print-config --name y -- /bin/ls
    has 'process_cmdline: "y"'
}

@test "what --print-config prints is a good configuration; protoc agrees" {
    heap_profile -n x --idle-allocations --print-config >c.txt
    run heapwise config --check c.txt
    [ "$status" -eq 0 ]
    protoc -I"$BATS_TEST_DIRNAME/../../proto" --encode=perfetto.protos.TraceConfig config.proto \
        heapwise.proto <c.txt >c.bin
    run heapwise config --print c.bin
    [ "$status" -eq 0 ]
    has "sampling_interval_bytes: 4096"
}

@test "heap_profile: wrong usage prints every line and the help" {
    run bash -c 'heap_profile --shmem-size 4095 --block-client --no-block-client -p 1x 2>&1'
    [ "$status" -eq 1 ]
    has "FATAL: Both block-client and no-block-client given."
    has "FATAL: shmem-size is not a multiple of 4096."
    has "FATAL: shmem-size is less than 8192."
    has "FATAL: shmem-size is not a power of two."
    has "FATAL: invalid PID 1x"
    has "usage: heap_profile"
    run heap_profile host
    [ "$status" -eq 1 ]
    [ "$output" = "FATAL: host subcommand requires a command after --." ]
    run heap_profile host ls
    [ "$status" -eq 1 ]
    [ "$output" = "FATAL: host subcommand requires a command after --." ]
    mkdir full && touch full/x
    run heap_profile host -o full -- true
    [ "$status" -eq 1 ]
    has "Output directory full not empty"
    run heap_profile host -o none -- true
    has "Output directory none not found"
}

@test "heap_profile: Android's options are said once; no profile: exit 1" {
    run heap_profile host --disable-selinux -- true
    [ "$status" -eq 1 ]
    has "--disable-selinux: this machine has no SELinux that could be disabled"
    has "No profiles generated"
    run heap_profile -n nobody --no-start
    [ "$status" -eq 1 ]
    has "no service listens"
}

@test "heap_profile: a disk that is full when the trace is converted" {
    mkdir small
    unshare -m true 2>/dev/null || skip "no mount namespace may be made here"
    run unshare -m sh -c 'mount -t tmpfs -o size=8k none small && mkdir small/o && cd small &&
        heap_profile host -i 1 -o o -- "$0" 2>&1; echo "status $?"; ls -s o' "$BUILD/tests/targets/t_truth"
    has "cannot convert the trace"
    has "No space left on device"
    has "status 1"
    has "raw-trace"
}

@test "heap_profile --simpleperf: perf on the recorder, and what is said without it" {
    mkdir with without bin
    for t in ls env sh; do ln -s "$(command -v $t)" bin/; done
    PATH=$BOX/bin run "$BUILD/src/cli/heap_profile" host --simpleperf -i 1 -o without -- ls /
    [ "$status" -eq 0 ]
    has "--simpleperf: perf is not installed"
    has "Wrote profiles to without"
    [ ! -e without/perf.data ]
    perf record -q -o probe -- true 2>/dev/null || skip "perf does not work here"
    # perf that is ended before it has begun writes nothing: the program waits for its file.
    run timeout 60 heap_profile host --simpleperf -i 1 -o with -- \
        sh -c 'until [ -s "$1" ]; do sleep 0.1; done; exec "$2"' sh "$BOX/with/perf.data" "$BUILD/tests/targets/t_truth"
    [ "$status" -eq 0 ]
    has "perf report -i with/perf.data"
    [ -s with/perf.data ]
}

@test "settings: files below variables below options" {
    mkdir -p config/heapwise
    printf 'interval = 1K\n[record]\nduration = 3s\n[ps]\nall = true\n' >config/heapwise/config
    run heapwise config --print
    has "interval = 1K   # $BOX/config/heapwise/config"
    has "duration = 3s   # $BOX/config/heapwise/config"
    printf 'interval = 2K\n' >.heapwise.conf
    run heapwise config
    has "interval = 2K   # ./.heapwise.conf"
    HEAPWISE_INTERVAL=4K run heapwise config
    has "interval = 4K   # HEAPWISE_INTERVAL"
    HEAPWISE_INTERVAL=4K run heapwise record --print-config -i 8K
    has "sampling_interval_bytes: 8192"
    run heap_profile -n x --print-config
    has "sampling_interval_bytes: 4096"
    printf 'preload-library = /tmp/evil.so\n' >.heapwise.conf
    run heapwise record -- true
    [ "$status" -eq 2 ]
    has "cannot be set by a file in the current directory"
    for key in 'output = /tmp/x' 'force = true' 'memory-infra = x.json'; do
        echo "$key" >.heapwise.conf
        run heapwise record -- true
        [ "$status" -eq 2 ]
        has "cannot be set by a file in the current directory"
    done
    echo 'allow-commands = true' >.heapwise.conf
    run heapwise serve --demo
    [ "$status" -eq 2 ]
    has "cannot be set by a file in the current directory"
    # A link leads to whatever its maker likes, /proc/PID/cmdline for instance.
    printf 'interval = 2K\n' >elsewhere
    ln -sf elsewhere .heapwise.conf
    run heapwise config
    has "is not read: it must be a regular file of yours"
    [[ $output != *"interval = 2K"* ]]
    rm .heapwise.conf
    ln elsewhere .heapwise.conf # a hard link, too
    run heapwise config
    [[ $output != *"interval = 2K"* ]]
    rm .heapwise.conf elsewhere
    printf 'intervall = 3\n' >.heapwise.conf
    run heapwise record -- true
    [ "$status" -eq 2 ]
    has "./.heapwise.conf:1: unknown key 'intervall'"
    if [ "$(id -u)" = 0 ]; then # a directory of somebody else's
        rm .heapwise.conf
        mkdir theirs
        printf 'interval = 2K\n' >theirs/.heapwise.conf
        chown 65534 theirs
        run sh -c 'cd theirs && exec heapwise config'
        [[ $output != *"interval = 2K"* ]]
        # Whose token it is knows it: of another user's file that may not become true.
        (umask 077 && printf '%040d\n' 7 >token && chown 65534 token)
        run timeout 60 heapwise serve --port 0 --token-file token
        [ "$status" -eq 77 ]
        has "is not a file of yours"
    fi
}

# ---- perfetto ----

@test "perfetto: errors of configuration and output" {
    run perfetto -c - --txt -o x </dev/null
    [ "$status" -eq 1 ]
    has "The TraceConfig is empty"
    run bash -c 'echo "duration_ms: 3" | perfetto -c - -o x'
    [ "$status" -eq 1 ]
    has "The trace config is invalid, bailing out."
    has "add --txt"
    run bash -c 'echo "duration_ms: 3" | perfetto -c - --txt'
    [ "$status" -eq 1 ]
    has "Either --out or --upload is required"
    run bash -c 'echo "duration_sm: 3" | perfetto -c - --txt -o x'
    [ "$status" -eq 1 ]
    has '-:1:1 error: No field named "duration_sm" in proto TraceConfig'
    run bash -c 'echo "duration_ms: 3" | perfetto -c - --txt -o x'
    [ "$status" -eq 1 ]
    has "Could not connect to the traced socket $BOX/consumer"
    run bash -c 'echo "duration_ms: 604800001" | perfetto -c - --txt -o x'
    [ "$status" -eq 1 ]
    has "Requested too long trace (604800001ms > 604800000ms)"
    [ ! -e x ]
}

@test "perfetto with a service: duration, no-clobber, background, query, notify" {
    service heapprofd
    echo 'duration_ms: 200' >c
    run perfetto -c c --txt -o x
    [ "$status" -eq 0 ]
    has "starting tracing for 200 ms"
    has "bytes into x"
    [ "$(stat -c %a x)" = 600 ]
    run perfetto -c c --txt -o x --no-clobber
    [ "$status" -eq 1 ]
    run perfetto -c :test -o y
    [ "$status" -eq 0 ]
    perfetto -c c --txt -o - >z
    protoc --decode_raw <z >/dev/null
    echo 'duration_ms: 60000' >long # it is there as long as it is asked about
    pid=$(perfetto -c long --txt -o bg -D)
    [ -n "$pid" ]
    run perfetto --query
    [ "$status" -eq 0 ]
    has "service: heapwise"
    run perfetto --query --long
    has "file: $BOX/bg"
    run perfetto --query-raw
    [ "$status" -eq 0 ]
    echo "$output" | python3 -m json.tool >/dev/null
    kill -INT "$pid"
    wait_for gone "$pid"
    [ -s bg ]
    perfetto -c c --txt -o n --notify-fd 9 9>note
    [ "$(od -An -tx1 note | tr -d ' ')" = 00 ]
    printf 'buffers {}\ndata_sources { config { name: "android.heapprofd" } }\n' >zero
    run perfetto -c zero --txt -o refused
    [ "$status" -eq 1 ]
    has "zero sampling interval."
    [ ! -e refused ]
}

@test "perfetto: a profile that comes out empty says why" {
    service heapprofd
    profile() {
        printf 'duration_ms: 200 buffers {} data_sources { config { name: "android.heapprofd"' >c
        printf ' heapprofd_config { sampling_interval_bytes: 1 %s } } }\n' "$1" >>c
        run perfetto -c c --txt -o x
        [ "$status" -eq 0 ]
        has "the profile is empty: $2"
    }
    profile 'process_cmdline: "no_such_thing"' "no process named 'no_such_thing' ran [no-process]"
    profile '' "the configuration has no process_cmdline, pid or all"
    profile 'pid: 1' "process 1 is never profiled"
    ln -s "$(command -v sleep)" "sleep.$$" # others sleep, too, on this machine
    LD_PRELOAD=$BUILD/src/client/libheapprofd_glibc_preload.so "./sleep.$$" 30 &
    profile 'process_cmdline: "sleep.'$$'" no_running: true' "the process was already running, and --no-running"
    kill $!
}

@test "the service under each name; a second one is refused; dump, ps, stop" {
    can_be_alone
    service traced --consumer-socket "$BOX/consumer" --producer-socket "$BOX/producer"
    run traced
    [ "$status" -eq 1 ]
    has "a recording service is already running there"
    [[ $output != *null* ]]
    [ -n "$(children_of "$SERVICE" heapprofd)" ]
    run heapwise ps --json
    [ "$status" -eq 0 ]
    echo "$output" | python3 -m json.tool >/dev/null
    run alone heapwise stop
    [ "$status" -eq 1 ]
    has "no recording is running"
    printf 'buffers {}\ndata_sources { config { name: "android.heapprofd" heapprofd_config {' >c
    printf ' sampling_interval_bytes: 1 process_cmdline: "%s" } } }\n' "$STEPS_NAME" >>c
    perfetto -c c --txt -o x -D >pid
    mkfifo in
    LD_PRELOAD=$BUILD/src/client/libheapprofd_glibc_preload.so "./$STEPS_NAME" <in >steps.out &
    exec 8>in
    echo 'a 10' >&8
    wait_for profiled
    run heapwise dump 1
    [ "$status" -eq 0 ]
    has "dumps of 1 process written"
    run heapwise dump nobody
    [ "$status" -eq 1 ]
    echo q >&8
    exec 8>&-
    run heapwise stop 1
    [ "$status" -eq 0 ]
    wait_for gone "$(cat pid)"
    protoc --decode_raw <x >/dev/null
    kill -TERM "$SERVICE"
    wait "$SERVICE"
    SERVICE=
}

@test "a pipe that nobody reads does not keep a recording: a signal, and the trace is in a file" {
    mkfifo nobody
    for how in TERM INT; do
        python3 -c 'import signal, sys, os; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' \
            "$BUILD/src/cli/heapwise" record -i 1 --no-report -o nobody -- sh -c 'exit 0' 2>"said.$how" &
        P=$!
        wait_for grep -q "waiting for a reader" "said.$how"
        kill -"$how" "$P"
        wait "$P" || true
        grep -q "the trace is in '.*\.trace' instead" "said.$how"
    done
    "$BUILD/src/cli/heapwise" record -i 1 --no-report -o nobody -- sh -c 'exit 0' 2>/dev/null &
    cat nobody >read.trace # a reader that comes late
    wait
    heapwise report read.trace >/dev/null
}

# A program that allocates until its input ends: `steps NAME`, then lines to descriptor 8.
steps() {
    mkfifo in
    LD_PRELOAD=${PRELOAD:-} "$@" "$BOX/$STEPS_NAME" <in >steps.out 2>steps.err &
    STEPS=$!
    exec 8>in
    echo 'a 10' >&8
}

# Recordings whose file is in this box and that have a process: others run on the same machine.
recordings() {
    heapwise ps --json | python3 -c 'import json, os, sys
for r in json.load(sys.stdin)["recordings"]:
    if r["pids"] and os.path.realpath(r["file"]).startswith(os.path.realpath(".") + "/"):
        print(r["ref"])'
}

profiled() { [ -n "$(recordings)" ]; }

# The program has done so many steps.
answered() { [ "$(grep -c ok steps.out)" -ge "$1" ]; }

# In a network of its own: embedded recorders of others are out of reach.
alone() { unshare -n "$@"; }
can_be_alone() { unshare -n true 2>/dev/null || skip "no network namespaces here"; }

config_for() {
    printf 'buffers {}\nunique_session_name: "%s"\ndata_sources { config { name: "android.heapprofd"' "$2"
    printf ' heapprofd_config { sampling_interval_bytes: 1 process_cmdline: "%s" } } }\n' "$1"
}

@test "ps, dump, stop: recordings embedded in other commands" {
    can_be_alone
    run alone heapwise stop
    [ "$status" -eq 1 ]
    run -5 alone heapwise dump
    steps heapwise record --no-report -i 1 -o x.trace --
    wait_for profiled
    run heapwise ps
    has "recording r"
    has "by heapwise ("
    has "to $BOX/x.trace.part"
    has "t_steps"
    ref=$(recordings)
    heapwise ps --json "$(children_of "$STEPS" t_steps)" >ps.json
    python3 - "$ref" <<'END'
import json, sys
d = json.load(open("ps.json"))
r, p = [r for r in d["recordings"] if r["ref"] == sys.argv[1]][0], d["processes"][0]
assert d["version"] == 1 and not d["service"], d
assert r["embedded"] and r["ref"] == "r%d" % r["recorder_pid"] and r["state"] == "running", r
assert p["recording_ref"] == r["ref"] and p["eligible"] and p["code"] is None, p
END
    run heapwise dump "$ref"
    [ "$status" -eq 0 ]
    has "dumps of 1 process written"
    run heapwise dump "$(children_of "$STEPS" t_steps)"
    has "dumps of 1 process written"
    run heapwise stop nobody
    [ "$status" -eq 1 ]
    has "no recording 'nobody'"
    has "heapwise stop r"
    run heapwise stop "$(children_of "$STEPS" t_steps)"
    [ "$status" -eq 0 ]
    has "has ended"
    wait_for test -s x.trace
    kill -0 "$STEPS" # the program runs on; its command waits for it and ends with its status
    wait_for grep -q 'wrote x.trace' steps.err
    grep -q 'runs on without being recorded' steps.err
    exec 8>&-
    wait "$STEPS"
    run heapwise query x.trace "select count(distinct ts) from heap_profile_allocation"
    [ "${lines[1]}" -ge 1 ]
    [ "$(protoc --decode_raw <x.trace | grep -c '"command"')" -ge 2 ]
}

@test "record --all: every process, preloaded or not; no command with it" {
    run heapwise record --all true
    [ "$status" -eq 2 ]
    has "--all takes no command"
    # In a pid namespace of its own: what else runs on the machine is not meant by a test.
    unshare --pid --fork --mount-proc true 2>err || skip "no pid namespaces here: $(cat err)"
    export BUILD
    run unshare --pid --fork --mount-proc sh -c '
        heapwise record --all -i 1 -o all.trace --no-report 2>err &
        recorder=$!
        until grep -q "recording every process" err; do sleep 0.02; done
        LD_PRELOAD=$BUILD/src/client/libheapprofd_glibc_preload.so ls / >/dev/null
        $BUILD/tests/targets/t_truth >/dev/null
        kill -INT "$recorder"
        wait "$recorder"'
    [ "$status" -eq 0 ]
    run heapwise query all.trace "select name from process where name is not null or upid in (select upid from heap_profile) order by name"
    has '"ls"'
    has 't_truth'
    [[ $output != *NULL* ]]
}

@test "a program's own exit status, however the recording ends" {
    for how in "" --follow-fork --json --dump-at-max "-o /dev/full -f"; do
        run heapwise record $how -- false
        [ "$status" -eq 1 ] || { echo "$how: $status"; return 1; }
        run heapwise record $how -- sh -c 'kill -9 $$'
        [ "$status" -eq 137 ] || { echo "$how: $status"; return 1; }
    done
    run heapwise record --json -o empty -- false
    has '"empty": true'
    has '"program_status": 1'
    # It hears Ctrl-C and ends by itself.
    heapwise record -q -o own -- env --default-signal=INT sh -c 'trap "exit 9" INT; echo ready; while :; do sleep 0.02; done' >out &
    recorder=$!
    wait_for grep -q ready out
    kill -INT "$recorder"
    status=0
    wait "$recorder" || status=$?
    [ "$status" -eq 9 ] || { echo "$status"; return 1; }
    run heap_profile host -- sh -c 'exit 3'
    has "'sh' ended with exit status 3"
    run heap_profile host -- sh -c 'kill -9 $$'
    has "'sh' was ended by signal 9"
}

@test "perfetto: session semaphores limit each other" {
    service heapprofd
    with() { printf 'duration_ms: 20000 session_semaphores { name: "disk" %s }\n' "$1" >c; }
    with 'max_other_session_count: 1'
    perfetto -c c --txt -o a --detach a
    perfetto -c c --txt -o b --detach b
    run perfetto -c c --txt -o x
    [ "$status" -eq 1 ]
    has "session_semaphores: 2 sessions hold 'disk'"
    [ ! -e x ]
    with 'max_other_session_count: 9' # the others' limit holds too
    run perfetto -c c --txt -o x
    [ "$status" -eq 1 ]
    sed -i 's/disk/net/; s/20000/100/' c
    perfetto -c c --txt -o x
    perfetto --attach a --stop
    perfetto --attach b --stop
}

@test "perfetto: detach, attach, is_detached, stop" {
    service heapprofd
    config_for "$STEPS_NAME" night >c
    run perfetto -c c --txt -o x --detach k
    [ "$status" -eq 0 ]
    perfetto --is_detached k
    run -2 perfetto --is_detached other
    run perfetto -c c --txt -o y --detach k2
    [ "$status" -eq 1 ]
    has "a session named 'night' is already running"
    run heapwise ps
    has "detached as 'k'"
    for p in $(children_of "$SERVICE") "$SERVICE"; do
        ! grep "^ *$p " <<<"$output" || { echo "$p is the recorder"; return 1; }
    done
    run heapwise ps "$SERVICE"
    has "process $SERVICE is the recorder [protected]"
    PRELOAD=$BUILD/src/client/libheapprofd_glibc_preload.so steps env
    wait_for profiled
    run perfetto --attach other
    [ "$status" -eq 1 ]
    has "Session re-attach failed"
    run perfetto --attach k --stop
    [ "$status" -eq 0 ]
    has "Trace written into the output file"
    [[ $output != *empty* ]] || { echo "samples of a process that came before: $output"; return 1; }
    exec 8>&-
    wait "$STEPS"
    run -2 perfetto --is_detached k
    run heapwise report --json x
    [ "$status" -eq 0 ]
    # An attached recording is the command's: it ends with it.
    config_for nobody n2 >c2
    perfetto -c c2 --txt -o z --detach k
    perfetto --attach k 2>attached.err &
    attached=$!
    wait_for bash -c '! perfetto --is_detached k'
    kill -INT "$attached"
    wait "$attached"
    grep "the profile is empty: no process was profiled" attached.err
    wait_for bash -c '! heapwise ps | grep "$BOX/z"'
    protoc --decode_raw <z >/dev/null
    for wrong in "--stop" "--long" "--attach k -o f" "--attach k -c c" "--detach k -d -c c --txt -o f" \
        "--detach k -c c --txt -o -"; do
        run perfetto $wrong
        [ "$status" -eq 1 ] || { echo "$wrong: $status"; return 1; }
        [ -n "$output" ]
    done
    [ ! -e f ]
    unset PERFETTO_PRODUCER_SOCK_NAME
    PERFETTO_CONSUMER_SOCK_NAME=$BOX/none run perfetto --is_detached k
    [ "$status" -eq 1 ]
}

@test "perfetto: a clone is a whole trace, the original goes on" {
    service heapprofd
    config_for "$STEPS_NAME" night >c
    perfetto -c c --txt -o x --detach k
    PRELOAD=$BUILD/src/client/libheapprofd_glibc_preload.so steps env
    wait_for profiled
    run perfetto --clone-by-name night -o one
    [ "$status" -eq 0 ]
    has "bytes into one"
    echo 'a 10' >&8
    wait_for answered 2
    perfetto --clone 1 -o - >two
    for f in one two; do
        protoc --decode_raw <"$f" >/dev/null
        run heapwise query "$f" "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 1 ] || { echo "$output"; return 1; }
    done
    a=$(heapwise query one "select sum(count) from heap_profile_allocation where count > 0" | tail -1)
    b=$(heapwise query two "select sum(count) from heap_profile_allocation where count > 0" | tail -1)
    [ "$b" -gt "$a" ] || { echo "$a, then $b"; return 1; }
    cmp -n "$(($(stat -c %s one) - 400))" one x
    perfetto --is_detached k
    run perfetto --clone 7 -o none
    [ "$status" -eq 1 ]
    has "no such session is running"
    [ ! -e none ]
    exec 8>&-
    wait "$STEPS"
}

@test "perfetto: the short form records what there is and names what there is not" {
    service heapprofd
    run perfetto -t 300ms -b 8mb -o s -a com.example sched/sched_switch gfx
    [ "$status" -eq 0 ]
    has "no data source 'linux.ftrace' here"
    run heapwise query s "select count(*) > 1 from process"
    [ "${lines[1]}" -eq 1 ]
    protoc -I"$BATS_TEST_DIRNAME/../../proto" --decode=perfetto.protos.Trace trace.proto <s >s.txt
    grep -q 'ftrace_events: "sched/sched_switch"' s.txt
    grep -q 'atrace_categories: "gfx"' s.txt
    run perfetto -t 10 -o s
    [ "$status" -eq 1 ]
    has "is not a number with a unit"
    run perfetto -t 1s -c x -o s
    [ "$status" -eq 1 ]
    has "exclude each other"
}

@test "doctor: everything that must be here is" {
    run heapwise doctor --json
    echo "$output" | python3 -m json.tool >/dev/null
    has '"a recording"'
}

@test "record: programs that cannot be profiled are told apart" {
    printf '#include <stdlib.h>\nint main(void){ return malloc(1000) == 0; }\n' >p.c
    gcc -fsanitize=address p.c -o asan 2>/dev/null || skip "no AddressSanitizer"
    run heapwise record -- ./asan
    has "[asan]"
    printf '#include <stdlib.h>\nint main(void){ return 3 + (malloc(1000) == 0); }\n' >p3.c
    gcc -fsanitize=address p3.c -o asan3
    ASAN_OPTIONS=detect_leaks=0 run heapwise record -- ./asan3
    [ "$status" -eq 3 ] # as it ends without us
    has "[asan]"
    printf 'static char pool[1 << 20]; static unsigned long n;\n%s\n%s\n' \
        'void *malloc(unsigned long s) { void *p = pool + n; n += (s + 15) & ~15ul; return p; }' \
        'int main(void) { return ((volatile char *)malloc(9))[0]; }' >own.c
    gcc -O0 -fno-builtin own.c -o own
    run heapwise record --no-passthrough -i 1 -- ./own
    [ "$status" -eq 5 ]
    has "[allocator-inside]"
}

@test "pymalloc is noted, unless its objects are recorded or PYTHONMALLOC is malloc" {
    command -v /usr/bin/python3 >/dev/null || skip "no python3"
    code='x = [str(i) for i in range(300000)]'
    heapwise record --no-report -i 4096 --heap libc.malloc -o arenas.trace -- /usr/bin/python3 -S -c "$code"
    run -0 heapwise report arenas.trace
    [[ $output == *pymalloc* ]] || { echo "$output"; return 1; }
    heapwise record --no-report -i 4096 -o objects.trace -- /usr/bin/python3 -S -c "$code"
    run -0 heapwise report objects.trace
    [[ $output != *pymalloc* && $output == *"<listcomp>"* ]] || { echo "$output"; return 1; }
    run ! heapwise record --no-report --heap python.alloc -o objects.trace -- true
    [[ $output == *"python.alloc has the interval of libc.malloc"* ]] || { echo "$output"; return 1; }
    PYTHONMALLOC=malloc heapwise record --no-report -i 4096 -o malloc.trace -- /usr/bin/python3 -S -c "$code"
    run -0 heapwise report malloc.trace
    [[ $output != *pymalloc* ]] || { echo "$output"; return 1; }
}

@test "record on a terminal says what ends it" {
    command -v script >/dev/null || skip "no script(1)"
    run script -qec "heapwise record --no-report -i 1 -o terminal.trace -- $BUILD/tests/targets/t_leaky" /dev/null
    [[ $output == *"recording $BUILD/tests/targets/t_leaky ("*") into terminal.trace; it ends with the program, or by Ctrl-C"* ]] ||
        { echo "$output"; return 1; }
}

@test "a kernel thread is called one" {
    [ -e /proc/2/comm ] && [ "$(cat /proc/2/comm)" = kthreadd ] || skip "kernel threads are not seen here"
    run ! heapwise attach -o kernel.trace 2
    [[ $output == *"process 2 is a kernel thread"* ]] || { echo "$output"; return 1; }
}

@test "one of something is one" {
    heapwise record --no-report -i 1 -o whole.trace -- "$BUILD/tests/targets/t_leaky"
    cp whole.trace cut.trace
    printf '\377' >>cut.trace
    echo cut.trace >.broken # spoiled on purpose
    run heapwise merge -o merged.trace cut.trace
    [[ $output == *"0 packets and 1 byte between"* ]] || { echo "$output"; return 1; }
}

@test "standard output that cannot be written: one line, with the reason" {
    heapwise record -q --no-report -o full.trace -- "$BUILD/tests/targets/t_truth" >/dev/null
    for command in report "report --json" tree "tree --json" leaks stats check "convert -t folded" "convert -t json"; do
        echo "$command"
        run bash -c "heapwise $command full.trace 2>&1 >/dev/full | grep -v -e '^note' -e '^hint'"
        [ "${#lines[@]}" -eq 1 ]
        has "No space left on device"
    done
    run bash -c "heapwise query full.trace 'select * from stack_profile_frame' 2>&1 >/dev/full"
    [ "$output" = "heapwise: cannot write to standard output: No space left on device" ]
}
