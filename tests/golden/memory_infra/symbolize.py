#!/usr/bin/env python3
# symbolize.py HEAPWISE: symbolize_trace on traces of programs built here. Addresses come from nm, so that the expected
# names need no debug info reader.
import ctypes.util, gzip, http.server, json, os, shutil, subprocess, sys, tempfile, threading, uuid

tool = os.path.join(os.path.dirname(os.path.realpath(sys.argv[1])), 'symbolize_trace')
work = tempfile.mkdtemp()
os.chdir(work)
os.environ['HOME'] = work
os.environ.pop('DEBUGINFOD_URLS', None)

SOURCE = '''
static inline __attribute__((always_inline)) int inner(volatile int *p) { return *p += 3; }
__attribute__((noinline)) int leaf(volatile int *p) { return inner(p); }
__attribute__((noinline)) int middle(volatile int *p) { return leaf(p) + 1; }
__attribute__((noinline)) void stops(volatile int *p) { middle(p); __builtin_trap(); }
int after_stops(volatile int *p) { return *p; }
int start_here(void) { int x = 0; stops(&x); return x; }
'''
MAIN = SOURCE + 'int main(void) { return start_here(); }\n'


def build(name, source, *flags):
    with open(name + '.c', 'w') as f:
        f.write(source)
    cmd = ['cc', '-g', '-O1', '-fno-reorder-functions', '-fno-optimize-sibling-calls', '-Wl,--build-id', '-o', name, name + '.c', *flags]
    subprocess.run(cmd, check=True)


def symbols(name):
    out = subprocess.run(['nm', '-S', '--defined-only', name], check=True, capture_output=True, text=True).stdout
    rows = [l.split() for l in out.splitlines()]
    return {r[3]: (int(r[0], 16), int(r[1], 16)) for r in rows if len(r) == 4}


def code_segment(name):
    out = subprocess.run(['readelf', '-lW', name], check=True, capture_output=True, text=True).stdout
    for l in out.splitlines():
        w = l.split()
        if w and w[0] == 'LOAD' and ' R E ' in l:
            return int(w[1], 16), int(w[2], 16), int(w[5], 16)  # offset, address, size


def build_id(name):
    out = subprocess.run(['readelf', '-nW', name], check=True, capture_output=True, text=True).stdout
    return [l.split()[-1] for l in out.splitlines() if 'Build ID' in l][0]


build('pie', MAIN, '-pie', '-fPIE')
build('fixed', MAIN, '-no-pie')
build('libso.so', SOURCE, '-shared', '-fPIC')

BASE = 0x7f0000000000


