#!/usr/bin/env python3
"""lines_check.py [--small] LINES_PRINT FILE...: chains of functions, files and lines against llvm-symbolizer.

--small: without the samples that take long to compile.

Addresses are drawn from the sizes of the symbol table's functions, with a fixed seed. The outermost
name may differ: llvm-symbolizer takes the symbol's (`f.cold`, `f.part.0`), we the debug info's.
"""
import os, random, shutil, subprocess, sys, tempfile

def addresses(path, n):
    out = subprocess.run(['readelf', '-sW', path], capture_output=True, text=True).stdout
    spans = []
    for line in out.splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] == 'FUNC' and f[6] not in ('UND', 'ABS') and int(f[2], 0) > 0:
            spans.append((int(f[1], 16), int(f[2], 0)))
    spans = sorted(set(spans))
    rng = random.Random(7)
    return sorted({a + rng.randrange(s) for a, s in (rng.choice(spans) for _ in range(n))})

def chains(text):
    result, at = {}, None
    for line in text.splitlines():
        if line.startswith('0x'):
            at = int(line, 16)
            result[at] = []
        else:
            result[at].append(line)
    return {a: list(zip(v[::2], v[1::2])) for a, v in result.items()}

def clean(place):
    path, _, line = place.split(' (discriminator')[0].rpartition(':')
    return os.path.normpath(path) if path != '??' else path, '0' if line == '?' else line

def main():
    small = sys.argv[1] == '--small'
    tool, files = sys.argv[1 + small], sys.argv[2 + small:]
    if subprocess.run(['which', 'llvm-symbolizer'], capture_output=True).returncode:
        print('no llvm-symbolizer')
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        samples = compile_samples(tmp, small)
        bad = check_dwz(tool, tmp, os.path.join(tmp, 'g++-5')) + check_packed(tool, tmp, files[0])
        return check_all(tool, samples + files, samples[2:4]) or bad

FORMS = {'2': ['-gdwarf-2'], '3': ['-gdwarf-3'], '4': ['-gdwarf-4'], '5': ['-gdwarf-5'],
         'compressed': ['-gdwarf-5', '-gz'], 'split4': ['-gdwarf-4', '-gsplit-dwarf'],
         'split5': ['-gdwarf-5', '-gsplit-dwarf'],
         'types': ['-gdwarf-5', '-fdebug-types-section']}

def compile_samples(tmp, small):
    """The samples beside, by the compilers there are and in the forms that debug info comes in."""
    here = os.path.dirname(os.path.abspath(__file__))
    made = []
    for compiler in 'g++', 'clang++' if shutil.which('clang++') else 'clang++-14':
        for form, flags in FORMS.items():
            source = 'lines_sample.cc' if form in '45' and not small else 'lines_small.cc'
            regex = form == '5' and (compiler == 'g++' or 'HW_LONG' in os.environ)  # ten seconds of compiling
            flags = flags if regex else [*flags, '-DNO_REGEX']
            out = os.path.join(tmp, '%s-%s' % (compiler, form))
            if shutil.which(compiler):
                subprocess.run([compiler, '-std=c++17', '-O2', *flags, '-o', out,
                                os.path.join(here, source)], check=True, cwd=tmp)
                made.append(out)
    return made

def check_dwz(tool, tmp, sample):
    """Debug info shared between files says what it said before; llvm-symbolizer cannot read it."""
    if not shutil.which('dwz') or not os.path.exists(sample):
        return 0
    one, two = os.path.join(tmp, 'one'), os.path.join(tmp, 'two')
    shutil.copy(sample, one)
    shutil.copy(sample, two)
    subprocess.run(['dwz', '-m', os.path.join(tmp, 'common'), '-M', 'common', one, two], check=True)
    if '.gnu_debugaltlink' not in subprocess.run(['readelf', '-SW', one], capture_output=True,
                                                 text=True).stdout:
        print('dwz shared nothing')
        return 1
    stdin = '\n'.join('0x%x' % a for a in addresses(sample, 1500))
    before, after = (subprocess.run([tool, path], input=stdin, capture_output=True, text=True,
                                    check=True).stdout for path in (sample, one))
    print('dwz: %s' % ('as before' if before == after else 'differs'))
    return before != after

