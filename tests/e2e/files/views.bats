#!/usr/bin/env bats
# What changed and what grew: leaks, diff, filters of the tree; their gates and JSON.

bats_require_minimum_version 1.5.0

setup_file() {
    BUILD=${HW_BUILD:-$BATS_TEST_DIRNAME/../../../build}
    BUILD=$(cd "$BUILD" && pwd)
    export BUILD PATH=$BUILD/src/cli:$PATH
    BOX=$(mktemp -d)
    export BOX HOME=$BOX TMPDIR=$BOX XDG_CACHE_HOME=$BUILD/cache NO_COLOR=1 LC_ALL=C
    unset LD_PRELOAD
    cd "$BOX"
    heapwise record --no-report -i 1 -c 200 -o leaky.trace -- "$BUILD/tests/targets/t_leaky" 4000
    heapwise record --no-report -i 1 -o one.trace -- "$BUILD/tests/targets/t_leaky"
    heapwise record --no-report -i 4096 -o sampled1.trace -- "$BUILD/tests/targets/t_leaky"
    heapwise record --no-report -i 4096 -o sampled2.trace -- "$BUILD/tests/targets/t_leaky"
}

# Whatever was recorded and converted keeps to the format's rules.
teardown_file() {
    cd /
    python3 -B "$BATS_TEST_DIRNAME/../lib/checked.py" "$BUILD/src/cli/heapwise" "$BOX" || return 1
    rm -rf "$BOX"
}

setup() {
    cd "$BOX"
}

has() { [[ $output == *"$1"* ]] || { echo "no '$1' in: $output"; return 1; }; }
json() { python3 -c "import json, sys; d = json.load(open('$1')); $2"; }

@test "leaks: the leak is first, what looks like one is not" {
    heapwise leaks --json --top 0 leaky.trace >l.json
    json l.json "
rows = {r['function']: r for r in d['rows']}
assert (d['version'], d['type']) == (1, 'leaks')
first = d['rows'][0]
assert first['function'] == 'remember_session' and first['verdict'] == 'likely leak', first
assert first['path'][-3:] == ['handle_request', 'login', 'remember_session'], first['path']
assert first['freed_ratio'] == 0 and first['survival_least'] == 1 and first['p'] < 0.01, first
assert rows['cache_put']['verdict'] == 'cache-like', rows['cache_put']
assert rows['load_table']['verdict'] == 'start-up', rows['load_table']
assert abs(sum(r['space'] for r in d['rows']) - d['space']) < 1
assert all(len(r['history']) == len(d['seconds']) for r in d['rows'])
assert abs(first['history'][-1] - first['history'][0] - first['grown']) < 1"
    run -0 heapwise leaks leaky.trace
    has "likely leak"
    has "called by login < handle_request < main"
}

@test "rows name the callers, and no module for the program itself, whatever it was started as" {
    ln -sf "$BUILD/tests/targets/t_leaky" ./alias
    heapwise record --no-report -i 1 -o alias.trace -- ./alias
    run -0 heapwise report --top 0 alias.trace
    has "alias ("
    has "remember_session < login"
    has "a < b 60%: b called a"
    [[ $output != *t_leaky* ]] || { echo "$output"; return 1; }
    run -0 heapwise leaks alias.trace
    [[ $output != *"(t_leaky)"* ]] || { echo "$output"; return 1; }
    run -0 heapwise tree alias.trace
    has "(alias)"
    [[ $output != *t_leaky* ]] || { echo "$output"; return 1; }
    heapwise tree --json alias.trace >t.json
    heapwise convert -t svg alias.trace alias.svg
    heapwise convert -t html alias.trace alias.html
    grep -q alias t.json && grep -q alias alias.svg && grep -q alias alias.html
    run -1 grep -l t_leaky t.json alias.svg alias.html
    run -0 heapwise diff --all one.trace leaky.trace
    has "remember_session < login"
    heapwise report --json --top 0 alias.trace >c.json
    json c.json "
site = [s for s in d['sites'] if s['function'] == 'remember_session'][0]
assert [c['function'] for c in site['callers']] == ['login', 'handle_request'], site
assert 0.9 < site['callers'][1]['share'] <= site['callers'][0]['share'] < 1, site"
    run -0 heapwise query alias.trace "select t.callers from process p, heapwise_top(p.upid) t where p.name is not null and t.name = 'remember_session'"
    has "login < handle_request"
}

