#!/usr/bin/env bats
# memory-internals from the command line; the page and whole programs: tests/browser/internals.mjs

load lib/wait

setup() {
    H="$HW_BUILD/src/cli/heapwise"
    cd "$BATS_TEST_TMPDIR"
    PYTHON=$(python3 -c 'import sys; print(sys.executable)')
    "$PYTHON" -c '
import time
kept = []
while True:
    kept = (kept + [bytearray(20000)])[-500:]
    if len(kept) == 500:
        open("ready", "a").close()
    time.sleep(0.002)' 3>&- &
    PID=$!
    wait_for test -e ready
}

teardown() {
    "$H" memory-internals stop "$PID" >/dev/null 2>&1 || true
    "$H" memory-internals mode manual >/dev/null 2>&1 || true
    kill -9 "$PID" 2>/dev/null || true
}

tracked() {
    "$H" memory-internals --json |
        python3 -c 'import json, sys; print(any(p[0] == int(sys.argv[1]) and p[2] for p in json.load(sys.stdin)["processes"]))' "$PID"
}

# Each save reads the mappings anew; without an answer within 0.2 s (a busy machine) the file has the profile's only.
saved_regions() {
    "$H" memory-internals save -q -f "$PID" -o regions.json.gz
    gzip -dc regions.json.gz >saved.json
    python3 - "$PID" <<'END'
import json, re, sys
now = {}
for l in open(f"/proc/{sys.argv[1]}/maps"):
    m = re.match(r"(\w+)-(\w+) (....) \S+ \S+ \d+ *(.*)", l)
    now[int(m[1], 16)] = (4 * (m[3][0] == "r") + 2 * (m[3][1] == "w") + (m[3][2] == "x"), m[4])
dumps = [e["args"]["dumps"] for e in json.load(open("saved.json"))["traceEvents"] if e["ph"] == "v"]
regions = next(d["process_mmaps"]["vm_regions"] for d in dumps if "process_mmaps" in d)
if not any("bs" in r for r in regions):
    sys.exit(1)
told = {int(r["sa"], 16): (r["pf"] & 7, r["mf"]) for r in regions}
files = {k: v for k, v in now.items() if v[1].startswith("/usr")} # those of the heap come and go
assert files and all(told.get(k) == v for k, v in files.items()), (files, told)
assert sum(int(r["bs"]["pd"], 16) for r in regions if "bs" in r) > 5e6
END
}

@test "start, list, save, infra, stop; an older file stays" {
    run "$H" memory-internals start "$PID" --memlog-sampling-rate 5000 --memlog-stack-mode mixed
    [ "$status" -eq 0 ]
    [[ "$output" == *"process $PID is tracked from now on"* ]]
    run "$H" memory-internals start "$PID"
    [ "$status" -eq 0 ]
    [[ "$output" == *"already tracked"* ]]
    [ "$(tracked)" = True ]
    sleep 1 # it allocates: that is what is saved
    run "$H" memory-internals save "$PID"
    [ "$status" -eq 0 ]
    [ -s trace_with_heap_dump.json.gz ] && [ -s trace_with_heap_dump.trace ]
    "$H" memory-internals save -q "$PID"
    [ -s trace_with_heap_dump.2.json.gz ]
    wait_for saved_regions
    run "$H" memory-internals save "$PID" -o trace_with_heap_dump.json.gz
    [ "$status" -eq 1 ]
    [[ "$output" == *"--force overwrites it"* ]]
    run "$H" infra trace_with_heap_dump.json.gz
    [ "$status" -eq 0 ]
    [[ "$output" == *"malloc"* ]]
    gzip -dc trace_with_heap_dump.json.gz | grep -q '"malloc/metadata_fragmentation_caches"' # malloc told, too
    "$H" query trace_with_heap_dump.trace "select sum(size) > 5000000 from heap_profile_allocation" | grep -qx 1
    run "$H" memory-internals stop "$PID"
    [ "$status" -eq 0 ]
    [ "$(tracked)" = False ]
    run "$H" memory-internals save "$PID"
    [ "$status" -eq 5 ]
    [[ "$output" == *"[not-tracked]"* ]]
}

@test "a mode by name; the older name of all; what is no mode" {
    run "$H" memory-internals mode name:no-such-program
    [ "$status" -eq 0 ]
    [[ "$output" == *"mode 'name:no-such-program'"* ]]
    run "$H" memory-internals mode
    [[ "$output" == "name:no-such-program: "* ]]
    run "$H" memory-internals mode manual
    [[ "$output" == "manual: "* ]]
    run "$H" memory-internals mode sometimes
    [ "$status" -eq 2 ]
    [[ "$output" == *"'sometimes' is not a mode"* ]]
    run "$H" serve --memlog sometimes
    [ "$status" -eq 2 ]
    run "$H" memory-internals --enable-heap-profiling=wrong
    [ "$status" -eq 2 ]
    [[ "$output" == *"--enable-heap-profiling 'wrong' is not known"* ]]
    "$H" help memory-internals | grep -q -- '--enable-heap-profiling\[=MODE\]'
}

@test "a process that executes another program is tracked no more, and nothing stays behind" {
    bash -c 'until [ -e go ]; do sleep 0.1; done; exec sleep 60' 3>&- &
    local pid=$!
    "$H" memory-internals start "$pid"
    recorded() {
        "$H" ps --json | python3 -c 'import json, sys; print(any(int(sys.argv[1]) in r["pids"] for r in json.load(sys.stdin)["recordings"]))' "$pid"
    }
    [ "$(recorded)" = True ]
    touch go
    ended() { [ "$(recorded)" = False ]; }
    wait_for ended
    run "$H" memory-internals stop "$pid"
    [ "$status" -eq 1 ]
    [[ "$output" == *"is not tracked"* ]]
    [ "$(recorded)" = False ]
    kill "$pid"
}

@test "a recorder that does not answer is named, and what it records is not taken for nothing" {
    "$H" memory-internals start "$PID" >/dev/null
    RECORDER=$("$H" ps --json | python3 -c 'import json, sys; print(next(r["recorder_pid"] for r in json.load(sys.stdin)["recordings"] if int(sys.argv[1]) in r["pids"]))' "$PID")
    kill -STOP "$RECORDER"
    run "$H" ps
    [[ "$output" == *"recorder $RECORDER does not answer"* ]]
    "$H" ps --json 2>/dev/null | python3 -c 'import json, sys; sys.exit(int(sys.argv[1]) not in json.load(sys.stdin)["silent_recorders"])' "$RECORDER"
    run "$H" memory-internals stop "$PID"
    [ "$status" -ne 0 ]
    [[ "$output" == *"recorder $RECORDER does not answer"* ]]
    kill -CONT "$RECORDER"
    run "$H" memory-internals stop "$PID"
    [ "$status" -eq 0 ]
    run "$H" ps
    [[ "$output" != *"does not answer"* ]]
}