class Trace:
    def __init__(self, **region):
        self.regions, self.strings, self.nodes, self.types = [], [], [], []
        self.next, self.rows = 1, []

    def id(self):
        self.next += 1
        return self.next - 1

    def string(self, text):
        for s in self.strings:
            if s['string'] == text:
                return s['id']
        self.strings.append({'id': self.id(), 'string': text})
        return self.strings[-1]['id']

    def stack(self, *frames, type='[unknown]', size=4096):
        parent = None
        for f in frames:
            name = self.string(f)
            same = [n['id'] for n in self.nodes if n['name_sid'] == name and n.get('parent') == parent]
            if same:
                parent = same[0]
                continue
            node = {'id': self.id(), 'name_sid': name}
            if parent:
                node['parent'] = parent
            self.nodes.append(node)
            parent = node['id']
        name = self.string(type)
        same = [t['id'] for t in self.types if t['name_sid'] == name]
        if not same:
            self.types.append({'id': self.id(), 'name_sid': name})
            same = [self.types[-1]['id']]
        self.rows.append((parent, same[0], size))

    def region(self, name, base, fo=True, id=None, path=None, **more):
        offset, va, size = code_segment(name)
        r = {'sa': '%x' % base, 'sz': '%x' % size, 'pf': 5, 'mf': path or os.path.join(work, name)}
        if fo:
            r['fo'] = '%x' % va
        if id is not False:
            r['id'] = id or build_id(name)
        r.update(more)
        self.regions.append(r)
        return base - va

    def write(self, path):
        def dump(ts, guid, maps, rows):
            return {'ph': 'v', 'cat': 'disabled-by-default-memory-infra', 'name': 'periodic_interval', 'pid': 7, 'tid': -1,
                    'ts': ts, 'id': guid, 'args': {'dumps': {
                        'level_of_detail': 'detailed', 'process_mmaps': {'vm_regions': self.regions},
                        'allocators': {'malloc': {'guid': guid[2:] + '1', 'attrs': {}}},
                        'heaps_v2': {'version': 1, 'maps': maps, 'allocators': {'malloc': {
                            'counts': [1 for _ in rows], 'sizes': [r[2] for r in rows], 'types': [r[1] for r in rows],
                            'nodes': [r[0] for r in rows]}}}}}}
        half = len(self.nodes) // 2
        maps = [{'strings': self.strings, 'nodes': self.nodes[:half], 'types': self.types},
                {'strings': [], 'nodes': self.nodes[half:], 'types': []}]
        known = [n['id'] for n in self.nodes[:half]]
        trace = {'traceEvents': [
            {'ph': 'M', 'cat': '__metadata', 'name': 'process_name', 'pid': 7, 'tid': 7, 'ts': 0, 'args': {'name': 'demo'}},
            dump(1000, '0x1', maps[0], [r for r in self.rows if r[0] in known]),
            {'ph': 'X', 'name': 'kept as it is', 'pid': 7, 'tid': 7, 'ts': 1500.25, 'dur': 0.125, 'args': {}},
            dump(2000, '0x2', maps[1], self.rows)],
            'other': {'kept': [1.5, None]},
            'metadata': {'product-version': 'demo/1', 'os-name': 'Linux', 'os-arch': 'x86_64', 'user-agent': ''}}
        text = json.dumps(trace, indent=1).encode()
        with (gzip.open(path, 'wb') if path.endswith('.gz') else open(path, 'wb')) as f:
            f.write(text)
        return text


def load(path):
    with (gzip.open(path) if path.endswith('.gz') else open(path, 'rb')) as f:
        return json.load(f)


def stacks(path):
    """{(frames outermost first, type): size} of the last dump, maps taken in order."""
    strings, nodes, types, out = {}, {}, {}, {}
    for e in load(path)['traceEvents']:
        if e['ph'] != 'v':
            continue
        heaps = e['args']['dumps']['heaps_v2']
        strings.update({s['id']: s['string'] for s in heaps['maps']['strings']})
        nodes.update({n['id']: n for n in heaps['maps']['nodes']})
        types.update({t['id']: t['name_sid'] for t in heaps['maps']['types']})
        out = {}
        h = heaps['allocators']['malloc']
        for node, type, size in zip(h['nodes'], h['types'], h['sizes']):
            frames = []
            while node:
                frames.insert(0, strings[nodes[node]['name_sid']])
                node = nodes[node].get('parent')
            out[(*frames, strings[types[type]])] = out.get((*frames, strings[types[type]]), 0) + size
    ids = list(strings) + list(nodes) + list(types)
    assert len(ids) == len(set(ids)), 'ids are used twice'
    return out


def run(*args, code=0):
    r = subprocess.run([tool, *args], capture_output=True, text=True)
    assert r.returncode == code, (args, r.returncode, r.stdout, r.stderr)
    return r.stdout + r.stderr


def check(name, have, want):
    if have != want:
        sys.exit('%s:\n  have %s\n  want %s' % (name, have, want))
    print('ok', name)


def make(to, name, **region):
    t, s = Trace(), symbols(name)
    bias = t.region(name, BASE if name != 'fixed' else code_segment(name)[1], **region)
    top = 'main' if 'main' in s else 'start_here'
    pc = lambda f, at: 'pc:%x' % (bias + s[f][0] + at)
    # A call that does not return is the function's last instruction: its return address is the next function's first.
    last = 'pc:%x' % (bias + s['stops'][0] + s['stops'][1])
    t.stack(pc(top, s[top][1]), last, pc('leaf', 0))
    t.stack(pc(top, s[top][1]), last, pc('middle', 0), type=pc('middle', 1), size=100)
    text = t.write(to)
    return top, text


