#!/usr/bin/env python3
"""whole.py HEAPWISE HERE: convert -t memory-infra keeps what a dump says of a process that has neither allocators nor a heap,
totals of other names, edges that begin at a global node; the machine's architecture is the trace's, or unknown."""
import json
import os
import subprocess
import sys
import tempfile

heapwise = os.path.realpath(sys.argv[1])
work = tempfile.TemporaryDirectory()
bad = []


def convert(path):
    out = os.path.join(work.name, 'out.json')
    subprocess.run([heapwise, 'convert', '-t', 'memory-infra', path, out], check=True, stdout=subprocess.DEVNULL)
    with open(out) as f:
        return json.load(f)


def node(guid, size):
    return {'guid': guid, 'attrs': {'size': {'type': 'scalar', 'units': 'bytes', 'value': size}}}


def event(pid, dumps):
    return {'ph': 'v', 'cat': 'disabled-by-default-memory-infra', 'name': 'periodic_interval', 'pid': pid, 'tid': -1, 'ts': 1000,
            'id': '0x1', 'args': {'dumps': dict(dumps, level_of_detail='detailed')}}


def expect(what, have, want):
    if have != want:
        bad.append('%s: have %s, want %s' % (what, have, want))


events = [
    event(1, {'allocators': {'malloc': node('a1', '40'), 'global/view': node('b1', '10'), 'global/seg': node('b2', '10')},
              'allocators_graph': [{'source': 'b1', 'target': 'b2', 'importance': 3, 'type': 'ownership'}],
              'process_totals': {'resident_set_bytes': '1000', 'gpu_bytes': '20'}}),
    event(2, {'process_totals': {'resident_set_bytes': '2000', 'private_footprint_bytes': '800'}}),
    event(3, {'process_totals': {'private_footprint_bytes': '900'}}),
]
path = os.path.join(work.name, 'in.json')
with open(path, 'w') as f:
    json.dump({'traceEvents': events, 'metadata': {'product-version': 'X/1', 'os-name': 'Linux', 'user-agent': ''}}, f)
trace = convert(path)
dumps = {e['pid']: e['args']['dumps'] for e in trace['traceEvents'] if e['ph'] == 'v'}
expect('totals', {pid: d.get('process_totals') for pid, d in dumps.items()},
       {1: {'resident_set_bytes': '1000', 'gpu_bytes': '20'}, 2: {'resident_set_bytes': '2000', 'private_footprint_bytes': '800'},
        3: {'private_footprint_bytes': '900'}})
expect('edges', dumps.get(1, {}).get('allocators_graph'), events[0]['args']['dumps']['allocators_graph'])
expect('architecture', trace['metadata']['os-arch'], 'unknown')


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(v):
    return bytes([v]) if v < 128 else bytes([v & 127 | 128]) + varint(v >> 7)


with open(path, 'wb') as f:  # a trace: SystemInfo.utsname.machine, and process stats
    f.write(field(1, field(8, 1000) + field(45, field(1, field(1, b'Linux') + field(4, b'riscv64')))))
    f.write(field(1, field(8, 1000) + field(9, field(1, field(1, 7) + field(3, 4000)))))
expect('architecture of a trace', convert(path)['metadata']['os-arch'], 'riscv64')
print('\n'.join(bad))
sys.exit(len(bad) > 0)
