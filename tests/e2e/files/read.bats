#!/usr/bin/env bats
# The commands that read a trace, and what other tools make of the files they write.

bats_require_minimum_version 1.5.0

load ../lib/wait

setup_file() {
    BUILD=${HW_BUILD:-$BATS_TEST_DIRNAME/../../../build}
    BUILD=$(cd "$BUILD" && pwd)
    export BUILD PATH=$BUILD/src/cli:$PATH
    BOX=$(mktemp -d)
    export BOX HOME=$BOX TMPDIR=$BOX XDG_CACHE_HOME=$BUILD/cache NO_COLOR=1
    unset LD_PRELOAD
    cd "$BOX"
    heapwise record --no-report -i 1 -o t.trace -- "$BUILD/tests/targets/t_truth" >truth.out
}

# Whatever was recorded and converted keeps to the format's rules.
teardown_file() {
    cd "$BOX"
    echo cut.trace twice >.broken # spoiled on purpose
    python3 -B "$BATS_TEST_DIRNAME/../lib/checked.py" "$BUILD/src/cli/heapwise" "$BOX" || return 1
    cd /
    rm -rf "$BOX"
}

setup() {
    cd "$BOX"
}

has() { [[ $output == *"$1"* ]] || { echo "no '$1' in: $output"; return 1; }; }

# The sum of one of the four values over all samples, as go's pprof reads them.
raw_sum() {
    go tool pprof -raw "$1" 2>/dev/null |
        awk -v c="$2" '/^Locations/ { on = 0 } on && NF > 4 { v = $c; sub(":", "", v); s += v }
                       /^alloc_objects|^Total/ { on = 1 } END { printf "%d\n", s }'
}

json() { python3 -c "import json, sys; d = json.load(open('$1')); $2"; }

@test "report --json, tree --json, stats --json agree with each other" {
    heapwise report --json --top 0 -m alloc_space t.trace >r.json
    heapwise tree --json -m alloc_space t.trace >t.json
    heapwise stats --json t.trace >s.json
    json r.json "
r, t, s = d, json.load(open('t.json')), json.load(open('s.json'))
assert (r['version'], r['type'], t['type'], s['type']) == (1, 'report', 'tree', 'stats')
p = s['processes'][0]
total = r['end']['alloc_space']
assert total > 0 and p['alloc_space'] == total, (total, p)
assert sum(x['alloc_space'] for x in r['sites']) == total
assert sum(n['alloc_space'] for n in t['nodes'] if n['parent'] == 0) == total
assert p['alloc_objects'] == r['end']['alloc_objects'] == r['samples']"
}

@test "tree: options, and what is no metric" {
    run heapwise tree t.trace
    [ "$status" -eq 0 ]
    has "main"
    run heapwise tree --invert --all-frames -m alloc_objects --max-depth 3 --min 0 t.trace
    [ "$status" -eq 0 ]
    run heapwise tree -m bytes t.trace
    [ "$status" -eq 2 ]
    has "unknown metric 'bytes'"
    run heapwise tree --pid 1 t.trace
    [ "$status" -eq 5 ]
    run heapwise tree
    [ "$status" -eq 2 ]
}

@test "stats lists sizes, coverage and losses; --all every statistic" {
    run heapwise stats t.trace
    [ "$status" -eq 0 ]
    has "lost 0"
    has "coverage: 100.0% of samples have a module"
    has "of the allocations exactly"
    heapwise stats --json t.trace >s.json
    json s.json "
p = d['processes'][0]
def same(sizes, what): assert sum(x[what] for x in sizes) == p[what], what
for what in ('alloc_space', 'alloc_objects', 'space', 'objects'):
    same(p['sizes'], what)
    same([x for h in p['heaps'] for x in h['sizes']], what)
    if not p['left_out_functions']:
        same([x for f in p['functions'] for x in f['sizes']], what)
print(*(f'{x[\"up_to\"]},{x[\"alloc_objects\"]},{x[\"alloc_space\"]}' for x in p['sizes'] if x['alloc_objects']), sep='\n')" >by_json
    heapwise query t.trace 'select up_to, sum(alloc_objects) as n, sum(alloc_space) as b
        from heapwise_sizes((select max(upid) from heap_profile_allocation)) group by 1 having n > 0 order by 1' |
        tail -n +2 >by_sql
    diff by_json by_sql
    run heapwise stats --all t.trace
    has "heapprofd"
}