def expect(top):
    return {(top, 'stops', 'leaf', '[unknown]'): 4096, (top, 'stops', 'middle', 'middle'): 100}


# The three kinds of files, with and without `fo`, with and without an id; plain and packed.
for name in 'pie', 'fixed', 'libso.so':
    for path in 'a.json', 'b.json.gz':
        for region in {}, {'id': False}, {'fo': False}:
            if region == {'fo': False} and name != 'fixed':
                continue
            top, text = make(path, name, **region)
            if os.path.exists(path + '.BACKUP'):
                os.remove(path + '.BACKUP')
            out = run(path)
            assert 'Symbolized' in out, out
            check('%s %s %s' % (name, path, region), stacks(path), expect(top))
            backup = path + '.BACKUP'
            with (gzip.open(backup) if path.endswith('.gz') else open(backup, 'rb')) as f:
                assert f.read() == text, 'backup'

# What was no name is as it was, and the maps stand in the first event.
make('a.json', 'pie')
before = load('a.json')
run('--no-backup', '--is-local-build', 'a.json')
after = load('a.json')
for t in before, after:
    maps = [e['args']['dumps']['heaps_v2'].pop('maps') for e in t['traceEvents'] if e['ph'] == 'v']
check('the rest of the file', after, before)
check('later maps', maps[1], {'strings': [], 'nodes': [], 'types': []})

# A second run.
text = open('a.json', 'rb').read()
assert run('a.json').startswith('Nothing to symbolize.\n')
check('second run', open('a.json', 'rb').read(), text)

# Inlined functions.
make('a.json', 'pie')
run('--inlines', 'a.json')
check('inlined', stacks('a.json'), {('main', 'stops', 'leaf', 'inner', '[unknown]'): 4096,
                                    ('main', 'stops', 'middle', 'middle'): 100})
make('a.json', 'pie')
run('--frame-as-object-type', 'a.json')
check('callers as types', stacks('a.json'), {('main', 'stops', 'leaf', 'main'): 4096, ('main', 'stops', 'middle', 'main'): 100})

# Other readers of debug info.
for program in 'addr2line', 'llvm-symbolizer', shutil.which('addr2line'):
    if shutil.which(program):
        make('a.json', 'libso.so')
        run('--addr2line-executable', program, 'a.json')
        check(program, stacks('a.json'), expect('start_here'))
make('a.json', 'libso.so')
text = open('a.json', 'rb').read()
assert 'cannot start' in run('--addr2line-executable', './missing', 'a.json', code=1)
check('after a failure', open('a.json', 'rb').read(), text)

# Another build, no file, no mapping, anonymous code.
t = Trace()
bias = t.region('pie', BASE, id='00' * 20)
t.region('pie', BASE + 0x1000000, path='/nowhere/lib.so', id=False)
t.region('pie', BASE + 0x2000000, path='[anon:jit]', id=False)
t.regions.append({'sa': '%x' % (BASE + 0x3000000), 'sz': '1000', 'pf': 5, 'mf': ''})
t.region('pie', BASE + 0x4000000, path=work, id=False)
t.region('pie', BASE + 0x5000000, path=os.path.join(work, 'pie.c'), id=False)
va = code_segment('pie')[1]
for i in range(6):
    t.stack('pc:%x' % (BASE + i * 0x1000000 + 16))
t.stack('pc:10')
t.write('a.json')
out = run('a.json')
for why in "pie': build id mismatch", "lib.so': file doesn't exist", "': not a file", "pie.c': file is not symbolizable":
    assert why in out, (why, out)
at = ' + 0x%x' % (va + 16)
check('without symbols', sorted(k[0] for k in stacks('a.json')), sorted(
    ['<pie>' + at, '<lib.so>' + at, '<[anon:jit]>' + at, '<unnamed>', '<%s>' % os.path.basename(work) + at, '<pie.c>' + at,
     '<unresolved>']))
top, _ = make('a.json', 'pie', id='00' * 20)
run('--ignore-build-id', 'a.json')
check('another id', stacks('a.json'), expect(top))