@test "leaks --fail-above: 0 below, 3 above, 2 for what is no size" {
    run -3 heapwise leaks --fail-above 10K leaky.trace
    has "FAILED: likely leaks grew by"
    run -0 heapwise leaks --fail-above 1G leaky.trace
    has "passed: likely leaks grew by"
    run -2 heapwise leaks --fail-above much leaky.trace
    has "--fail-above"
    heapwise leaks --json --fail-above 10K leaky.trace >g.json && false || [ $? -eq 3 ]
    json g.json "assert d['gate'] == {'limit': 10240, 'failed': True}, d['gate']"
}

@test "leaks --suppressions: known ones do not count, but stay in the total" {
    printf '# ours\nleak:^remember_*$\n' >known
    run -0 heapwise leaks --fail-above 10K --suppressions known leaky.trace
    has "suppressed"
    heapwise leaks --json --top 0 --suppressions known leaky.trace >k.json
    json k.json "
assert d['suppressed_rows'] >= 1 and d['likely_leaks_grown'] == 0, d
assert not any(r['function'] == 'remember_session' for r in d['rows'])
assert sum(r['space'] for r in d['rows']) + d['suppressed_space'] == d['space']"
    echo 'race:x' >bad
    run -1 heapwise leaks --suppressions bad leaky.trace
    has "line 1"
}

@test "leaks: one dump is not enough, and says what to do" {
    run -0 heapwise leaks one.trace
    has "record with -c 10s"
    has "not enough data"
    run -5 heapwise leaks --fail-above 1G one.trace
    has "a verdict needs four"
    run -2 heapwise leaks
    run -1 heapwise leaks /nonexistent
}

@test "diff: of one dump there is nothing to compare" {
    run -5 heapwise diff one.trace
    has "one dump of that process"
    has "record with -c 10s"
}

@test "diff: two dumps of one trace, to the byte" {
    heapwise diff --json --a 2 --b 9 --top 0 leaky.trace >d.json
    heapwise query leaky.trace "
        create table d as select ts_end t from heap_profile
            where dump_trigger is null or dump_trigger != 'peak' order by 1;
        select sum(iif(ts <= (select t from d limit 1 offset 1), size, 0)),
            sum(iif(ts <= (select t from d limit 1 offset 8), size, 0))
        from heap_profile_allocation" >d.csv
    json d.json "
assert (d['version'], d['type'], d['metric'], d['same_recording']) == (1, 'diff', 'space', True)
a, b = open('d.csv').read().split()[-1].split(',')
assert (d['total']['a'], d['total']['b']) == (int(a), int(b)), (d['total'], a, b)
assert sum(r['change'] for r in d['rows']) == d['total']['change']
assert all(r['error'] == 0 and r['significant'] for r in d['rows'])
assert d['rows'][0]['function'] in ('remember_session', 'cache_put'), d['rows'][0]"
    run -0 heapwise diff leaky.trace
    has "remember_session"
    run -0 heapwise diff --a last --b last leaky.trace
    has "no difference"
    run -1 heapwise diff --a 1000 leaky.trace
    has "no dump '1000'"
    run -1 heapwise diff --a soon leaky.trace
    has "is not first, last, peak, a number or a time"
}