@test "pprof: the four views, by their names, read by go's pprof" {
    command -v go >/dev/null || skip "no go"
    heapwise convert -t pprof t.trace t.pb.gz
    heapwise report --json t.trace >r.json
    for v in alloc_objects alloc_space objects space; do
        run go tool pprof -top -sample_index=$v t.pb.gz
        [ "$status" -eq 0 ]
        has "Type: $v"
    done
    [ "$(raw_sum t.pb.gz 1)" -eq "$(json r.json 'print(d["end"]["alloc_objects"])')" ]
    [ "$(raw_sum t.pb.gz 2)" -eq "$(json r.json 'print(d["end"]["alloc_space"])')" ]
    [ "$(raw_sum t.pb.gz 3)" -eq "$(json r.json 'print(d["end"]["objects"])')" ]
    [ "$(raw_sum t.pb.gz 4)" -eq "$(json r.json 'print(d["end"]["space"])')" ]
    heapwise convert -t pprof --new-names t.trace new.pb
    run go tool pprof -raw new.pb
    has "Total malloc count/count Total malloc size/bytes Unreleased malloc count/count Unreleased"
}

@test "pprof -top says what our report says, function by function, in all four views" {
    command -v go >/dev/null || skip "no go"
    heapwise convert -t pprof t.trace t.pb.gz
    for v in alloc_objects alloc_space objects space; do
        heapwise report --json --top 0 -m $v t.trace >r.json
        go tool pprof -top -sample_index=$v -nodefraction=0 -nodecount=100000 -unit=B t.pb.gz 2>/dev/null |
            sed '1,/flat%/d' | awk '$1 + 0 && $6 ~ /^fn_/ {print $6, $1 + 0}' | sort >theirs
        json r.json "
for s in d['sites']:
    if s['$v'] and s['function'].startswith('fn_'): print(s['function'], s['$v'])" | sort >ours
        [ "$(wc -l <ours)" -gt 10 ]
        diff ours theirs
    done
}

@test "pprof: a function without a name is called by its place, not lumped together" {
    command -v go >/dev/null || skip "no go"
    cp "$BUILD/tests/targets/t_truth" stripped
    strip -s stripped
    heapwise record --no-report -i 1 -o s.trace -- ./stripped >/dev/null
    heapwise convert -t pprof s.trace s.pb.gz
    run go tool pprof -raw s.pb.gz
    has " stripped+0x"
    heapwise convert -t folded -m alloc_space s.trace s.folded
    grep -q 'stripped+0x[0-9a-f]*;' s.folded
}

@test "speedscope: what its schema asks for" {
    heapwise convert -t speedscope -m alloc_space t.trace t.speedscope.json
    heapwise report --json t.trace >r.json
    json t.speedscope.json "
assert d['\$schema'] == 'https://www.speedscope.app/file-format-schema.json'
frames = d['shared']['frames']
assert frames and all(isinstance(f['name'], str) and f['name'] for f in frames)
p = d['profiles'][d.get('activeProfileIndex', 0)]
assert p['type'] == 'sampled' and p['unit'] == 'bytes' and isinstance(p['name'], str)
assert len(p['samples']) == len(p['weights']) > 0
assert all(0 <= i < len(frames) for s in p['samples'] for i in s)
total = json.load(open('r.json'))['end']['alloc_space']
assert p['startValue'] == 0 and p['endValue'] == sum(p['weights']) == total"
}

@test "folded, json and text add up; the format comes from the name" {
    total=$(heapwise report --json t.trace | python3 -c 'import json,sys; print(json.load(sys.stdin)["end"]["alloc_space"])')
    heapwise convert -m alloc_space t.trace t.folded
    [ "$(awk '{ s += $NF } END { printf "%d", s }' t.folded)" -eq "$total" ]
    heapwise convert t.trace t.json
    json t.json "assert d['version'] == 1 and d['type'] == 'heap_profile' and d['functions']"
    heapwise convert -t text t.trace | grep -q alloc_space
    run heapwise convert t.trace t.xyz
    [ "$status" -eq 2 ]
    has "which format? the name 't.xyz' does not say"
    run heapwise convert -t json t.trace /dev/full
    [ "$status" -eq 1 ]
    has "'/dev/full'"
    has "No space left on device"
    run heapwise convert -t nonsense t.trace
    [ "$status" -eq 2 ]
    has "unknown format 'nonsense'"
    run heapwise convert -t folded no-such.trace
    [ "$status" -eq 1 ]
    head -c 300 /dev/zero >junk
    run heapwise convert -t folded junk
    [ "$status" -eq 1 ]
    has "no known format"
    has "heapwise help convert lists the formats"
    head -c $(($(stat -c %s t.trace) - 20)) t.trace >cut.trace
    run heapwise report cut.trace
    has "cut off: the file ends in the middle of a packet"
    python3 -c 'import sys, zipfile, bz2, lzma
t = open("t.trace", "rb").read()
zipfile.ZipFile("t.zip", "w").writestr("t.trace", t); zipfile.ZipFile("none.zip", "w").close()
open("t.bz2", "wb").write(bz2.compress(t)); open("t.xz", "wb").write(lzma.compress(t))
open("t.7z", "wb").write(b"7z\xbc\xaf\x27\x1c" + bytes(100))'
    for is in "t.zip a zip archive; unpack it first (unzip)" "none.zip an empty zip archive" "t.bz2 packed by bzip2" \
              "t.xz packed by xz; unpack it first (xz -d)" "t.7z a 7z archive"; do
        run heapwise report "${is%% *}"
        [ "$status" -eq 1 ]
        has "this is ${is#* }"
        run heapwise report - <"${is%% *}"
        has "this is ${is#* }"
    done
    run heapwise convert -t folded t.trace /no/such/dir/x
    [ "$status" -eq 1 ]
}