# A trace of elsewhere: the directory counts, this machine's files do not.
os.mkdir('out')
os.mkdir('out/lib.unstripped')
shutil.copy('libso.so', 'out/lib.unstripped/far.so')
top, _ = make('a.json', 'libso.so', path='/usr/lib/far.so')
run('--only-symbolize-chrome-symbols', '--output-directory', 'out', 'a.json')
check('output directory', stacks('a.json'), expect(top))
make('a.json', 'libso.so')
assert 'a file of this machine' in run('--only-symbolize-own', 'a.json')
assert all(f.startswith('<libso.so> + 0x') for k in stacks('a.json') for f in k[:-1])

# A stripped file, and its debug file by build id in ~/symbols.
id = build_id('libso.so')
os.makedirs('symbols/.build-id/' + id[:2])
shutil.copy('libso.so', 'symbols/.build-id/%s/%s.debug' % (id[:2], id[2:]))
top, _ = make('a.json', 'libso.so')
shutil.move('libso.so', 'full.so')
subprocess.run(['strip', '-o', 'libso.so', 'full.so'], check=True)
run('a.json')
check('by build id', stacks('a.json'), expect(top))

# From a debuginfod server, which is asked only when one is named, and only once. A program: a library has some names left.
asked = []
subprocess.run(['strip', '-o', 'plain', 'pie'], check=True)
program = build_id('pie')
make('a.json', 'pie', path=os.path.join(work, 'plain'))
assert "plain': file is not symbolizable: it is stripped." in run('a.json')
shutil.copy('full.so', 'out/plain')
make('a.json', 'pie', path=os.path.join(work, 'plain'))
assert "plain': build id mismatch." in run('--output-directory', 'out', 'a.json')


class Debuginfod(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        known = self.path == '/buildid/%s/debuginfo' % program
        self.send_response(200 if known else 404)
        self.end_headers()
        if known:
            with open('pie', 'rb') as f:
                self.wfile.write(f.read())

    def log_message(self, *args):
        pass


if ctypes.util.find_library('debuginfod'):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Debuginfod)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.rename('symbols', 'elsewhere')
    os.environ['DEBUGINFOD_CACHE_PATH'] = os.path.join(work, 'cache')
    make('a.json', 'pie', path=os.path.join(work, 'plain'))
    run('a.json')
    nameless = [f for k in stacks('a.json') for f in k[:-1] if f.startswith('<plain> + 0x')]
    assert nameless and not asked, (nameless, asked)
    os.environ['DEBUGINFOD_URLS'] = 'http://127.0.0.1:%d' % server.server_port
    for n in range(2):
        make('a.json', 'pie', path=os.path.join(work, 'plain'))
        run('a.json')
        check('by debuginfod', stacks('a.json'), expect('main'))
        check('asked', asked, ['/buildid/%s/debuginfo' % program])
    make('a.json', 'pie', path=os.path.join(work, 'plain'), id='22' * 20)
    run('a.json')
    assert any('/buildid/' + '22' * 20 in a for a in asked), asked
    del os.environ['DEBUGINFOD_URLS']
    os.rename('elsewhere', 'symbols')
    server.shutdown()
else:
    print('no libdebuginfod here: its part was left out')

# Breakpad's files: by CODE_ID, by the GUID alone, of another build.
raw = bytes.fromhex(id)
guid = uuid.UUID(bytes_le=raw[:16]).hex.upper()
sym = ''.join('FUNC %x %x 0 %s\n' % (*s, f) for f, s in symbols('full.so').items() if f in ('leaf', 'middle', 'stops', 'start_here'))
for info in 'INFO CODE_ID %s libso.so\n' % id.upper(), '':
    os.makedirs('syms/deep', exist_ok=True)
    with open('syms/deep/x.sym', 'w') as f:
        f.write('MODULE Linux x86_64 %s0 LIBSO.so\n%s%s' % (guid, info, sym))
    t = Trace()
    s = symbols('full.so')
    bias = t.region('full.so', BASE, path='/nowhere/libso.so')
    t.stack('pc:%x' % (bias + s['start_here'][0] + 5), 'pc:%x' % (bias + sum(s['stops'])), 'pc:%x' % (bias + s['leaf'][0]))
    t.write('a.json')
    run('--use-breakpad-symbols', '--breakpad-symbols-directory', 'syms', 'a.json')
    check('breakpad ' + info[:12], list(stacks('a.json')), [('start_here', 'stops', 'leaf', '[unknown]')])
