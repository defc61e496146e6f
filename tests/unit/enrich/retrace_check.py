#!/usr/bin/env python3
"""retrace_check.py HEAPWISE: original names, inlined functions and lines against ProGuard's retrace.

Makes a name map with overloads, line ranges, inline chains and methods of other classes from a fixed
seed, and one frame for each line of interest. retrace gets them as a stack trace, we as a heap profile.
Without a line retrace lists inlined functions too; compared there are methods without ranges only. Source
lines lie above the short ones: retrace takes a call's line that equals its range's first for "unchanged".
"""
import csv, glob, os, random, shutil, subprocess, sys, tempfile

def make_map(rng, n_classes):
    """The map's text, and questions (class, method, line or None)."""
    out, questions = ['# compiler: R8', '# {"id":"com.android.tools.r8.mapping","version":"2.0"}'], []
    originals = ['com.example.p%d.Name%d%s' % (i % 7, i, '$In' if i % 5 == 0 else '')
                 for i in range(n_classes)]
    for i, original in enumerate(originals):
        short = 'a.b%d' % i
        out.append('%s -> %s:' % (original, short))
        out.append('# {"id":"sourceFile","fileName":"Other.kt"}')
        out.append('    int field -> a')
        line = 1
        for k in range(rng.randint(1, 6)):
            name = 'm%d' % k
            kind = rng.choice(['plain', 'overload', 'ranges', 'ranges'])
            if kind == 'plain':
                out.append('    void plain%d(int[],java.lang.String) -> %s' % (k, name))
                questions.append((short, name, None))
            elif kind == 'overload':
                for what in 'zero', 'one', 'zero':
                    out.append('    int %s%d(int) -> %s' % (what, k, name))
                questions.append((short, name, None))
            else:
                for _ in range(rng.randint(1, 4)):
                    n, source = rng.randint(0, 5), rng.randint(1000, 4000)
                    depth = rng.choice([0, 0, 1, 2, 3])
                    for d in range(depth):  # innermost first
                        other = rng.choice(originals)
                        tail = ':%d:%d' % (source, source + n) if d == 0 else ':%d' % (source + 7 * d)
                        out.append('    %d:%d:void %s.inner%d(%s)%s -> %s' % (
                            line, line + n, other, d, 'int,long' if d else '', tail, name))
                    # retrace 6.2 ends a chain only by the range, as we do
                    out.append('    %d:%d:void outer%d(int)%s -> %s' % (
                        line, line + n, k,
                        ':%d' % (source + 100) if depth else ':%d:%d' % (source, source + n), name))
                    questions += [(short, name, l) for l in {line, line + n, line + n // 2}]
                    line += n + rng.randint(1, 3)
    return '\n'.join(out) + '\n', questions

def ask_retrace(jars, map_path, questions, tmp):
    stack = os.path.join(tmp, 'stack.txt')
    with open(stack, 'w') as f:
        for c, m, line in questions:
            f.write('\tat %s.%s(%s)\n\tat mark.Mark.mark(Mark.java:1)\n' % (
                c, m, 'SourceFile:%d' % line if line else 'SourceFile'))
    out = subprocess.run(['java', '-cp', ':'.join(jars), 'proguard.retrace.ReTrace', map_path, stack],
                         capture_output=True, text=True, check=True).stdout
    answers, now = [], []
    for text in out.splitlines():
        text = text.strip()
        text = text[3:] if text.startswith('at ') else text
        if text.startswith('mark.Mark'):
            answers.append(now)
            now = []
            continue
        name, _, place = text.rstrip(')').partition('(')
        now.append((name, place))
    return answers

def ask_us(tool, map_path, questions, tmp):
    text = ['packet { clock_snapshot { clocks { clock_id: 6 timestamp: 1 }',
            'clocks { clock_id: 4 timestamp: 1 } } }',
            'packet { trusted_packet_sequence_id: 1 sequence_flags: 1 interned_data {',
            'mapping_paths { iid: 1 str: "data/app/com.example-1/base.apk" }',
            'mappings { iid: 1 path_string_ids: 1 start: 4096 end: 8192 }',
            'source_paths { iid: 1 str: "SourceFile" }']
    for i, (c, m, line) in enumerate(questions, 1):
        text.append('function_names { iid: %d str: "%s.%s" }' % (i, c, m))
        text.append('frames { iid: %d function_name_id: %d mapping_id: 1 rel_pc: 1 %s }' % (
            i, i, 'source_path_iid: 1 line_number: %d' % line if line else ''))
        text.append('callstacks { iid: %d frame_ids: %d }' % (i, i))
    text.append('} profile_packet { index: 0 process_dumps { pid: 7 heap_name: "libc.malloc" timestamp: 5')
    for i in range(1, len(questions) + 1):
        text.append('samples { callstack_id: %d self_allocated: %d alloc_count: 1 }' % (i, i))
    text.append('} } }')
    path = os.path.join(tmp, 'trace')
    with open(path + '.txt', 'w') as f:
        f.write('\n'.join(text))
    conv = 'traceconv'  # the program by another name, whether or not the link was made
    subprocess.run([conv, 'binary', path + '.txt', path], check=True, executable=tool)
    env = dict(os.environ, PERFETTO_PROGUARD_MAP='com.example=' + map_path)
    with open(path, 'ab') as f:
        subprocess.run([conv, 'deobfuscate', path], check=True, stdout=f, env=env, executable=tool)
    sql = '''select f.name, f.deobfuscated_name, s.name, s.source_file, s.line_number, a.size as n
        from heap_profile_allocation a join stack_profile_callsite c on c.id = a.callsite_id
        join stack_profile_frame f on f.id = c.frame_id
        left join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id
        order by n, s.id'''
    out = subprocess.run([tool, 'query', path, sql], capture_output=True, text=True, check=True).stdout
    answers = {}
    for raw, clear, name, file, line, n in list(csv.reader(out.splitlines()))[1:]:
        answers.setdefault(int(n), []).append((clear, name, file, line))
    return answers

def main():
    tool = sys.argv[1]
    jars = glob.glob('/usr/share/java/proguard*.jar')
    if not jars or not shutil.which('java'):
        print('no retrace')
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, 'map.txt')
        text, questions = make_map(random.Random(11), 400)
        with open(path, 'w') as f:
            f.write(text)
        theirs = ask_retrace(jars, path, questions, tmp)
        ours = ask_us(tool, path, questions, tmp)
    bad = 0
    for i, (question, want) in enumerate(zip(questions, theirs), 1):
        got = ours[i]
        if question[2]:
            have = [(name, '%s:%s' % (file, line)) for _, name, file, line in got]
        else:  # retrace leaves the class out where it is that of the line before
            class_name = want[0][0].rpartition('.')[0]
            want = sorted({n if '.' in n else class_name + '.' + n for n, _ in want})
            have = got[0][0].split(' | ')
        if have != want:
            bad += 1
            if bad < 5:
                print('%s\n  ours   %s\n  theirs %s' % (question, have, want))
    print('%d frames, %d differ' % (len(questions), bad))
    return bad > 0 or len(questions) != len(theirs)

sys.exit(main())