@test "diff --format: Markdown, JUnit and SARIF have the rows and the verdict of JSON, whatever names hold" {
    heapwise diff --json --a 2 --b 9 --top 0 --fail-above 1 leaky.trace >d.json && false || [ $? -eq 3 ]
    for f in markdown junit sarif; do
        heapwise diff --format $f --a 2 --b 9 --top 0 --fail-above 1 leaky.trace >d.$f && false || [ $? -eq 3 ]
    done
    python3 - <<'EOT'
import json, re, xml.etree.ElementTree as ET
d = json.load(open("d.json"))
rows = d["rows"]
md, *account = open("d.markdown", encoding="utf-8").read().split("\n| Change | A | B | | Whose |\n")
assert not account or "**all resident memory**" in account[0]  # none, if both dumps share one reading
cells = [re.split(r"(?<!\\\\)\|", line)[1:-1] for line in md.splitlines() if line.startswith("| ") and "Change" not in line]
sites = [c[4].strip() for c in cells if len(c) == 5]
assert len(sites) == len(rows) and all(r["function"].replace("|", "\\|") in s for r, s in zip(rows, sites)), (sites, rows)
assert "**FAILED: space changed by" in md
suite = ET.parse("d.junit").getroot()
assert suite.get("failures") == "1" and suite.find(".//failure").get("message").startswith("FAILED: space")
assert len(suite.find(".//failure").text.strip().splitlines()) == len(rows)
sarif = json.load(open("d.sarif"))
assert sarif["version"] == "2.1.0" and sarif["runs"][0]["tool"]["driver"]["name"] == "heapwise"
grew = [r["function"] for r in rows if r["change"] > 0 and r["significant"]]
results = sarif["runs"][0]["results"]
assert [x["locations"][0]["logicalLocations"][0]["name"] for x in results] == grew and all(x["level"] == "error" for x in results)
EOT
    printf 'a`b|c<d>&"e;f 10000\n' >before.folded # names that would end a cell or an element
    printf 'a`b|c<d>&"e;f 90000\n' >after.folded
    run -0 heapwise diff --all --format markdown before.folded after.folded
    has '\|c<d>'
    heapwise diff --all --all-frames --format junit before.folded after.folded >n.xml
    python3 -c 'import xml.etree.ElementTree as ET; ET.parse("n.xml")'
    run -2 heapwise diff --format yaml leaky.trace
    has "--format"
}

@test "diff: two recordings of one program differ by sampling noise only" {
    heapwise diff --json -m alloc_space sampled1.trace sampled2.trace >n.json
    json n.json "
assert not d['same_recording'] and d['total']['error'] > 0
assert abs(d['total']['change']) < 2 * d['total']['error'], d['total']"
    heapwise diff --json one.trace one.trace >same.json
    json same.json "assert d['rows'] == [] and d['total']['change'] == 0"
    run -0 heapwise diff --all sampled1.trace sampled2.trace
}

@test "diff: a trace against its own pprof file is no difference" {
    heapwise convert -t pprof one.trace one.pb.gz
    heapwise diff --json --all one.trace one.pb.gz >p.json
    json p.json "assert d['total']['change'] == 0 and d['rows'] == [], d['rows'][:3]"
    run -0 heapwise diff one.pb.gz one.trace
    has "no difference"
}

@test "diff --fail-above: sizes, shares, counts" {
    run -3 heapwise diff --fail-above 10K leaky.trace
    has "FAILED: space changed by +"
    run -3 heapwise diff --fail-above 5% leaky.trace
    run -0 heapwise diff --fail-above 100000% leaky.trace
    has "passed"
    run -3 heapwise diff -m objects --fail-above 100 leaky.trace
    run -0 heapwise diff --a last --b first --fail-above 0 leaky.trace
    run -2 heapwise diff --fail-above x% leaky.trace
    run -2 heapwise diff
    run -2 heapwise diff a b c
}

@test "tree --filter: keep, drop, splice, re-root, pivot" {
    run -0 heapwise tree -f HS:t_leaky one.trace
    has "they hide nothing"
    run -0 heapwise tree -f HM:t_leaky one.trace
    has "the filters leave nothing"
    run -0 heapwise help filters
    has "HM:  hide such stacks"
    run -0 heapwise tree --filter remember leaky.trace
    has "remember_session"
    [[ $output != *cache_put* ]]
    run -0 heapwise tree --filter HS:remember --filter '!load' leaky.trace
    has "cache_put"
    [[ $output != *remember_session* && $output != *load_table* ]]
    run -0 heapwise tree --filter 'HF:/^handle/' --filter 'SFF:"main"' leaky.trace
    [[ $output != *handle_request* && $output != *_start* ]]
    run -0 heapwise tree --filter 'P:"login"' leaky.trace
    has "called by"
    has "handle_request"
    run -2 heapwise tree --filter 'SS:/(/' leaky.trace
    has "regular expression"
    run -2 heapwise tree --filter SFF:a --filter P:b leaky.trace
    has "only one of"
}