t.regions[0]['id'] = '11' * 20
t.write('a.json')
assert 'build id mismatch' in run('--use-breakpad-symbols', '--breakpad-symbols-directory', 'syms', 'a.json')
t.write('a.json')
assert 'cannot read' in run('--use-breakpad-symbols', '--breakpad-symbols-directory', 'none', 'a.json', code=1)

# Version 1: frames and types are metadata of the process.
s = symbols('full.so')
frame = lambda f, at: 'pc:%x' % (bias + s[f][0] + at)
v1 = {'traceEvents': [
    {'ph': 'M', 'cat': '__metadata', 'pid': 7, 'tid': 1, 'ts': 0, 'name': 'stackFrames', 'args': {'stackFrames': {
        '0': {'name': frame('start_here', 5), 'category': 'c'}, '1': {'name': 'pc:%x' % (bias + sum(s['stops'])), 'parent': '0'},
        '2': {'name': frame('leaf', 0), 'parent': '1'}}}},
    {'ph': 'M', 'cat': '__metadata', 'pid': 7, 'tid': 1, 'ts': 0, 'name': 'typeNames', 'args': {'typeNames': {
        '0': '[unknown]', '1': frame('middle', 0)}}},
    {'ph': 'v', 'cat': 'c', 'name': 'periodic_interval', 'pid': 7, 'tid': -1, 'ts': 5, 'id': '0x1', 'args': {'dumps': {
        'level_of_detail': 'detailed', 'process_mmaps': {'vm_regions': []},
        'heaps': {'malloc': {'entries': [{'bt': '', 'size': '10', 'count': '1'}, {'bt': '2', 'size': '10', 'count': '1', 'type': '1'}]}}}}}]}
t = Trace()
t.region('full.so', BASE)
v1['traceEvents'][2]['args']['dumps']['process_mmaps']['vm_regions'] = t.regions
json.dump(v1, open('v1.json', 'w'))
run('v1.json')
have = load('v1.json')['traceEvents']
check('version 1', have[0]['args']['stackFrames'],
      {'0': {'name': 'start_here', 'category': 'c'}, '1': {'name': 'stops', 'parent': '0'}, '2': {'name': 'leaf', 'parent': '1'}})
check('types of version 1', have[1]['args']['typeNames'], {'0': '[unknown]', '1': 'middle'})
json.dump(v1, open('v1.json', 'w'))
run('--inlines', 'v1.json')
frames = load('v1.json')['traceEvents'][0]['args']['stackFrames']
new = frames['2']['parent']
check('inlined in version 1', [frames['2']['name'], frames[new]], ['inner', {'name': 'leaf', 'parent': '1'}])

# Errors.
json.dump({'traceEvents': v1['traceEvents'] + load('a.json')['traceEvents']}, open('mixed.json', 'w'))
assert 'both versions' in run('mixed.json', code=1)
assert 'cannot open' in run('missing.json', code=1)
open('text.json', 'w').write('no json')
run('text.json', code=1)
open('empty.json', 'w').write('{"traceEvents":[]}')
out = run('empty.json')
assert out.startswith('Nothing to symbolize.\n') and 'no heap dump' in out, out
open('strange.json', 'w').write('{"traceEvents":[{"ph":"v","pid":1,"ts":1,"id":"0x1","args":{"dumps":{"heaps_v2":{"version":1,'
                                '"maps":{"strings":[{"id":"x","string":"pc:1"}]},"allocators":{}}}}}]}')
assert 'event at byte 16' in run('strange.json', code=1)
run(code=1)
left = [f for f in os.listdir('.') if f.count('.') > 2 and not f.endswith('BACKUP')]
check('nothing is left behind', left, [])
shutil.rmtree(work)
