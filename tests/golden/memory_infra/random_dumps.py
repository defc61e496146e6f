#!/usr/bin/env python3
"""random_dumps.py HEAPWISE [DUMPS [SEED]]: a file of random global dumps - trees, owners by importance, weak nodes, global
nodes, several processes, events and damage - whose sizes are computed here a second time, node by node in fractions, from the
JSON alone; and convert there (JSON) and back, whose file tells the same."""
import collections
import csv
import fractions
import json
import os
import random
import subprocess
import sys
import tempfile

heapwise = os.path.realpath(sys.argv[1])
n_dumps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
INT64_MAX = 2**63 - 1
NODES = ('select s.timestamp / 1000 as ts, coalesce(p.pid, 0) as pid, n.path, n.size, n.effective_size from memory_snapshot_node n '
         'join process_memory_snapshot x on n.process_snapshot_id = x.id join memory_snapshot s on x.snapshot_id = s.id '
         'left join process p on x.upid = p.upid')
EDGES = ('select s.timestamp / 1000 as ts, coalesce(p.pid, 0) as pid, a.path, coalesce(q.pid, 0) as other, b.path, e.importance '
         'from memory_snapshot_edge e join memory_snapshot_node a on e.source_node_id = a.id '
         'join memory_snapshot_node b on e.target_node_id = b.id join process_memory_snapshot x on a.process_snapshot_id = x.id '
         'join process_memory_snapshot y on b.process_snapshot_id = y.id join memory_snapshot s on x.snapshot_id = s.id '
         'left join process p on x.upid = p.upid left join process q on y.upid = q.upid')
ATTRS = ('select s.timestamp / 1000 as ts, coalesce(p.pid, 0) as pid, n.path, a.key, coalesce(a.int_value, a.string_value) '
         'from memory_snapshot_node n join args a using (arg_set_id) join process_memory_snapshot x '
         'on n.process_snapshot_id = x.id join memory_snapshot s on x.snapshot_id = s.id left join process p on x.upid = p.upid')
TOTALS = ('select c.ts / 1000 as ts, p.pid, t.name, cast(c.value as int) from counter c join process_counter_track t '
          'on c.track_id = t.id join process p using (upid)')


def scalar(value, units):
    return {'type': 'scalar', 'units': units, 'value': '%x' % value}


# ---- dumps ----

def random_attrs(large):
    attrs = {}
    if rng.random() < 0.6:
        attrs['size'] = scalar(rng.choice((0, 1, 7, rng.randrange(100), rng.randrange(5000))) << large, 'bytes')
    if rng.random() < 0.3:
        attrs['object_count'] = scalar(rng.randrange(100), 'objects')
    if rng.random() < 0.1:
        attrs['kind'] = {'type': 'string', 'units': '', 'value': rng.choice(('tile', 'font'))}
    if rng.random() < 0.03:
        attrs[rng.choice(('size', 'object_count', 'locked'))] = scalar(2**63 + rng.randrange(2**63), 'bytes')
    return attrs


def random_paths(first, n):
    return {'/'.join([rng.choice(first)] + [rng.choice('abc') for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))]) for _ in range(n)}


def random_dump(number):
    """Events of one global dump, in the order of the file."""
    guids, events = {}, []
    large = rng.choice((0, 0, 0, 20, 40))
    weak = rng.choice((0, 0, 0.1, 0.3))
    shared = sorted(p for p in random_paths(['global'], rng.randrange(6)) if '/' in p)
    for pid in range(1, rng.randrange(2, 5)):
        paths = sorted(random_paths(['malloc', 'shm', 'v8', 'tracing', 'skia'], rng.randrange(1, 12)))
        paths += [p for p in shared if rng.random() < 0.6]
        if 'malloc' in paths and rng.random() < 0.5:
            paths = sorted(set(paths) | {'tracing', 'malloc/allocated_objects'})
        rng.shuffle(paths)
        nodes = {}
        for path in paths:
            owner = 0 if path.startswith('global/') else pid
            guid = guids.setdefault((owner, path), '%x' % (number << 20 | (len(guids) + 1)))
            nodes[path] = {'guid': guid, 'attrs': random_attrs(large)}
            if rng.random() < weak:
                nodes[path]['flags'] = 1
            if rng.random() < 0.05 and owner:
                del nodes[path]['guid']
        parts = [nodes]
        if pid == 1 and rng.random() < 0.1:
            parts = [{}]
        elif rng.random() < 0.2:
            parts = [{p: n for p, n in nodes.items() if p < 'm'}, {p: n for p, n in nodes.items() if p >= 'm'}]
        for part in parts:
            dumps = {'level_of_detail': 'detailed', **({'allocators': part} if part else {})}
            if part is parts[0] and (not part or rng.random() < 0.5):
                dumps['process_totals'] = {'resident_set_bytes': '%x' % rng.randrange(1 << 40),
                                           'private_footprint_bytes': '%x' % rng.randrange(1 << 62)}
            events.append({'ph': 'v', 'cat': 'disabled-by-default-memory-infra', 'name': 'periodic_interval', 'pid': pid, 'tid': -1,
                           'ts': number * 1000000, 'id': '0x%x' % number, 'args': {'dumps': dumps}})
    add_edges(events, guids, number)
    rng.shuffle(events)
    return events


