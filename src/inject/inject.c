/*
 * inject.c - one command, from choosing the thread to letting it go
 *
 *      look (process_facts.c)        the process runs
 *      seize a thread                .--- it stands; all others run on
 *        safe? no: let go, next      |
 *      save                          |
 *      mmap stack and code           |
 *      memfd_create, fill            |    only when the library is not there
 *      dlopen("/proc/self/fd/N")     |
 *      write the command's block     |
 *      dlsym(handle, run)            |    does it, under the loader's lock
 *      close, munmap                 |
 *      restore                       '--- it goes on
 *
 * Safe is a moment at which none of the thread's frames is in the allocator, the loader, or code
 * that forks or ends the process: our call takes their locks. A thread that is always in the
 * allocator is stopped at malloc's entry by a debug register: there it holds no lock yet.
 */
#include "inject/inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "inject/filters/seccomp.h"
#include "inject/remote/calls.h"
#include "inject/remote/job.h"
#include "inject/remote/sleep.h"
#include "proc/number.h"

#include "base/banned.h"

#define TRIES         100
#define TRY_PAUSE_NS  50000
#define PARTS_NS      UINT64_C(500000000) /* how long to wait for a write to end */
#define COPY_BYTES    (128u * 1024)
#define FRAMES_ENOUGH 48 /* a walk that got this far and no further has seen what matters */
#define MAX_LIBRARY   (64u * 1024 * 1024)

/* ---- our own file ---- */

/* The bare client lies beside the full one. */
static int bare_path(const char *library, char *out, size_t n, struct hw_error *err)
{
    const char *slash = strrchr(library, '/');
    int dir = slash ? (int)(slash + 1 - library) : 0;
    if (snprintf(out, n, "%.*s%s", dir, library, HW_INJECT_BARE_NAME) >= (int)n)
        return hw_fail(err, HW_ELIMIT, 0, "'%s' is too long", library);
    return HW_OK;
}

static int read_library(struct hw_job *j, struct hw_error *err)
{
    char path[4096];
    struct stat st;
    struct hw_image img;
    bool raw = j->process.raw;
    int rc = raw ? bare_path(j->q->library, path, sizeof path, err) : HW_OK;
    if (rc < 0)
        return rc;
    const char *name = raw ? path : j->q->library;
    hw_autofd int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return hw_fail_sys(err, "cannot open '%s'", name);
    if (st.st_size <= 0 || st.st_size > MAX_LIBRARY)
        return hw_fail(err, HW_EFORMAT, 0, "'%s' is not the client library", name);
    rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0)
        return rc;
    bool found =
        hw_symbols_find(&img, ".dynsym", raw ? HW_BARE_SYMBOL : HW_ATTACH_SYMBOL, &j->block_va) &&
        (!raw || hw_symbols_find(&img, ".dynsym", HW_BARE_RUN, &j->run_va));
    rc = found ? hw_image_read(&img, 0, (uint64_t)st.st_size, MAX_LIBRARY, &j->file, err)
               : hw_fail(err, HW_EVERSION, 0,
                         "'%s' belongs to another version of heapwise; install the tools together",
                         name);
    j->file_bytes = (size_t)st.st_size;
    hw_image_close(&img);
    return rc;
}

/* A library that is already loaded must be the same file: we take its addresses from ours. */
static int check_loaded(const struct hw_job *j, struct hw_error *err)
{
    uint8_t head[1024];
    if (hw_process_read(&j->process, j->process.library, head, sizeof head) < 0 ||
        j->file_bytes < sizeof head || memcmp(head, j->file, sizeof head) != 0)
        return hw_fail(err, HW_EVERSION, 0,
                       "process %d holds another version of the client library from an earlier "
                       "attach; use that version, or restart the program",
                       j->q->pid->pid);
    return HW_OK;
}

/* ---- the moment ---- */

