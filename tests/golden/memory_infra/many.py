#!/usr/bin/env python3
"""many.py HEAPWISE: files that ask for much work are read in the time their size takes.

Each is some MiB in which one thing occurs so often that a reader slower than in proportion would need minutes; the limit is
CPU time of the whole command, 20 times what it takes here."""
import json
import resource
import subprocess
import sys
import tempfile

heapwise = sys.argv[1]
LIMIT_S = 12
N = 60000


def event(pid, ts, id, **dumps):
    return json.dumps({'ph': 'v', 'name': 'periodic_interval', 'pid': pid, 'ts': ts, 'id': id,
                       'args': {'dumps': {'level_of_detail': 'detailed', **dumps}}}, separators=(',', ':'))


def heap(rows, strings, nodes, types):
    nodes_, types_, sizes, counts = zip(*rows)
    return {'version': 1, 'maps': {'strings': [{'id': i, 'string': s} for i, s in strings],
                                   'nodes': [{'id': i, 'name_sid': s, **({'parent': p} if p else {})} for i, s, p in nodes],
                                   'types': [{'id': i, 'name_sid': s} for i, s in types]},
            'allocators': {'malloc': {'nodes': nodes_, 'types': types_, 'sizes': sizes, 'counts': counts}}}


def attrs(size):
    return {'size': {'type': 'scalar', 'units': 'bytes', 'value': '%x' % size}}


def ask(name, events, question, want):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
        f.write('{"traceEvents":[\n' + ',\n'.join(events) + '\n]}\n')
        f.flush()
        command = question(f.name) if callable(question) else ['query', f.name, question]
        r = subprocess.run([heapwise, *command], capture_output=True, text=True,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S)))
    have = r.stdout.strip().split('\n')[-1]
    if have != want:
        sys.exit('%s: status %d, have %r, want %r\n%s' % (name, r.returncode, have, want, r.stderr))
    print('ok', name, '%.1f s' % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before))


one = heap([(1, 1, 10, 1)], [(1, 'f')], [(1, 1, None)], [(1, 1)])
ask('dumps of one time', [event(1, 0, hex(i + 1), heaps_v2=one) for i in range(N // 2)],
    'select count(*), count(distinct timestamp) from memory_snapshot', '%d,%d' % (N // 2, N // 2))
# The second event of each is told to be where the first dump is.
ask('dumps that turn out to be earlier', [event(p, t, hex(i + 1)) for i in range(N // 4) for p, t in ((1, 10 + i), (2, 5))],
    'select count(*), count(distinct timestamp) from memory_snapshot', '%d,%d' % (N // 4, N // 4))
ask('processes', [event(i + 1, 0, '0x1', heaps_v2=one) for i in range(N // 2)],
    'select count(distinct upid) from heap_profile_allocation', '%d' % (N // 2))
ask('a deep callstack', [event(1, 0, '0x1', heaps_v2=heap([(N, 1, 10, 1)], [(1, 'f')],
                                                          [(i + 1, 1, i) for i in range(N)], [(1, 1)]))],
    'select count(*), sum(size) from heap_profile_allocation', '1,10')
ask('heaps', [event(1, 0, '0x1', heaps_v2={**one, 'allocators': {'h%d' % i: one['allocators']['malloc'] for i in range(N)}})],
    'select count(distinct heap_name), sum(size) from heap_profile_allocation', '%d,%d' % (N, 10 * N))
ask('types', [event(1, 0, '0x1', heaps_v2=heap([(1, i + 1, 2000 + i, 1) for i in range(N)], [(i + 1, 's%d' % i) for i in range(N)],
                                               [(1, 1, None)], [(i + 1, i + 1) for i in range(N)]))],
    lambda f: ['infra', '-q', '--by', 'type', '--max-depth', '1', f], '2000'.rjust(14) + '1'.rjust(11) + '   \u24c9 s0')
ask('children', [event(1, 0, '0x1', heaps_v2=heap([(i + 1, 1, 2000, 1) for i in range(N)], [(1, 'T')] + [(i + 2, 's%d' % i)
                 for i in range(N)], [(i + 1, i + 2, None) for i in range(N)], [(1, 1)]))],
    lambda f: ['infra', '-q', '--by', 'backtrace', f], '2000'.rjust(14) + '1'.rjust(11) + '   \u0192 ' + max('s%d' % i for i in range(N)))
ask('a tree of allocators', [event(1, 0, '0x1', allocators={'a/' + '/'.join(str(i)): {'guid': '%x' % (i + 1), 'attrs': attrs(7)}
                                                            for i in range(N // 10, N)})],
    "select max(size), max(effective_size) from memory_snapshot_node where path = 'a'", '%d,%d' % (7 * N * 9 // 10, 7 * N * 9 // 10))
ask('a chain of owners', [event(1, 0, '0x1', allocators={'n%d' % i: {'guid': '%x' % (i + 1), 'attrs': attrs(7)} for i in range(N)},
                                allocators_graph=[{'source': '%x' % (i + 1), 'target': '%x' % (i + 2), 'type': 'ownership'}
                                                  for i in range(N - 1)])],
    'select count(*), sum(effective_size) from memory_snapshot_node', '%d,7' % N)
ask('owners of one node', [event(1, 0, '0x1', allocators={'n%d' % i: {'guid': '%x' % (i + 1), 'attrs': attrs(3 * N - 3)} for i in range(N)},
                                 allocators_graph=[{'source': '%x' % (i + 2), 'target': '1', 'type': 'ownership'} for i in range(N - 1)])],
    'select count(*), sum(effective_size) from memory_snapshot_node', '%d,%d' % (N, 3 * N - 3))
ask('mappings', [event(1, 0, '0x1', process_mmaps={'vm_regions': [{'sa': '%x' % (i << 12), 'sz': '1000', 'pf': 5, 'mf': '/l%d' % i,
                                                                    'bs': {'pd': '800'}} for i in range(N)]})],
    'select count(*) from profiler_smaps', '%d' % N)
slices = [json.dumps({'ph': 'B', 'name': 's', 'pid': 1, 'tid': 1, 'ts': i}) for i in range(N)]
ask('slices in each other', slices + [json.dumps({'ph': 'E', 'pid': 1, 'tid': 1, 'ts': N + i}) for i in range(N)],
    'select count(*) from slice', '%d' % N)