@test "convert -t svg: well-formed, widths are the tree's shares" {
    heapwise convert -t svg leaky.trace g.svg
    heapwise tree --json --all-frames leaky.trace >t.json
    json t.json "
import xml.etree.ElementTree as E
ns = '{http://www.w3.org/2000/svg}'
frames = [g for g in E.parse('g.svg').iter(ns + 'g') if g.get('class') == 'f']
width = {}
for g in frames:
    width[g.get('data-n')] = width.get(g.get('data-n'), 0) + float(g.find(ns + 'rect').get('width'))
if d['ts_ns']:
    all_ = sum(n['space'] for n in d['nodes'] if n['parent'] == 0)
assert abs(width['all'] - 1180) < 0.1, width['all']
assert {'main', 'remember_session', 'load_table'} <= set(width), width.keys()"
    run -0 heapwise convert leaky.trace - -t folded
    awk '{ n = $NF; $NF = ""; if ($0 ~ /load_table/) s += n; t += n } END { printf "%.3f\n", s / t }' <<<"$output" >share
    json t.json "
import re
t = open('g.svg').read()
shares = re.findall(r'<title>load_table [^<]*, ([0-9.]+)%</title>', t)
assert abs(float(shares[0]) / 100 - float(open('share').read())) < 0.002, shares"
}

@test "convert -t html: the figures are the report's; a browser draws them" {
    heapwise convert leaky.trace page.html
    heapwise convert -t json leaky.trace j.json
    json j.json "
import re
page = json.loads(re.search(r'id=\"data\">(.*?)</script>', open('page.html').read(), re.S).group(1))
for k, m in enumerate(['space', 'objects', 'alloc_space', 'alloc_objects']):
    assert sum(page['self'][k]) == sum(s[m] for s in d['stacks']), m
assert all(p < i for i, p in enumerate(page['parent']) if i)"
    browser=$(command -v chromium-headless-shell || command -v chromium) || skip "no chromium"
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$BOX/chromium" \
        --virtual-time-budget=2000 --dump-dom "file://$BOX/page.html" >dom.html 2>/dev/null
    grep -q '<td[^>]*>remember_session' dom.html
    grep -q 'functions</div>' dom.html
}

@test "convert --filter: what tree --filter shows; pprof and pivots are refused" {
    run -0 heapwise convert -t folded --filter SFF:handle_request --filter HS:cache leaky.trace
    [[ $output == handle_request* && $output != *cache_put* ]]
    run -2 heapwise convert -t pprof --filter x leaky.trace x.pb
    has "pprof always holds whole stacks"
    run -2 heapwise convert -t svg --filter P:x leaky.trace x.svg
    has "a pivot (P:) gives two graphs"
}

@test "merge: traces keep every row, each process its own" {
    run -0 heapwise merge all.trace leaky.trace one.trace sampled1.trace
    n=$(for t in leaky one sampled1; do heapwise query $t.trace "select count(*), sum(size) from heap_profile_allocation" | tail -1; done |
        awk -F, '{ n += $1; s += $2 } END { print n "," s }')
    [ "$(heapwise query all.trace "select count(*), sum(size) from heap_profile_allocation" | tail -1)" = "$n" ]
    for t in leaky one sampled1; do
        pid=$(heapwise report --json $t.trace | python3 -c 'import json, sys; print(json.load(sys.stdin)["process"]["pid"])')
        heapwise tree --json --pid "$pid" $t.trace >a.json
        heapwise tree --json --pid "$pid" all.trace >b.json
        cmp a.json b.json
    done
    [ "$(heapwise query all.trace "select sum(value) from stats where severity in ('error', 'data_loss')" | tail -1)" = "$(
        heapwise query leaky.trace "select sum(value) from stats where severity in ('error', 'data_loss')" | tail -1)" ]
    run -1 heapwise merge twice.trace one.trace one.trace
    has "nothing tells it apart"
    [ ! -e twice.trace ]
    run -1 heapwise merge all.trace one.trace
    has "all.trace"
    run -2 heapwise merge all.trace
    run -2 heapwise merge -o other.trace
    run -0 heapwise merge -o other.trace leaky.trace one.trace sampled1.trace
    cmp other.trace all.trace
    run -0 heapwise merge -f -o other.trace sampled1.trace leaky.trace one.trace
    cmp other.trace all.trace
    run -0 heapwise check other.trace
    has "nothing found"
}