def ask(tool, path, vas):
    stdin = '\n'.join('0x%x' % a for a in vas)
    return chains(subprocess.run([tool, path], input=stdin, capture_output=True, text=True, check=True).stdout)

def check_packed(tool, tmp, sample):
    """Packed debug info answers the same, each address asked alone too, and is read no further than the units that are needed."""
    packed = os.path.join(tmp, 'packed')
    subprocess.run(['objcopy', '--compress-debug-sections=zlib', sample, packed], check=True)
    vas = addresses(sample, 40)
    plain, together = ask(tool, sample, vas), ask(tool, packed, vas)
    alone = {}
    for a in vas:
        alone.update(ask(tool, packed, [a]))
    if not plain == together == alone:
        print('packed: differs')
        return 1
    sections = subprocess.run(['readelf', '-SW', packed], capture_output=True, text=True, check=True).stdout
    at, size = next((int(f[-7], 16), int(f[-6], 16)) for f in map(str.split, sections.splitlines()) if '.debug_info' in f)
    with open(packed, 'r+b') as f:  # the units of its second half
        f.seek(at + size // 2)
        f.write(b'\xff' * 16)
    with_line = [a for a in vas if plain[a][-1][1] != '??:0']
    lost = [a for a in with_line if ask(tool, packed, [a])[a][-1][1] == '??:0']
    print('packed, its middle damaged: %d of %d without a line' % (len(lost), len(with_line)))
    return not 0 < len(lost) < len(with_line)

def check_all(tool, files, samples):
    total = bad = 0
    for path in files:
        vas = addresses(path, 1500)
        stdin = '\n'.join('0x%x' % a for a in vas) + '\n'
        ours = chains(subprocess.run([tool, path], input=stdin, capture_output=True, text=True,
                                     check=True).stdout)
        theirs = chains(subprocess.run(['llvm-symbolizer', '-a', '--inlines', '--no-demangle',
                                        '--output-style=GNU', '--obj=' + path], input=stdin,
                                       capture_output=True, text=True, check=True).stdout)
        piped = chains(  # of the samples: reading large files a second time takes its time
            subprocess.run([tool, path, 'llvm-symbolizer'], input=stdin, capture_output=True,
                           text=True, check=True).stdout if path in samples else '')
        broken = [a for a in vas if piped and [(f.split('@')[0], clean(p)) for f, p in piped[a]] !=
                  [(f.split('@')[0], clean(p)) for f, p in theirs[a]]]
        if broken:
            print('%s %#x through our pipe: %s' % (path, broken[0], piped[broken[0]]))
            bad += len(broken)
        wrong = aliases = 0
        for a in vas:
            o = [(f, clean(p)) for f, p in ours[a]]
            t = [(f, clean(p)) for f, p in theirs[a]]
            if o[-1][1] == ('??', '0') and t[-1][1][1] == '0':
                o = t[:-1] + [(o[-1][0], t[-1][1])]  # only an object's name from the symbol table
            if o[-1][0] != t[-1][0]:
                aliases += 1
                o[-1] = t[-1][0], o[-1][1]
            if o != t:
                wrong += 1
                if wrong <= int(os.environ.get('SHOW', '3')):
                    print('%s %#x\n  ours   %s\n  theirs %s' % (path, a, o, t))
        print('%s: %d addresses, %d differ, %d outermost names' % (
            os.path.basename(path), len(vas), wrong, aliases))
        total += len(vas)
        bad += wrong
    print('%d addresses, %d differ' % (total, bad))
    return bad > total // 1000

sys.exit(main())
