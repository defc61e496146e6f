#!/usr/bin/env python3
"""symbols.py BUILD [-n FRAMES] [-t UNITS] [-o DIR]: the cost of naming the frames of a large C++ program.

Makes a program of many translation units full of templates and inlined functions, a trace whose
callstacks hold that many distinct addresses of it, and measures `traceconv symbolize` with libdw and
with llvm-symbolizer: CPU seconds, peak RSS, answers. With -o the program is kept and used again.
"""
import argparse, json, os, random, shutil, subprocess, sys, tempfile

UNIT = '''
namespace unit%(u)d {
volatile long sink;
template <class T, int N> struct part {
    T v[N];
    inline __attribute__((always_inline)) T first() const { T s = 0; for (int i = 0; i < N; i++) s += v[i] * (i + %(u)d); return s; }
    inline __attribute__((always_inline)) T second(T x) const { if (x > 3) { sink += (long)x; return first() + x; } return x - first(); }
    __attribute__((noinline)) T work(T x) { T a = second(x); sink += (long)a; for (int i = 0; i < N; i++) { v[i] += a; sink = sink * 3 + (long)second(v[i]); } return a; }
    __attribute__((noinline)) T more(T x) { T a = work(x); return a * second(a) + work(a + 1); }
};
template <int N> __attribute__((noinline)) long drive(long x) {
    part<int, N> i = {}; part<long, N> l = {}; part<double, N> d = {};
    return i.more((int)x) + l.more(x) + (long)d.more((double)x) + drive<N - 1>(x + N);
}
template <> __attribute__((noinline)) long drive<0>(long x) { return x; }
}
long run%(u)d(long x) { return unit%(u)d::drive<60>(x); }
'''

def make_program(tmp, units):
    path = os.path.join(tmp, 'large')
    if os.path.exists(path):
        return path
    objects = []
    for u in range(units):
        source, obj = (os.path.join(tmp, 'u%d%s' % (u, e)) for e in ('.cc', '.o'))
        with open(source, 'w') as f:
            f.write(UNIT % {'u': u})
        subprocess.run(['g++', '-g', '-O2', '-ftemplate-depth=200', '-c', '-o', obj, source], check=True)
        objects.append(obj)
    main = os.path.join(tmp, 'main.cc')
    with open(main, 'w') as f:
        f.write(''.join('long run%d(long);\n' % u for u in range(units)))
        f.write('int main(int n, char **) { long s = n;\n%s return (int)s; }\n' % ''.join(
            's += run%d(s);\n' % u for u in range(units)))
    subprocess.run(['g++', '-g', '-O2', '-Wl,--build-id', '-o', path, main] + objects, check=True)
    return path

def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)

def number(field, v):
    return varint(field << 3) + varint(v)

def message(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b

def draw_addresses(path, n):
    out = subprocess.run(['readelf', '-sW', path], capture_output=True, text=True).stdout
    spans = []
    for line in out.splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] == 'FUNC' and f[6] not in ('UND', 'ABS') and int(f[2], 0) > 4:
            spans.append((int(f[1], 16), int(f[2], 0)))
    rng = random.Random(5)
    found = set()
    while len(found) < n:
        start, size = rng.choice(spans)
        found.add(start + rng.randrange(size))
    return sorted(found, key=lambda a: rng.random())

def make_trace(path, program, addresses):
    notes = subprocess.run(['readelf', '-n', program], capture_output=True, text=True).stdout
    build_id = bytes.fromhex(notes.split('Build ID: ')[1].split()[0])
    segments = subprocess.run(['readelf', '-lW', program], capture_output=True, text=True).stdout
    text = next(l.split() for l in segments.splitlines() if ' LOAD ' in l and ' R E ' in l)
    interned = message(16, number(1, 1) + message(2, build_id)) + message(17, number(1, 1) + message(2, b'large'))
    interned += message(19, number(1, 1) + number(2, 1) + number(7, 1) + number(4, 0x400000) + number(5, 1 << 32) +
                                 number(6, int(text[2], 16) - int(text[1], 16)) + number(8, int(text[1], 16)))
    interned += message(5, number(1, 1) + message(2, b''))
    samples = b''
    depth = 50
    for i, a in enumerate(addresses, 1):
        interned += message(6, number(1, i) + number(2, 1) + number(3, 1) + number(4, a))
    for k in range(0, len(addresses), depth):
        iid = k // depth + 1
        interned += message(7, number(1, iid) + b''.join(
            number(2, i + 1) for i in range(k, min(k + depth, len(addresses)))))
        samples += message(2, number(1, iid) + number(2, 64) + number(5, 1))
    clocks = message(6, message(1, number(1, 6) + number(2, 1)) + message(1, number(1, 4) + number(2, 1)))
    dump = number(1, 7) + message(11, b'libc.malloc') + number(9, 5) + samples
    with open(path, 'wb') as f:
        f.write(message(1, clocks))
        f.write(message(1, number(10, 2) + number(13, 1) + message(12, interned)))
        f.write(message(1, number(10, 2) + message(37, number(7, 0) + message(5, dump))))

def measure(what, argv, **how):
    """CPU seconds and peak RSS in MiB of a command and its children, by a process that waits for it."""
    script = ('import json,resource,subprocess,sys,time\nt=time.time()\n'
              'p=subprocess.run(sys.argv[2:],stdout=open(sys.argv[1],"wb"),stderr=subprocess.PIPE)\n'
              'u=resource.getrusage(resource.RUSAGE_CHILDREN)\n'
              'sys.stderr.write(p.stderr.decode().splitlines()[-1] if p.stderr else "")\n'
              'print(json.dumps([p.returncode,u.ru_utime+u.ru_stime,time.time()-t,u.ru_maxrss/1024]))')
    r = subprocess.run([sys.executable, '-c', script, how['out']] + argv, capture_output=True, text=True,
                       env=how['env'])
    status, cpu, wall, rss = json.loads(r.stdout)
    print('%-16s cpu %6.2f s  wall %6.2f s  peak RSS %5.0f MiB  %8d bytes  %s' % (
        what, cpu, wall, rss, os.path.getsize(how['out']), r.stderr.strip()))
    if status:
        sys.exit(1)

def main():
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument('build')
    arg.add_argument('-n', type=int, default=100000)
    arg.add_argument('-t', type=int, default=60)
    arg.add_argument('-o')
    o = arg.parse_args()
    tmp = o.o or tempfile.mkdtemp()
    os.makedirs(tmp, exist_ok=True)
    try:
        program = make_program(tmp, o.t)
        trace = os.path.join(tmp, 'trace')
        make_trace(trace, program, draw_addresses(program, o.n))
        conv = os.path.join(os.path.abspath(o.build), 'src/cli/traceconv')
        env = dict(os.environ, PERFETTO_BINARY_PATH=tmp)
        print('program %.0f MiB, trace %.1f MiB, %d distinct addresses' % (
            os.path.getsize(program) / 2**20, os.path.getsize(trace) / 2**20, o.n))
        measure('load only', [conv, 'symbolize', trace], out=os.path.join(tmp, 'none'),
                env=dict(env, PERFETTO_BINARY_PATH='/nonexistent'))
        measure('libdw', [conv, 'symbolize', trace], out=os.path.join(tmp, 'libdw'), env=env)
        if shutil.which('llvm-symbolizer'):
            measure('llvm-symbolizer', [conv, 'symbolize', '--symbolizer', 'llvm-symbolizer', trace],
                    out=os.path.join(tmp, 'llvm'), env=env)
    finally:
        if not o.o:
            shutil.rmtree(tmp)

main()