@test "on a terminal long output goes through the pager, elsewhere never" {
    on_terminal() { python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$@"; }
    export TERM=xterm
    export PAGER="sed s/^/PAGED:/"
    run on_terminal heapwise tree --no-pager t.trace # else it takes the whole terminal: screen.py
    [[ $output != *PAGED:* ]]
    for c in report stats; do
        run on_terminal heapwise "$c" t.trace
        [ "$status" -eq 0 ]
        has "PAGED:"
        run on_terminal heapwise "$c" --no-pager t.trace
        [[ $output != *PAGED:* ]]
        run heapwise "$c" t.trace
        [[ $output != *PAGED:* ]]
    done
    PAGER=no-such-pager run on_terminal heapwise report t.trace
    HEAPWISE_PAGER=cat run on_terminal heapwise report t.trace
    [[ $output != *PAGED:* ]]
    has "SITE"
}

@test "standard input and output" {
    heapwise convert -t folded - <t.trace >a
    heapwise convert -t folded t.trace - >b
    cmp a b
    gzip -k t.trace
    heapwise convert -t folded t.trace.gz >c
    cmp a c
}

@test "traceconv text, then binary: the same content" {
    traceconv text t.trace t.txt
    traceconv binary t.txt t.bin
    traceconv text t.bin >again.txt
    cmp t.txt again.txt
    protoc --decode_raw <t.bin >/dev/null
    diff <(heapwise report --json t.trace) <(heapwise report --json t.bin)
    diff <(heapwise stats --all t.trace) <(heapwise stats --all t.bin)
    traceconv decompress_packets t.trace t.plain
    diff <(heapwise report --json t.trace) <(heapwise report --json t.plain)
    # Each moment twice: packets are taken in the order of time, so that the parts of two dumps mix, which is said.
    cat t.trace t.trace >twice
    run heapwise stats twice
    [ "$status" -eq 4 ]
    has "heapprofd_missing_packet"
}

@test "traceconv text and decompress_packets refuse what holds no packets" {
    echo 'main;work 3' >stacks.folded
    run -1 traceconv text stacks.folded
    has "is not a Perfetto trace but 'folded'"
    run -1 traceconv decompress_packets stacks.folded out.bin
    has "is not a Perfetto trace"
    head -c 300 /dev/zero >zeros
    run -1 traceconv text zeros
    has "no packet in 300 bytes"
    run -1 traceconv text /dev/null
    has "is empty"
}

@test "traceconv firefox: columns of one length, indexes in range, bytes those of the trace" {
    traceconv firefox t.trace f.json
    python3 - f.json "$(heapwise query t.trace 'select sum(size) from heap_profile_allocation' | tail -1)" <<'E'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["meta"]["preprocessedProfileVersion"] == 48
live = 0
for t in d["threads"]:
    for name, table in t.items():
        if isinstance(table, dict):
            for column in table.values():
                assert not isinstance(column, list) or len(column) == table["length"], (name, table)
    n = {k: v["length"] for k, v in t.items() if isinstance(v, dict)}
    texts, stacks, frames, funcs = t["stringArray"], t["stackTable"], t["frameTable"], t["funcTable"]
    assert all(p is None or p < i for i, p in enumerate(stacks["prefix"]))
    assert all(f < n["frameTable"] for f in stacks["frame"])
    assert all(f < n["funcTable"] for f in frames["func"])
    assert all(s < len(texts) for s in funcs["name"]) and "main" in texts
    assert all(-1 <= r < n["resourceTable"] for r in funcs["resource"])
    assert all(l < len(d["libs"]) for l in t["resourceTable"]["lib"])
    rows = t["nativeAllocations"]
    assert all(s < n["stackTable"] for s in rows["stack"]) and rows["time"] == sorted(rows["time"])
    live += sum(rows["weight"])
assert live == sum(sum(c["samples"]["count"]) for c in d["counters"]) == int(sys.argv[2]), live
E
    echo 'main;work 1' | traceconv firefox - >/dev/null
    run -1 traceconv firefox /dev/null
    has "is empty"
}

@test "traceconv profile: names of the files, where they go, refusals" {
    pid=$(heapwise report --json t.trace | python3 -c 'import json,sys; print(json.load(sys.stdin)["process"]["pid"])')
    run traceconv profile t.trace
    [ "$status" -eq 0 ]
    dir=$(echo "$output" | sed -n 's/^Wrote profiles to \([^ ]*\).*/\1/p')
    [ -d "$dir" ]
    ls "$dir"/heap_dump.1."$pid".pb
    mkdir out
    traceconv profile --output-dir out --pid "$pid" t.trace
    cmp "$dir/heap_dump.1.$pid.pb" "out/heap_dump.1.$pid.pb"
    run traceconv profile --pid 1 t.trace
    [ "$status" -eq 1 ]
    run traceconv text --pid 3 t.trace
    [ "$status" -eq 1 ]
    head -c 300 /dev/zero >junk
    run traceconv profile junk
    [ "$status" -eq 1 ]
    run traceconv nonsense t.trace
    [ "$status" -eq 1 ]
    : >empty
    run traceconv profile empty
    [ "$status" -eq 1 ]
}

@test "query, trace_processor_shell: limits of time and memory end a query that has none" {
    endless="with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    many="with recursive n(i) as (select 1 union all select i + 1 from n limit 3000000) select i from n order by i desc"
    run timeout 20 heapwise query --timeout 300ms t.trace "$endless"
    [ "$status" -eq 1 ]
    [[ "$output" == *"took too long"*"--timeout"* ]]
    run timeout 20 trace_processor_shell --timeout 300ms -Q "$endless" t.trace
    [ "$status" -eq 1 ]
    [[ "$output" == *"took too long"* ]]
    run timeout 20 heapwise query --max-memory 16M t.trace "$many"
    [ "$status" -eq 1 ]
    [[ "$output" == *"more memory"*"--max-memory"* ]]
    timeout 20 heapwise query --timeout 20s --max-memory 1G t.trace "select count(*) from process"
}

@test "a directory in place of a trace: what it is and what to do, in every command" {
    mkdir -p place
    for c in "report place" "tree place" "leaks place" "diff place t.trace" "diff t.trace place" \
        "merge out.trace t.trace place" "merge out.pb.gz t.trace place" "graph place" "infra place" \
        "stats place" "query place select" "convert place x.pb.gz" "symbolize place" \
        "bundle place x.tar" "trace_processor_shell place -Q select" \
        "push --to clickhouse://127.0.0.1:1/x place" "symbolize_trace place" \
        "diff_heap_profiler place" "traceconv text place" "traceconv json place" \
        "traceconv profile place" "traceconv binary place" "traceconv bundle place x.tar"; do
        run heapwise $c
        [ "$status" -ne 0 ]
        has "'place' is a directory; name a trace in it, or ask all of them: heapwise query --all place SQL" ||
            { echo "$c: $output"; return 1; }
    done
    run heapwise explain EISDIR
    has "Name a file in it"
    run heapwise explain heapprofd_malformed_packet
    [ "$status" -eq 0 ]
    has "Cumulative values decreased"
    run heapwise query t.trace -f place
    has "Is a directory (name a file in it)"
}

@test "query --all: one statement over many files, in their order, with limits" {
    rm -rf many && mkdir -p many/deep many/.hidden
    for i in $(seq 1 12); do cp t.trace many/deep/$(printf %02d $i).trace; done
    gzip -c t.trace >many/packed.gz
    cp t.trace many/.hidden/x.trace
    head -c 3000 /dev/zero >many/junk
    one=$(heapwise query t.trace "select count(*) as n, sum(size) as s from heap_profile_allocation" | tail -1)
    run -0 --separate-stderr heapwise query --all -j 3 many \
        "select count(*) as n, sum(size) as s from heap_profile_allocation"
    want='"trace_file","n","s"'
    for i in $(seq 1 12); do want+=$'\n'"\"many/deep/$(printf %02d $i).trace\",$one"; done
    want+=$'\n'"\"many/packed.gz\",$one"
    [ "$output" = "$want" ]
    [ "$stderr" = "1 file without a profile left out" ]

    # what continuous recording and push lay beside profiles is not spoken of
    rm many/junk
    echo '{"written":1,"profiles":0,"processes":[],"unsent":[]}' >many/state.json
    echo 'service=a' >many/packed.gz.labels
    run -0 --separate-stderr heapwise query --all many \
        "select count(*) as n, sum(size) as s from heap_profile_allocation"
    [ "$output" = "$want" ] && [ "$stderr" = "" ]

    # one that cannot be read, one that is not there: the others answer
    head -c 100 /dev/zero >many/deep/05.trace
    run -4 --separate-stderr heapwise query --all many/deep/05.trace many/deep/06.trace nowhere \
        "select count(*) as n, sum(size) as s from heap_profile_allocation"
    [ "$output" = '"trace_file","n","s"'$'\n'"\"many/deep/06.trace\",$one" ]
    [[ "$stderr" == *"many/deep/05.trace"*"cannot open 'nowhere'"*"2 of 3 files"* ]]

    # the same error of all is told once; two results have no common table
    run -1 heapwise query --all many "selec"
    [ "$(grep -c 'syntax error' <<<"$output")" -eq 1 ]
    has "the same of 11 more files"
    run -1 heapwise query --all many "select 1; select 2"
    has "2 results"

    # a share that is too small: the whole, alone; the whole too small: an error with the name
    sum="select sum(length(hex(zeroblob(30000000)))) as n"
    run -0 heapwise query --all -j 8 --max-memory 600M many/deep/06.trace many/deep/07.trace "$sum"
    [ "$(grep -c 60000000 <<<"$output")" -eq 2 ]
    run -1 heapwise query --all --max-memory 75M many/deep/06.trace "$sum"
    has "many/deep/06.trace"
    heapwise query --all -j 4 --timeout 3s --max-memory 512M many/deep \
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n" >/dev/null 2>&1 &
    all=$!
    # a quarter of what all may have
    limited() { child=$(children_of $all | head -1) && grep -q "^Max data size *134217728 " "/proc/$child/limits"; }
    wait_for limited
    kill $all; wait $all || true
    run -2 heapwise query -j 2 t.trace "select 1"
    mkdir many/none
    run -5 heapwise query --all many/none "select 1"
    echo "select 7 as x" >seven.sql
    run -0 --separate-stderr heapwise query --all -f seven.sql many/deep/06.trace
    [ "$output" = '"trace_file","x"'$'\n''"many/deep/06.trace",7' ]
}

@test "damaged files: the place of the fault; a heap dump cut short gives status 4" {
    heapwise convert -t pprof t.trace whole.pb
    head -c 300 whole.pb >cut.pb
    run -1 heapwise report cut.pb
    has "'cut.pb': byte 2"
    has "damaged pprof profile"
    head -c 700 "$BATS_TEST_DIRNAME/../../golden/trace/graph/hprof_hotspot.hprof" >cut.hprof
    run -4 --separate-stderr heapwise graph cut.hprof
    [[ $stderr == *incomplete:* ]] || { echo "$stderr"; false; }
}

@test "convert: a name that ends in .gz is a gzipped file, whatever the format" {
    for format in pprof folded heaptrack svg speedscope; do
        heapwise convert -q -t $format t.trace plain
        heapwise convert -q -t $format t.trace packed.gz
        if [ $format = pprof ]; then
            go tool pprof -raw packed.gz >/dev/null 2>&1
        fi
        gzip -dc packed.gz | cmp - plain
    done
}

@test "convert -t hprof: what compiled code alone names is a root of unknown kind, and reachable" {
    proto=$BATS_TEST_DIRNAME/../../../proto
    protoc -I"$proto" --encode=perfetto.protos.Trace trace.proto heapwise.proto art.proto \
        <"$BATS_TEST_DIRNAME/../../golden/trace/graph/heap_graph_constants.txt" >code.trace
    heapwise convert -q -t hprof code.trace code.hprof
    sql="select c.name, replace(ifnull(o.root_type, '-'), 'COMPILED_CODE', 'UNKNOWN') root, o.reachable
        from heap_graph_object o join heap_graph_class c on c.id = o.type_id
        where c.name like 'a.%' order by 1, 2"
    run -0 --separate-stderr heapwise query code.trace "$sql"
    before=$output
    has '"a.Lonely","ROOT_UNKNOWN",1'
    has '"a.Cache","-",1'
    run -0 --separate-stderr heapwise query code.hprof "$sql"
    [ "$output" = "$before" ] || { echo "$output instead of $before"; false; }
}
