#!/usr/bin/env python3
"""massif.py HEAPWISE: a profile whose first dump holds more than its last one, as massif's output: ms_print names the same peak.
And with one dump that one is the peak."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

if not shutil.which('ms_print'):
    print('no ms_print')
    sys.exit(77)
heapwise = os.path.realpath(sys.argv[1])
work = tempfile.TemporaryDirectory()
bad = []


def dump(ts, size):
    maps = {'strings': [{'id': 1, 'string': 'main'}, {'id': 2, 'string': '[unknown]'}], 'nodes': [{'id': 1, 'name_sid': 1}],
            'types': [{'id': 1, 'name_sid': 2}]}
    heap = {'malloc': {'counts': [1], 'sizes': [size], 'types': [1], 'nodes': [1]}}
    return {'ph': 'v', 'cat': 'disabled-by-default-memory-infra', 'name': 'periodic_interval', 'pid': 1, 'tid': -1, 'ts': ts,
            'id': hex(ts), 'args': {'dumps': {'level_of_detail': 'detailed', 'heaps_v2': {'version': 1, 'maps': maps, 'allocators': heap}}}}


def peak(*sizes):
    path, out = os.path.join(work.name, 'in.json'), os.path.join(work.name, 'out.massif')
    with open(path, 'w') as f:
        json.dump({'traceEvents': [dump(1000000 * (i + 1), n) for i, n in enumerate(sizes)]}, f)
    subprocess.run([heapwise, 'convert', '-t', 'massif', path, out], check=True, stderr=subprocess.DEVNULL)
    said = subprocess.run(['ms_print', out], check=True, stdout=subprocess.PIPE, text=True).stdout
    with open(out) as f:
        text = f.read()
    number = re.search(r'(\d+) \(peak\)', said)
    if not number:
        return 'ms_print names no peak'
    row = re.search(r'^ +%s +[\d,]+ +([\d,]+)' % number.group(1), said, re.M)
    kinds = re.findall(r'heap_tree=(\w+)', text)
    return row and row.group(1).replace(',', ''), kinds


for sizes, want in (((90000, 40000), ('90000', ['empty', 'peak', 'detailed'])), ((40000, 90000), ('90000', ['empty', 'peak'])),
                    ((5000,), ('5000', ['empty', 'peak']))):
    have = peak(*sizes)
    if have != want:
        bad.append('%s: have %s, want %s' % (sizes, have, want))
print('\n'.join(bad))
sys.exit(len(bad) > 0)