@test "merge: into pprof, values add up, as go's pprof sees it" {
    heapwise convert one.trace a.pb.gz
    heapwise convert sampled1.trace b.pb
    run -0 heapwise merge sum.pb.gz a.pb.gz b.pb one.trace
    heapwise convert -t json sum.pb.gz s.json
    heapwise convert -t json one.trace o.json
    heapwise convert -t json sampled1.trace p.json
    json s.json "
o, p = json.load(open('o.json')), json.load(open('p.json'))
for m in ['space', 'objects', 'alloc_space', 'alloc_objects']:
    total = lambda x: sum(s[m] for s in x['stacks'])
    assert total(d) == 2 * total(o) + total(p), (m, total(d), total(o), total(p))
assert len(d['stacks']) <= len(o['stacks']) + len(p['stacks'])"
    run -1 heapwise merge x.trace a.pb.gz
    has "is not a trace"
    command -v go >/dev/null || skip "no go"
    run -0 go tool pprof -sample_index=alloc_space -top sum.pb.gz
    has "parse_request"
}

# dumps TRACE MS:BYTES[:TRIGGER]...: one process, one function.
dumps() {
    local out=$1 dump i=0
    shift
    {
        echo 'packet { trusted_packet_sequence_id: 1 clock_snapshot { clocks { clock_id: 6 timestamp: 1 } clocks { clock_id: 4 timestamp: 1 } primary_trace_clock: BUILTIN_CLOCK_BOOTTIME } }
            packet { trusted_packet_sequence_id: 3 sequence_flags: 1 interned_data { function_names { iid: 1 str: "keep" }
                mapping_paths { iid: 1 str: "prog" } mappings { iid: 1 path_string_ids: 1 }
                frames { iid: 1 function_name_id: 1 mapping_id: 1 } callstacks { iid: 1 frame_ids: 1 } } }'
        for dump; do
            IFS=: read -r ms bytes trigger <<<"$dump"
            echo "packet { trusted_packet_sequence_id: 3 timestamp: ${ms}000000 profile_packet { index: $((i++)) process_dumps { pid: 7
                heap_name: 'libc.malloc' timestamp: ${ms}000000 start_timestamp: 1000000 sampling_interval_bytes: 1
                ${trigger:+[heapwise.protos.trigger]: '$trigger'}
                samples { callstack_id: 1 self_allocated: $bytes alloc_count: 10 } } } }"
        done
    } | protoc -I"$BATS_TEST_DIRNAME/../../../proto" --encode=perfetto.protos.Trace trace.proto heapwise.proto >"$out"
}

@test "report --peak -m alloc_space: what was allocated until the peak, as in the tree" {
    heapwise record --no-report -i 1 -o freed.trace -- "$BUILD/tests/targets/t_refuse" free 20
    heapwise report --json --top 0 --peak -m alloc_space freed.trace >p.json
    heapwise report --json --top 0 -m alloc_space freed.trace >e.json
    heapwise tree --json --peak -m alloc_space freed.trace >t.json
    python3 -c "
import json
p, e, t = (json.load(open(f + '.json')) for f in 'pet')
until = {s['function']: s['alloc_space'] for s in p['sites']}
ever = {s['function']: s['alloc_space'] for s in e['sites']}
assert (p['sites_at'], e['sites_at']) == ('peak', 'end')
assert until['fn_a'] == ever['fn_a'] > 0
assert ever['fn_b'] == 100 * 1000 and not until.get('fn_b'), until
assert sum(until.values()) == sum(n['alloc_space'] for n in t['nodes'] if n['parent'] == 0) > 0"
    run -0 heapwise report --peak -m alloc_space freed.trace
    has "what was allocated until the peak at"
}

