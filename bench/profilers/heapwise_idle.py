"""heapwise preloaded, no session, no service: what every allocation pays all the time."""
import glob, os
from profilers import _heapwise, preload
INTERVAL = '-'
SLOW = 1


def library():
    for d in ('../lib', '../lib/*'):
        g = glob.glob(os.path.join(_heapwise.D, d, 'libheapprofd_glibc_preload.so'))
        if g:
            return os.path.realpath(g[0])
    return None


def available():
    return None if library() else 'set HEAPWISE to the directory of its programs'


def wrap(ctx, argv, env):
    preload(env, library())
    return argv