def add_edges(events, guids, number):
    """Owners that nothing which they own comes to in turn: a ring is refused, and where it is cut is no rule."""
    before = collections.defaultdict(set)  # what must be computed before
    overheads = [(pid, 'malloc/allocated_objects/tracing_overhead') for pid in range(1, 5)]
    for owner, path in [*guids, *overheads]:
        names = path.split('/')
        for n in range(1, len(names)):
            before[owner, '/'.join(names[:n])].add((owner, '/'.join(names[:n + 1])))
    for pid, path in overheads:
        before[pid, path].add((pid, 'tracing'))

    def reaches(a, b, seen):
        if a == b:
            return True
        seen.add(a)
        return any(x not in seen and reaches(x, b, seen) for x in before[a])

    known, owning = sorted(guids), set()
    for _ in range(rng.randrange(3 * len(known) // 2 + 1)):
        source, target = rng.choice(known), rng.choice(known)
        if rng.random() < 0.4:
            target = rng.choice([k for k in known if k[0] == 0] or known)
        if source == target or reaches(source, target, set()):
            continue
        edge = {'source': guids[source], 'target': guids[target], 'importance': rng.choice((0, 0, 1, 2, 5)), 'type': 'ownership'}
        if rng.random() < 0.05:
            edge['target'] = '%x' % (number << 20 | 0xfffff)
        elif rng.random() < 0.05:
            edge['type'] = 'retention'
        elif source in owning:
            continue
        else:
            if rng.random() < 0.03:
                edge['importance'] = 2**63 + rng.randrange(2**70)
            for e in events if source[0] == 0 else []:  # what it took over would be told when it is written
                e['args']['dumps'].get('allocators', {}).get(source[1], {'attrs': {}})['attrs'].update(
                    object_count=scalar(9, 'objects'), kind={'type': 'string', 'units': '', 'value': 'own'})
            owning.add(source)
            before[target].add(source)
        if edge['importance'] == 0 and rng.random() < 0.5:
            del edge['importance']
        rng.choice(events)['args']['dumps'].setdefault('allocators_graph', []).append(edge)


# ---- what they say, told once more ----

class Node:
    def __init__(self, key, parent):
        self.key, self.parent, self.children, self.attrs, self.guid = key, parent, [], {}, None
        self.told, self.weak, self.owns, self.owners, self.importance = False, False, None, [], 0
        self.size = self.not_owning = self.not_owned = None
        self.owning = self.owned = fractions.Fraction(1)


class Dump:
    def __init__(self, events):
        self.nodes, self.by_guid = {}, {}
        for e in events:
            for path, told in e['args']['dumps'].get('allocators', {}).items():
                self.tell(0 if path.startswith('global/') else e['pid'], path, told)
        for e in events:
            for edge in e['args']['dumps'].get('allocators_graph', []):
                self.link(edge)
        self.drop_weak()
        self.link_tracing()
        self.inherit()
        for n in list(self.nodes.values()):
            self.size_of(n)
            self.sum_attrs(n)
        self.charge()

    def node(self, key):
        if key not in self.nodes:
            parent = self.node((key[0], key[1].rsplit('/', 1)[0])) if '/' in key[1] else None
            self.nodes[key] = n = Node(key, parent)
            if parent:
                parent.children.append(n)
        return self.nodes[key]

    def tell(self, owner, path, told):
        n = self.node((owner, path))
        weak = bool(told.get('flags', 0) & 1)
        n.weak = weak and (n.weak or not n.told)
        n.told = True
        n.guid = told.get('guid')
        if n.guid:
            self.by_guid[n.guid] = n
        if n.attrs:
            return
        for name, a in told['attrs'].items():
            value = a['value'] if a['type'] == 'string' else int(a['value'], 16)
            if a['type'] == 'string' or value <= INT64_MAX:
                n.attrs[name] = (value, a['units'])

    def link(self, edge):
        source, target = self.by_guid.get(edge['source']), self.by_guid.get(edge['target'])
        if edge['type'] == 'ownership' and source and target and not source.owns:
            importance = edge.get('importance', 0)
            self.own(source, target, importance if importance <= INT64_MAX else 0)

    def own(self, source, target, importance):
        source.owns, source.importance = target, importance
        target.owners.append(source)

    def drop_weak(self):
        gone, more = {n for n in self.nodes.values() if n.weak}, True
        while more:
            more = [n for n in self.nodes.values() if n not in gone and (
                n.parent in gone or n.owns in gone or (not n.told and all(c in gone for c in n.children)))]
            gone.update(more)
        self.nodes = {k: n for k, n in self.nodes.items() if n not in gone}
        for n in self.nodes.values():
            n.children = [c for c in n.children if c not in gone]
            n.owners = [o for o in n.owners if o not in gone]

    def link_tracing(self):
        for pid in {k[0] for k in self.nodes} - {0}:
            tracing = self.nodes.get((pid, 'tracing'))
            if tracing and not tracing.owns and (pid, 'malloc') in self.nodes:
                self.own(tracing, self.node((pid, 'malloc/allocated_objects/tracing_overhead')), 0)

    def inherit(self):
        for n in list(self.nodes.values()):
            if n.key[0] == 0:
                self.sum_attrs(n)
        left = [n for n in self.nodes.values() if n.key[0] == 0]
        while left:
            n = next(n for n in left if n.owns not in left)
            left.remove(n)
            for o in n.owners:
                o.attrs = {**n.attrs, **o.attrs}

    def below(self, n, top):
        return n is not None and (n is top or self.below(n.parent, top))

    def walked(self, n, top):
        if self.below(n.owns, top):
            return []
        return sum((self.walked(c, top) for c in n.children), []) if n.children else [n.size] if n.size is not None else []

    def size_of(self, n):
        if n.size is not None or n.not_owned == 'none':
            return n.size
        n.not_owned = 'none'
        for other in n.children + n.owners:
            self.size_of(other)
        below = sum((self.walked(c, n) for c in n.children), [])
        found = [sum(below)] * bool(below) + [o.size for o in n.owners if o.size is not None]
        found += [n.attrs['size'][0]] if 'size' in n.attrs else []
        n.size = max(found, default=None)
        if n.children and found and n.size > sum(below):
            rest = self.node((n.key[0], n.key[1] + '/<unspecified>'))
            rest.size = n.size - sum(below)
        return n.size

    def sum_attrs(self, n):
        sums = {}
        for c in n.children:
            for name, (value, units) in self.sum_attrs(c).items():
                if name != 'size' and not isinstance(value, str):
                    sums[name] = (sums.get(name, (0, units))[0] + value, units)
        n.attrs = {**sums, **n.attrs}
        return n.attrs

    def charge(self):
        for n in self.nodes.values():
            self.sub_sizes(n)
        for n in self.nodes.values():
            if n.size is not None and n.owners:
                self.charge_owners(n)

    def sub_sizes(self, n):
        """(what nothing below it owns elsewhere, what no owner below it has)"""
        if n.size is None:
            n.not_owning = n.not_owned = 0
        elif not n.children:
            n.not_owning = n.not_owned = n.size
        else:
            n.not_owning = sum(self.sub_sizes(c)[0] for c in n.children if not c.owns)
            n.not_owned = sum((c.size or 0) - max(o.size or 0 for o in c.owners) if c.owners else self.sub_sizes(c)[1]
                              for c in n.children)
        return n.not_owning, n.not_owned

    def charge_owners(self, n):
        charged = 0
        for rank in sorted({o.importance for o in n.owners}, reverse=True):
            equals = sorted((o for o in n.owners if o.importance == rank), key=lambda o: o.not_owning)
            share = fractions.Fraction(0)
            for i, o in enumerate(equals):
                if o.not_owning > charged:
                    share += fractions.Fraction(o.not_owning - charged, len(equals) - i)
                    charged = o.not_owning
                if o.not_owning:
                    o.owning = share / o.not_owning
        if n.not_owned:
            n.owned = fractions.Fraction(max(n.not_owned - charged, 0), n.not_owned)

    def owned_in_all(self, n):
        return n.owned * (self.owned_in_all(n.parent) if n.parent else 1)

    def owning_in_all(self, n):
        if n.owns:
            return n.owning * self.owning_in_all(n.owns)
        return self.owning_in_all(n.parent) if n.parent else fractions.Fraction(1)

    def effective(self, n):
        if n.children:
            return sum(self.effective(c) for c in n.children)
        return n.size * self.owning_in_all(n) * self.owned_in_all(n) if n.size is not None else 0

    def figures(self):
        return {k: (n.size or 0, int(self.effective(n))) for k, n in self.nodes.items()}

    def edges(self):
        return {(*n.key, *n.owns.key, n.importance) for n in self.nodes.values() if n.owns}

    def attributes(self):
        told = {}
        for k, n in self.nodes.items():
            for name, (value, units) in n.attrs.items():
                if name != 'size':
                    told[(*k, name + '.value')] = str(value)
                    if not isinstance(value, str):
                        told[(*k, name + '.unit')] = units
        return told


# ---- what the program says ----

def ask(path, question):
    text = subprocess.run([heapwise, 'query', path, question], check=True, capture_output=True, text=True).stdout
    return list(csv.reader(text.splitlines()))[1:]


def figures_of(path):
    found = collections.defaultdict(lambda: ({}, set(), {}))
    for ts, pid, name, size, effective in ask(path, NODES):
        found[int(ts)][0][int(pid), name] = (int(size), int(effective))
    for ts, pid, name, other, owned, importance in ask(path, EDGES):
        found[int(ts)][1].add((int(pid), name, int(other), owned, int(importance)))
    for ts, pid, name, key, value in ask(path, ATTRS):
        found[int(ts)][2][int(pid), name, key] = value
    return found


def close(a, b):
    """Fractions against doubles: 53 bits of a large size are exact."""
    return a == b or (a[0] == b[0] and abs(a[1] - b[1]) <= (a[0] >> 40))


def compare(what, have, want):
    n_bad = 0
    for ts in sorted(set(have) | set(want)):
        nodes, edges, attrs = want.get(ts, ({}, set(), {}))
        differing = [(k, 'have', have[ts][0].get(k), 'want', nodes.get(k)) for k in sorted(set(have[ts][0]) | set(nodes))
                     if k not in nodes or k not in have[ts][0] or not close(have[ts][0][k], nodes[k])]
        differing += [('edge', e, e in edges) for e in have[ts][1] ^ edges]
        differing += [(k, 'have', have[ts][2].get(k), 'want', attrs.get(k)) for k in sorted(set(have[ts][2]) | set(attrs))
                      if have[ts][2].get(k) != attrs.get(k)]
        n_bad += bool(differing)
        if differing and n_bad <= 2:
            print(what, ts, *differing[:12], sep='\n    ')
            print(json.dumps([e for d in dumps for e in d if e['ts'] == ts]))
    print('%s: %d of %d dumps differ' % (what, n_bad, len(want)))
    return n_bad


def grouped(events):
    by_ts = collections.defaultdict(list)
    for e in events:
        if e['ph'] == 'v':
            by_ts[int(e['ts'])].append(e)
    return by_ts


def told_by(by_ts):
    result = {}
    for ts, events in by_ts.items():
        d = Dump(events)
        result[ts] = (d.figures(), d.edges(), d.attributes())
    return result


def told_totals(events):
    names = {'resident_set_bytes': 'mem.rss', 'private_footprint_bytes': 'mem.private_footprint'}
    return sorted([str(e['ts']), str(e['pid']), names[k], str(int(v, 16))] for e in events
                  for k, v in e['args']['dumps'].get('process_totals', {}).items())


dumps = [random_dump(i + 1) for i in range(n_dumps)]
every = [e for d in dumps for e in d]
with tempfile.TemporaryDirectory() as work:
    path, back, again = (os.path.join(work, name) for name in ('in.json', 'back.json', 'again.json'))
    with open(path, 'w') as f:
        json.dump({'traceEvents': every, 'metadata': {'product-version': 'X/1', 'os-name': 'Linux', 'os-arch': 'x86_64', 'user-agent': ''}}, f)
    want = told_by(grouped(every))
    bad = compare('read', figures_of(path), want)
    subprocess.run([heapwise, 'convert', '-t', 'memory-infra', path, back], check=True, stdout=subprocess.DEVNULL)
    bad += compare('converted', figures_of(back), want)
    with open(back) as f:
        bad += compare('converted, read here', collections.defaultdict(lambda: ({}, set(), {}), told_by(grouped(json.load(f)['traceEvents']))), want)
    for name in (path, back):
        have = sorted([ts, pid, t, v] for ts, pid, t, v in ask(name, TOTALS))
        if [h[:3] for h in have] != [t[:3] for t in told_totals(every)] or any(
                abs(int(h[3]) - int(t[3])) > int(t[3]) >> 52 for h, t in zip(have, told_totals(every))):
            print('totals', name, len(have), len(told_totals(every)))
            bad += 1
sys.exit(bad > 0)