@test "report: the change is since a dump that is clearly before, and dumps of the peak make no trend" {
    dumps stairs.trace 1000:1000000 2000:2000000 3000:3000000 4000:4000000 5000:5000000 5010:5000000
    run -0 heapwise report stairs.trace
    [[ $output =~ 4\.77\ MiB\ +\+976\.6\ KiB\ .*keep.*growing ]] || { echo "$output"; return 1; }
    dumps peaks.trace 1000:1000000 2000:2000000:peak 3000:3000000:peak 4000:4000000:peak 5000:5000000 6000:5500000
    run -0 heapwise report peaks.trace
    [[ $output =~ 5\.25\ MiB\ +\+488\.3\ KiB\ .*keep && $output != *growing* ]] || { echo "$output"; return 1; }
}

@test "heaps that do not add up are shown one by one, everywhere" {
    protoc -I"$BATS_TEST_DIRNAME/../../../proto" --encode=perfetto.protos.Trace trace.proto heapwise.proto art.proto \
        <"$BATS_TEST_DIRNAME/../../golden/trace/graph/unlike_heaps.txt" >unlike.trace
    heapwise report --json --top 0 unlike.trace >r.json || true
    json r.json "
assert d['end']['space'] == 3000000 + 400000 + 600000, d['end']
assert d['end']['alloc_space'] == 5500000 + 400000 + 600000, d['end']
assert d['interval_bytes'] == 4096, d['interval_bytes']
assert {h['name']: (h['space'], h['alloc_space']) for h in d['other_heaps']} == {
    'java.alloc': (20000000, 95000000), 'com.android.art': (90000000, 90000000)}, d['other_heaps']
assert {r['function']: r['space'] for r in d['sites']} == {'Shop.order': 3600000, 'main': 400000}, d['sites']
"
    heapwise report --json --heap java.alloc unlike.trace >r.json || true
    json r.json "
assert (d['end']['space'], d['interval_bytes'], d['process']['pid']) == (20000000, 65536, 7), d
assert sorted(h['name'] for h in d['other_heaps']) == ['com.android.art', 'libc.malloc', 'pool'], d['other_heaps']
"
    heapwise report --json --heap com.android.art unlike.trace >r.json || true
    json r.json "assert d['end']['alloc_space'] == 90000000, d['end']"
    heapwise report --json --pid 8 unlike.trace >r.json || true
    json r.json "assert (d['end']['space'], d['other_heaps']) == (2000000, []), d"
    run heapwise report unlike.trace
    has "not in these figures: java.alloc   live 19.1 MiB   allocated 90.6 MiB   (--heap java.alloc)"
    has "not in these figures: com.android.art   allocated 85.8 MiB   (--heap com.android.art)"
    run heapwise report --heap java.alloc unlike.trace
    has "Shop.order: Shop\$Order"
    run -5 heapwise report --heap nothing unlike.trace
    has "no profile of a heap 'nothing'; there is com.android.art, java.alloc, libc.malloc, pool"
    [[ $(heapwise convert -t folded unlike.trace - | awk '{n += $NF} END {print n}') == 4000000 ]]
    [[ $(heapwise convert -t folded --heap java.alloc unlike.trace - | awk '{n += $NF} END {print n}') == 20000000 ]]
    [[ $(heapwise convert -t folded --heap pool unlike.trace - | awk '{n += $NF} END {print n}') == 600000 ]]
    run heapwise tree unlike.trace
    has "3.81 MiB"
    run heapwise stats unlike.trace
    has "heap java.alloc: 2 dumps; live 19.1 MiB; allocated 90.6 MiB; samples 1450; not in the figures below"
    has "interval 4 KiB"
    [[ $output != *"to 1 MiB           170 allocations"*"to 1 MiB           170 allocations"* ]]
    heapwise diff --json --a first --b last unlike.trace >d.json || true
    json d.json "assert (d['total']['a'], d['total']['b']) == (4000000, 4000000), d['total']"
    heapwise diff --json --heap java.alloc --a first --b last unlike.trace >d.json || true
    json d.json "assert (d['total']['a'], d['total']['b']) == (10000000, 20000000), d['total']"
    run heapwise query unlike.trace "select space from heapwise_tree((select upid from process where pid = 7)) where id = 0"
    has "4000000"
    run heapwise query unlike.trace "select space from heapwise_tree((select upid from process where pid = 7), null, null, 'java.alloc') where id = 0"
    has "20000000"
}