static int list_threads(struct hw_job *j)
{
    hw_autofd int fd = openat(j->q->pid->dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(dup(fd));
    const struct dirent *e;
    j->n_tids = 0;
    while (d && j->n_tids < HW_JOB_MAX_THREADS && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        j->numbers[j->n_tids] = (int32_t)strtol(e->d_name, NULL, 10);
        j->tids[j->n_tids] = hw_proc_tid_of(j->numbers[j->n_tids]);
        j->n_tids++;
    }
    if (d)
        (void)closedir(d); /* it was only read */
    return j->n_tids ? HW_OK : HW_EGONE;
}

/* By its registers alone, which rule out most unsuitable moments. */
static bool may_be_safe(struct hw_job *j)
{
    struct hw_thread_regs r;
    if (hw_thread_regs(&j->thread, &r) < 0)
        return false;
    return j->process.raw || r.pc == j->process.malloc_at || !hw_process_forbids(&j->process, r.pc);
}

/* accept_any_stack: also a stack that cannot be walked to its end, or that is not the thread's
 * own. */
static bool is_safe(struct hw_job *j, bool accept_any_stack)
{
    struct hw_thread_regs r;
    if (hw_thread_regs(&j->thread, &r) < 0)
        return false;
    if (hw_thread_waits_for_dead_recorder(&j->thread) ||
        (!accept_any_stack && !hw_job_room_on_stack(j)))
        return false;
    if (hw_thread_in_rseq(&j->thread, r.pc))
        return false;
    bool enters = r.pc == j->process.malloc_at; /* it holds no lock yet: its caller decides */
    if (j->process.raw || !j->q->tables)        /* raw: no function of the program will be called */
        return true;
    const struct hw_map *m = hw_maps_find(&j->process.maps, r.sp);
    uint64_t n = m ? m->end - r.sp : HW_JOB_PAGE_BYTES - (r.sp & (HW_JOB_PAGE_BYTES - 1));
    n = (n < COPY_BYTES ? n : COPY_BYTES) & ~UINT64_C(7);
    if (hw_process_read(&j->process, r.sp, j->copy, n) < 0)
        return false;
    struct hw_walk_in in = {.tables = j->q->tables,
                            .snapshot = hw_tables_snapshot(j->q->tables),
                            .regs = {.pc = r.pc, .sp = r.sp, .fp = r.fp},
                            .hi = r.sp + n,
                            .delta = (uint64_t)(uintptr_t)j->copy - r.sp,
                            .max_frames = HW_MAX_FRAMES,
                            .first_is_exact = true};
    if (!in.snapshot)
        return true;
    hw_walk(&in, NULL, &j->walk);
    for (uint32_t i = enters; i < j->walk.n_frames; i++)
        if (hw_process_forbids(&j->process, j->walk.pcs[i] - (i > 0)))
            return false;
    return hw_stop_is_complete(j->walk.stop) || j->walk.n_frames >= FRAMES_ENOUGH ||
           accept_any_stack;
}

/* HW_ETIMEOUT: not now. Any other error ends the attempt. */
static int inspect_thread(struct hw_job *j, int32_t number, bool accept_any_stack,
                          struct hw_error *err)
{
    if (!may_be_safe(j))
        return HW_ETIMEOUT;
    int rc = hw_job_check_standing(j, number, err);
    if (rc < 0)
        return rc;
    return is_safe(j, accept_any_stack) ? HW_OK : HW_ETIMEOUT;
}

/* The last resort, after all other tries failed: stop it where it enters malloc. */
static int look_at_malloc(struct hw_job *j, int32_t number, struct hw_error *err)
{
    if (!j->process.malloc_at || (j->thread.kept_mask >> (SIGTRAP - 1) & 1))
        return HW_ETIMEOUT;
    int rc = hw_job_check_standing(j, number, err); /* it belongs to the image that was inspected */
    if (rc < 0)
        return rc;
    j->ran_to = true;
    if (hw_thread_run_to(&j->thread, j->process.malloc_at) < 0)
        return HW_ETIMEOUT;
    return inspect_thread(j, number, /* accept_any_stack = */ true, err); /* it has run meanwhile */
}

static bool is_thread_of(const struct hw_pid *pid, int32_t number)
{
    char name[32];
    (void)snprintf(name, sizeof name, "task/%d", number);
    return faccessat(pid->dir, name, F_OK, 0) == 0;
}

/* Seizes that thread. HW_EBUSY: not while it is in this call. */
static int seize_one(struct hw_job *j, int32_t number, int32_t tid, struct hw_error *err)
{
    const struct hw_pid *pid = j->q->pid;
    struct hw_call_now call;
    struct hw_sleep sleep;
    hw_call_inspect(pid, number, &call);
    if (hw_call_may_be_cut(pid, &call))
        return HW_EBUSY;
    hw_sleep_inspect(pid, number, &call, j->thread.filtered, &sleep);
    j->thread.number = number;
    int rc = hw_thread_take(&j->thread, pid->pid, tid, err);
    if (rc < 0)
        return rc;
    hw_sleep_check(pid, number, &sleep);
    rc = hw_thread_stop(&j->thread, err);
    if (rc < 0)
        return rc;
    uint64_t room = hw_job_room_on_stack(j);
    j->thread.slept_ns = hw_sleep_until(pid, number, &sleep, j->thread.stopped_ns);
    j->thread.spare_at = room ? room - HW_THREAD_SPARE_BYTES : 0;
    if (is_thread_of(pid, number)) /* the number may be another thread's by now */
        hw_thread_finish_call(&j->thread, pid, PARTS_NS);
    return HW_OK;
}

/* Seizes a thread at a safe moment. */
static int seize(struct hw_job *j, struct hw_error *err)
{
    uint64_t give_up_ns = hw_now_monotonic_ns() + PARTS_NS;
    struct timespec pause = {0, TRY_PAUSE_NS}, longer = {0, 10 * TRY_PAUSE_NS};
    uint32_t i = 0, n_parted = 0;
    while (i < TRIES) {
        size_t at = i + n_parted;
        if (at % 16 == 0 && list_threads(j) < 0)
            return hw_fail(err, HW_EGONE, 0, "process %d has ended", j->q->pid->pid);
        int32_t number = j->numbers[at % j->n_tids];
        int rc = seize_one(j, number, j->tids[at % j->n_tids], err);
        if (rc == HW_EBUSY) {
            if (hw_now_monotonic_ns() > give_up_ns)
                return hw_fail(
                    err, HW_ETIMEOUT, 0,
                    "process %d is in the middle of a write that a stop would cut short; try again",
                    j->q->pid->pid);
            if (++n_parted % j->n_tids == 0)
                (void)nanosleep(&longer, NULL); /* a signal only shortens it */
            continue;
        }
        i++;
        j->out->n_tries++;
        if (rc == HW_EPERM)
            return rc;
        if (rc < 0) {
            if (!hw_pid_alive(j->q->pid))
                return hw_fail(err, HW_EGONE, 0, "process %d has ended", j->q->pid->pid);
            continue;
        }
        rc = inspect_thread(j, number, i > TRIES / 4, err);
        if (rc == HW_ETIMEOUT && i == TRIES)
            rc = look_at_malloc(j, number, err);
        if (rc == HW_OK)
            return rc;
        (void)hw_thread_release(&j->thread); /* else when our own thread ends */
        if (rc != HW_ETIMEOUT)
            return rc;
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
    }
    return hw_fail(err, HW_ETIMEOUT, 0,
                   "process %d was inside its allocator or its dynamic linker each time it was "
                   "stopped; try again",
                   j->q->pid->pid);
}

/*
 * The debug register's SIGTRAP makes the kernel forget that the program ignores that signal. (A
 * thread that blocks it is not stopped this way.)
 */
static void ignore_again(struct hw_job *j)
{
    struct {
        uint64_t handler, flags, restorer, mask;
    } action = {1 /* SIG_IGN */, 0, 0, 0};
    uint64_t a[6] = {SIGTRAP, j->thread.stack_top, 0, sizeof action.mask};
    int64_t rc;
    if (!j->ran_to || !j->process.ignores_trap)
        return;
    if (hw_job_write(j, j->thread.stack_top, &action, sizeof action, NULL) == HW_OK)
        (void)hw_thread_syscall(&j->thread, SYS_rt_sigaction, a, &rc); /* it cannot fail */
}

static int run_stopped(struct hw_job *j, struct hw_error *err)
{
    if (hw_job_fails(j, HW_INJECT_STOPPED, err))
        return HW_ESYS;
    int rc = HW_OK;
    if (j->process.status.seccomp != 0 || hw_seccomp_is_there(j->thread.tid)) {
        rc = hw_seccomp_check_others(j->q->pid, err);
        if (rc == HW_OK)
            rc = hw_seccomp_check(j->q->pid, j->thread.tid, &j->process.status,
                                  j->process.raw ? HW_SECCOMP_RAW : HW_SECCOMP_DLOPEN, err);
    }
    if (rc == HW_OK)
        rc = hw_thread_save(&j->thread, err);
    if (rc < 0)
        return rc;
    if (hw_job_fails(j, HW_INJECT_SAVED, err))
        return HW_ESYS;
    rc = hw_job_make_room(j, err);
    if (rc == HW_OK)
        ignore_again(j);
    if (rc == HW_OK)
        rc = j->process.raw ? hw_job_by_raw(j, err) : hw_job_by_loader(j, err);
    hw_job_clean(j);
    return rc;
}

static int run(struct hw_job *j, struct hw_error *err)
{
    int rc = hw_process_inspect(j->q->pid, &j->process, err);
    if (rc < 0)
        return rc;
    rc = read_library(j, err);
    if (rc == HW_OK && j->process.library)
        rc = check_loaded(j, err);
    else if (rc == HW_OK && j->q->command != HW_ATTACH_HOOK)
        rc = hw_fail(err, HW_EGONE, 0, "process %d does not have the client library",
                     j->q->pid->pid);
    j->base = j->process.library;
    j->thread.syscall_at = j->process.syscall_at;
    j->thread.filtered = j->process.status.seccomp != 0;
    if (rc == HW_OK && j->process.raw)
        rc = hw_job_plan_raw(j, err);
    if (rc == HW_OK && !(j->copy = malloc(COPY_BYTES)))
        rc = hw_fail(err, HW_ENOMEM, 0, "process %d", j->q->pid->pid);
    if (rc == HW_OK)
        rc = seize(j, err);
    if (rc == HW_OK) {
        rc = run_stopped(j, err);
        (void)hw_thread_release(&j->thread); /* else when our own thread ends */
        j->out->pause_ns = hw_now_monotonic_ns() - j->thread.stopped_ns;
    }
    hw_job_raw_done(j);
    hw_process_done(&j->process);
    return rc;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

int hw_inject(const struct hw_inject_request *q, struct hw_inject_result *out, struct hw_error *err)
{
    (void)pthread_once(&once, hw_thread_prepare); /* cannot fail */
    uint64_t start = hw_now_monotonic_ns();
    struct hw_job *j = calloc(1, sizeof *j);
    *out = (struct hw_inject_result){0};
    if (!j)
        return hw_fail(err, HW_ENOMEM, 0, "attach");
    j->q = q;
    j->out = out;
    j->fd = j->process.mem = j->thread.mem = -1;
    int rc = run(j, err);
    free(j->copy);
    free(j->file);
    free(j);
    out->whole_ns = hw_now_monotonic_ns() - start;
    return rc;
}
