#!/usr/bin/env python3
# perfetto.py HEAPWISE FILE...: a JSON trace made into Perfetto's format, and back, answers the same questions the same way, and keeps to the format.
import json, os, subprocess, sys, tempfile

heapwise, files = sys.argv[1], sys.argv[2:]
work = tempfile.TemporaryDirectory()
QUESTIONS = {
    'snapshots': 'select timestamp, detail_level from memory_snapshot order by timestamp',
    'nodes': 'select s.timestamp, coalesce(p.pid, 0) as pid, n.path, n.size, n.effective_size from memory_snapshot_node n '
             'join process_memory_snapshot x on n.process_snapshot_id = x.id join memory_snapshot s on x.snapshot_id = s.id '
             'left join process p on x.upid = p.upid order by 1, 2, 3',
    'edges': 'select a.path as source, b.path as target, e.importance from memory_snapshot_edge e join memory_snapshot_node a '
             'on e.source_node_id = a.id join memory_snapshot_node b on e.target_node_id = b.id order by 1, 2, 3',
    'attributes': 'select n.path, a.key, a.int_value, a.string_value from memory_snapshot_node n join args a using (arg_set_id) '
                  'order by 1, 2, 3, 4',
    'heaps': 'select h.ts, p.pid, h.heap_name, f.name, sum(h.size) as size, sum(h.count) as count from heap_profile_allocation h '
             'join process p using (upid) join stack_profile_callsite c on h.callsite_id = c.id join stack_profile_frame f '
             'on c.frame_id = f.id group by 1, 2, 3, 4 having size or count order by 1, 2, 3, 4',
    'mappings': 'select ts, pid, path, size_kb, start_address, protection_flags, proportional_resident_kb, module_debugid '
                'from profiler_smaps join process using (upid) order by 1, 2, 5',
    'totals': "select c.ts, t.name, c.value from counter c join process_counter_track t on c.track_id = t.id "
              "where t.name like 'mem.rss' or t.name = 'mem.rss.watermark' order by 1, 2, 3",
    'names': 'select pid, name from process where pid order by 1',
}


def run(*args):
    return subprocess.run([heapwise, *args], check=True, capture_output=True, text=True).stdout


def answers(file):
    return {k: run('query', file, q) for k, q in QUESTIONS.items()}


def objections(file):
    """Of a strict reader, not even warnings: all of them are told."""
    r = subprocess.run([heapwise, 'check', '--strict', file], capture_output=True, text=True)
    return '' if r.returncode == 0 else r.stdout + r.stderr


bad = 0
for file in files:
    base = os.path.join(work.name, os.path.basename(file))
    run('convert', '-t', 'perfetto', file, base + '.pftrace')
    run('convert', '-t', 'perfetto', file, base + '.pftrace.gz')
    run('convert', '-t', 'memory-infra', base + '.pftrace', base + '.json')
    want = answers(file)
    for packed in '', '.gz':
        if objections(base + '.pftrace' + packed):
            print('%s: %s' % (os.path.basename(file), objections(base + '.pftrace' + packed)))
            bad += 1
    for name, other in ('perfetto', base + '.pftrace'), ('packed', base + '.pftrace.gz'), ('back', base + '.json'):
        have = answers(other)
        for k in QUESTIONS:
            # The writer of JSON makes allocators for heaps that have none, folds small callstacks, and tells mappings with code.
            if name == 'back' and (k in ('heaps', 'mappings') or k not in ('totals', 'names') and want['nodes'].count('\n') < 3):
                continue
            if have[k] != want[k]:
                print('%s: %s as %s\n--- %s\n+++ %s' % (os.path.basename(file), k, name, want[k], have[k]))
                bad += 1


# A process's own figures, as a recorder has them: the footprint is what is anonymous and what is swapped out.
def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(v):
    return bytes([v]) if v < 128 else bytes([v & 127 | 128]) + varint(v >> 7)


process = field(1, 7) + field(3, 4000) + field(4, 1000) + field(7, 500) + field(9, 5000)  # pid, rss, anonymous, swap, peak
node = field(1, 1) + field(2, b'malloc') + field(4, 5)
for body in (field(9, field(1, process)), field(73, field(1, 1) + field(3, field(1, 7) + field(2, node)))):
    with open(os.path.join(work.name, 'own'), 'ab') as f:
        f.write(field(1, field(8, 1000) + body))
run('convert', '-t', 'memory-infra', f.name, f.name + '.json')
with open(f.name + '.json') as j:
    totals = [e['args']['dumps']['process_totals'] for e in json.load(j)['traceEvents'] if e['ph'] == 'v']
want = [{'resident_set_bytes': '%x' % 4096000, 'peak_resident_set_bytes': '%x' % 5120000, 'is_peak_rss_resetable': False,
         'private_footprint_bytes': '%x' % 1536000}]
if totals != want:
    print('totals: have %s, want %s' % (totals, want))
    bad += 1
sys.exit(bad > 0)
