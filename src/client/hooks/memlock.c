/*
 * memlock.c - mlockall must do what it does without us
 *
 * mlockall counts everything mapped against RLIMIT_MEMLOCK, and later calls count what was locked
 * then. So:
 *
 *      it fails for want of room, and would not without what a session has mapped here
 *                    -> the session ends, its memory goes, and it is called again
 *      it is done    -> what is ours is unlocked again, also what is mapped later
 *
 * Without a limit none of this matters: then ours stays locked.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/memlock.h"
#include "client/kernel/sys.h"
#include "client/sample/live_set.h"
#include "client/session/client_session.h"

typedef int mlockall_fn(int);

static int raw_mlockall(int flags)
{
    return (int)hw_kernel(SYS_mlockall, flags);
}

static mlockall_fn *real_mlockall = raw_mlockall;

void hw_memlock_init(void *real)
{
    if (real)
        *(void **)&real_mlockall = real;
}

static uint64_t limit(void)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_MEMLOCK, &lim) == 0 ? lim.rlim_cur : RLIM_INFINITY;
}

/* Everything this process has mapped; 0 = not known. */
static uint64_t mapped_bytes(void)
{
    char text[32];
    uint64_t n = 0;
    int fd = (int)hw_kernel(SYS_openat, AT_FDCWD, "/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    long got = hw_kernel(SYS_read, fd, text, sizeof text);
    (void)hw_sys_close(fd);
    for (long i = 0; i < got && text[i] >= '0' && text[i] <= '9'; i++)
        n = n * 10 + (uint64_t)(text[i] - '0');
    return n * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void add_bytes(void *sum, const void *at, uint64_t n_bytes)
{
    (void)at;
    *(uint64_t *)sum += n_bytes;
}

static void unlock(void *arg, const void *at, uint64_t n_bytes)
{
    (void)arg;
    (void)hw_kernel(SYS_munlock, at, (size_t)n_bytes);
}

/* Calls that a program which locks its memory need not make itself: not if it had filters before
 * the handshake. Without a session so far nothing is known, and nothing needs to be done. */
static bool may_call(void)
{
    return !hw_sandbox() && hw_control.filters == 1;
}

/* Would it succeed without our mappings? Then the session ends. */
static bool end_session_for_room(void)
{
    uint64_t ours = 0, all, most;
    if (!may_call() || (all = mapped_bytes()) <= (most = limit()))
        return false;
    hw_client_session_each_mapping(add_bytes, &ours, /* of_session = */ true);
    return ours != 0 && all - ours <= most && hw_client_session_evict();
}

/* errno is the program's, which the bare client cannot reach: there the program's own function
 * is called only to report the error. */
#ifdef HW_BARE
static const bool is_bare = true;
#else
static const bool is_bare = false;
#endif

static int call_real(int flags, bool by_number)
{
    return by_number ? (int)hw_real_syscall(SYS_mlockall, flags, 0, 0, 0, 0, 0)
                     : real_mlockall(flags);
}

static int call(int flags, bool by_number)
{
    return is_bare ? raw_mlockall(flags) : call_real(flags, by_number);
}

int hw_memlock(int flags, bool by_number)
{
    int before = errno;
    int rc = call(flags, by_number), why = errno;
    if (rc != 0 && (flags & MCL_CURRENT) && end_session_for_room()) {
        rc = call(flags, by_number);
        why = errno;
    }
    if (rc == 0 && may_call() && limit() != RLIM_INFINITY) {
        hw_memlock_undo = flags & MCL_FUTURE;
        hw_client_session_each_mapping(unlock, NULL, /* of_session = */ false);
    }
    errno = rc == 0 ? before : why;
    return is_bare && rc != 0 ? call_real(flags, by_number) : rc;
}

HW_EXPORT int hook_mlockall(int flags) __asm__("mlockall");
HW_EXPORT int hook_mlockall(int flags)
{
    return hw_memlock(flags, /* by_number = */ false);
}
