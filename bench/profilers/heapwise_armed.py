"""heapwise with a session that samples nothing: what an unsampled allocation pays while profiled."""
from profilers._heapwise import *
INTERVAL = '-'
SLOW = 1
def wrap(ctx, argv, env): return wrap_interval(ctx, argv, 1 << 46)
