/*
 * inject.c - one command, from choosing the thread to letting it go
 *
 *      look (process.c)              the process runs
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "inject/process.h"
#include "inject/thread.h"
#include "proc/number.h"
#include "unwind/walk.h"
#include "wire/records.h"

#include "base/banned.h"

#define STACK_BYTES   (256u * 1024)
#define PAGE_BYTES    4096u
#define CALL_NS       UINT64_C(2000000000)
#define TRIES         100
#define TRY_PAUSE_NS  50000
#define COPY_BYTES    (128u * 1024)
#define FRAMES_ENOUGH 48 /* a walk that gets so far and no further has seen what matters */
#define MAX_THREADS   256
#define MAX_LIBRARY   (64u * 1024 * 1024)

struct job {
    const struct hw_inject_request *q;
    struct hw_inject_result *out;
    struct hw_process process;
    struct hw_thread thread;
    struct hw_walk_out walk;
    uint8_t *copy; /* of its stack */
    uint8_t *file; /* the library */
    size_t file_bytes;
    uint64_t block_va;
    int32_t tids[MAX_THREADS];
    size_t n_tids;
    /* in the target */
    uint64_t stack, code, base;
    int64_t fd;
};

/* ---- our own file ---- */

static int read_library(struct job *j, struct hw_error *err)
{
    const char *path = j->q->library;
    struct stat st;
    struct hw_image img;
    struct hw_symbols s = {0};
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    if (st.st_size <= 0 || st.st_size > MAX_LIBRARY)
        return hw_fail(err, HW_EFORMAT, 0, "'%s' is not the client library", path);
    int rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0)
        return rc;
    bool found = hw_symbols_find(&img, ".dynsym", HW_ATTACH_SYMBOL, &j->block_va);
    rc = found ? hw_image_read(&img, 0, (uint64_t)st.st_size, MAX_LIBRARY, &j->file, err)
               : hw_fail(err, HW_EVERSION, 0, "'%s' is of another version", path);
    j->file_bytes = (size_t)st.st_size;
    hw_symbols_done(&s);
    hw_image_close(&img);
    return rc;
}

/* What is loaded already must be the same file: its addresses are taken from ours. */
static int check_loaded(const struct job *j, struct hw_error *err)
{
    uint8_t head[1024];
    if (hw_process_read(&j->process, j->process.library, head, sizeof head) < 0 ||
        j->file_bytes < sizeof head || memcmp(head, j->file, sizeof head) != 0)
        return hw_fail(err, HW_EVERSION, 0,
                       "process %d holds another version of the library from an earlier attach; "
                       "use that version, or start the program again",
                       j->q->pid->pid);
    return HW_OK;
}

/* ---- the moment ---- */

static int list_threads(struct job *j)
{
    hw_autofd int fd = openat(j->q->pid->dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(dup(fd));
    const struct dirent *e;
    j->n_tids = 0;
    while (d && j->n_tids < MAX_THREADS && (e = readdir(d))) {
        if (e->d_name[0] != '.')
            j->tids[j->n_tids++] = hw_proc_tid_of((int32_t)strtol(e->d_name, NULL, 10));
    }
    if (d)
        (void)closedir(d); /* it was only read */
    return j->n_tids ? HW_OK : HW_EGONE;
}

/* patient: a stack that cannot be walked to its end does, too. */
static bool is_safe(struct job *j, bool patient)
{
    struct hw_thread_regs r;
    if (hw_thread_regs(&j->thread, &r) < 0)
        return false;
    bool enters = r.pc == j->process.malloc_at; /* no lock is held yet: who called it decides */
    if ((!enters && hw_process_forbids(&j->process, r.pc)) || hw_thread_in_rseq(&j->thread, r.pc))
        return false;
    if (!j->q->tables)
        return true;
    const struct hw_map *m = hw_maps_find(&j->process.maps, r.sp);
    uint64_t n = m ? m->end - r.sp : PAGE_BYTES - (r.sp & (PAGE_BYTES - 1));
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
    return hw_stop_is_complete(j->walk.stop) || j->walk.n_frames >= FRAMES_ENOUGH || patient;
}

/* A seized thread at a safe moment. */
static int seize(struct job *j, struct hw_error *err)
{
    int rc = HW_ETIMEOUT;
    for (uint32_t i = 0; i < TRIES; i++) {
        if (i % 16 == 0 && list_threads(j) < 0)
            return hw_fail(err, HW_EGONE, 0, "process %d has ended", j->q->pid->pid);
        rc = hw_thread_seize(&j->thread, j->q->pid->pid, j->tids[i % j->n_tids], err);
        j->out->n_tries++;
        if (rc == HW_EPERM)
            return rc;
        if (rc < 0) {
            if (!hw_pid_alive(j->q->pid))
                return hw_fail(err, HW_EGONE, 0, "process %d has ended", j->q->pid->pid);
            continue;
        }
        if (is_safe(j, i >= TRIES / 4))
            return HW_OK;
        bool last = i + 1 == TRIES;
        if (last && j->process.malloc_at &&
            hw_thread_run_to(&j->thread, j->process.malloc_at) == HW_OK &&
            is_safe(j, /* patient = */ true))
            return HW_OK;
        hw_thread_release(&j->thread);
        struct timespec pause = {0, TRY_PAUSE_NS};
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
    }
    return hw_fail(err, HW_ETIMEOUT, 0,
                   "process %d was in its allocator or loader whenever it was looked at; try again",
                   j->q->pid->pid);
}

/* ---- in the stopped thread ---- */

static bool fails_here(const struct job *j, enum hw_inject_step step, struct hw_error *err)
{
    if (j->q->fail_at != step)
        return false;
    (void)hw_fail(err, HW_ESYS, 0, "failure asked for at step %d", (int)step);
    return true;
}

static int call_kernel(struct job *j, long n, const uint64_t a[6], int64_t *out, const char *what,
                       struct hw_error *err)
{
    int rc = hw_thread_syscall(&j->thread, n, a, out);
    if (rc < 0)
        return hw_fail(err, rc, 0, "process %d: %s: %s", j->q->pid->pid, what, hw_errc_text(rc));
    if (*out < 0 && *out > -4096)
        return hw_fail(err, HW_ESYS, 0, "process %d: %s: %s", j->q->pid->pid, what,
                       strerror((int)-*out));
    return HW_OK;
}

static int write_there(struct job *j, uint64_t at, const void *p, size_t n, struct hw_error *err)
{
    hw_autofd int mem = openat(j->q->pid->dir, "mem", O_RDWR | O_CLOEXEC);
    if (mem < 0 || pwrite(mem, p, n, (off_t)at) != (ssize_t)n)
        return hw_fail_sys(err, "memory of process %d", j->q->pid->pid);
    return HW_OK;
}

static int map_there(struct job *j, uint64_t n, int prot, uint64_t *at, struct hw_error *err)
{
    uint64_t a[6] = {0, n, (uint64_t)prot, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    int64_t p;
    int rc = call_kernel(j, SYS_mmap, a, &p, "memory for the call", err);
    if (rc == HW_OK)
        *at = (uint64_t)p;
    return rc;
}

static int make_room(struct job *j, struct hw_error *err)
{
    int rc = map_there(j, STACK_BYTES, PROT_READ | PROT_WRITE, &j->stack, err);
    if (rc < 0 || fails_here(j, HW_INJECT_STACK, err))
        return rc < 0 ? rc : HW_ESYS;
    rc = map_there(j, PAGE_BYTES, PROT_READ | PROT_EXEC, &j->code, err);
    if (rc < 0 || fails_here(j, HW_INJECT_CODE, err))
        return rc < 0 ? rc : HW_ESYS;
    j->thread.code_at = j->code;
    j->thread.stack_top = j->stack + STACK_BYTES - PAGE_BYTES; /* texts lie above */
    return write_there(j, j->code, HW_THREAD_CODE, sizeof HW_THREAD_CODE - 1, err);
}

static int put_text(struct job *j, const char *text, uint64_t *at, struct hw_error *err)
{
    *at = j->thread.stack_top;
    return write_there(j, *at, text, strlen(text) + 1, err);
}

static int make_carrier(struct job *j, struct hw_error *err)
{
    uint64_t name, a[6] = {0};
    int rc = put_text(j, HW_INJECT_CARRIER_NAME, &name, err);
    if (rc < 0)
        return rc;
    a[0] = name;
    a[1] = MFD_CLOEXEC;
    rc = call_kernel(j, SYS_memfd_create, a, &j->fd, "memory file", err);
    if (rc < 0) {
        j->fd = -1;
        return rc;
    }
    if (fails_here(j, HW_INJECT_CARRIER, err))
        return HW_ESYS;
    char path[64];
    (void)snprintf(path, sizeof path, "fd/%d", (int)j->fd);
    hw_autofd int fd = openat(j->q->pid->dir, path, O_WRONLY | O_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < j->file_bytes) {
        ssize_t n = write(fd, j->file + done, j->file_bytes - done);
        if (n <= 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    if (done < j->file_bytes)
        return hw_fail_sys(err, "memory file in process %d", j->q->pid->pid);
    return fails_here(j, HW_INJECT_FILLED, err) ? HW_ESYS : HW_OK;
}

static int call_libc(struct job *j, uint64_t fn, uint64_t a, uint64_t b, uint64_t *out,
                     const char *what, struct hw_error *err)
{
    int rc = hw_thread_call(&j->thread, fn, a, b, CALL_NS, out);
    if (rc == HW_ETIMEOUT)
        return hw_fail(err, rc, 0, "process %d: %s did not end within 2 s", j->q->pid->pid, what);
    return rc < 0 ? hw_fail(err, rc, 0, "process %d: %s failed: %s", j->q->pid->pid, what,
                            hw_errc_text(rc))
                  : HW_OK;
}

static int load(struct job *j, struct hw_error *err)
{
    char path[64];
    uint64_t at, h, *handle = &h;
    int rc = make_carrier(j, err);
    if (rc < 0)
        return rc;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", (int)j->fd);
    rc = put_text(j, path, &at, err);
    if (rc == HW_OK)
        rc = call_libc(j, j->process.dlopen_at, at, 2 /* RTLD_NOW */, handle, "dlopen", err);
    if (rc < 0)
        return rc;
    if (*handle == 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d: its loader refuses the library",
                       j->q->pid->pid);
    if (hw_process_read(&j->process, *handle, &j->base, sizeof j->base) < 0)
        return hw_fail(err, HW_ESYS, 0, "process %d: the library's address", j->q->pid->pid);
    j->out->loaded = true;
    rc = write_there(j, j->base + j->block_va + offsetof(struct hw_attach_block, handle), handle,
                     sizeof *handle, err);
    if (rc < 0)
        return rc;
    return fails_here(j, HW_INJECT_LOADED, err) ? HW_ESYS : HW_OK;
}

static int result_error(const struct job *j, uint32_t result, struct hw_error *err)
{
    static const struct {
        int rc;
        const char *text;
    } texts[HW_ATTACHED_COUNT] = {
        [HW_ATTACHED_NOT_LATE] = {HW_EBUSY, "was started with the library"},
        [HW_ATTACHED_NO_MALLOC] = {HW_EUNSUPPORTED, "has no malloc that could be found"},
        [HW_ATTACHED_BUILT_IN] = {HW_EUNSUPPORTED,
                                  "has an allocator linked into the program itself, which calls it "
                                  "without a table that could be changed"},
        [HW_ATTACHED_MIXED] = {HW_EUNSUPPORTED, "takes malloc and free from different libraries"},
        [HW_ATTACHED_BUSY] = {HW_EBUSY, "is recorded by another recorder"},
        [HW_ATTACHED_NO_MEMORY] = {HW_ENOMEM, "has no memory left for the client"},
        [HW_ATTACHED_NO_SLOT] = {HW_EUNSUPPORTED, "calls its allocator nowhere through a table"},
        [HW_ATTACHED_UNKNOWN] = {HW_EVERSION, "holds another version of the library"},
    };
    if (result == HW_ATTACHED_OK)
        return HW_OK;
    if (result >= HW_ATTACHED_COUNT)
        return hw_fail(err, HW_EFORMAT, 0, "process %d answered nonsense", j->q->pid->pid);
    return hw_fail(err, texts[result].rc, 0, "process %d %s", j->q->pid->pid, texts[result].text);
}

static int command(struct job *j, enum hw_attach_command what, struct hw_error *err)
{
    struct hw_attach_block b;
    uint64_t at = j->base + j->block_va, name, ignored;
    if (hw_process_read(&j->process, at, &b, sizeof b) < 0 || b.magic != HW_ATTACH_MAGIC ||
        b.version != HW_WIRE_VERSION)
        return hw_fail(err, HW_EVERSION, 0, "process %d holds another version of the library",
                       j->q->pid->pid);
    b.command = (uint32_t)what;
    b.result = HW_ATTACHED_UNKNOWN;
    b.generation = j->q->generation;
    if (j->q->socket_path)
        (void)snprintf(b.socket_path, sizeof b.socket_path, "%s", j->q->socket_path);
    int rc = write_there(j, at, &b, sizeof b, err);
    if (rc == HW_OK)
        rc = put_text(j, HW_ATTACH_RUN, &name, err);
    if (rc == HW_OK)
        rc = call_libc(j, j->process.dlsym_at, b.handle, name, &ignored, "the command", err);
    if (rc < 0)
        return rc;
    if (hw_process_read(&j->process, at, &b, sizeof b) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", j->q->pid->pid);
    j->out->n_slots = b.n_slots;
    j->out->n_changed = b.n_changed;
    j->out->n_modules = b.n_modules;
    return result_error(j, b.result, err);
}

/* Whatever can still be given back; a thread that stands in the kernel's middle cannot. */
static void clean(struct job *j)
{
    int64_t ignored;
    if (j->fd >= 0)
        (void)hw_thread_syscall(&j->thread, SYS_close, (uint64_t[6]){(uint64_t)j->fd}, &ignored);
    if (j->code)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->code, PAGE_BYTES},
                                &ignored);
    if (j->stack)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->stack, STACK_BYTES},
                                &ignored);
}

/* The hooks go when something failed behind their coming. */
static int run_stopped(struct job *j, struct hw_error *err)
{
    if (fails_here(j, HW_INJECT_STOPPED, err))
        return HW_ESYS;
    int rc = hw_thread_save(&j->thread, err);
    if (rc < 0)
        return rc;
    if (fails_here(j, HW_INJECT_SAVED, err))
        return HW_ESYS;
    rc = make_room(j, err);
    if (rc == HW_OK && !j->process.library)
        rc = load(j, err);
    if (rc == HW_OK)
        rc = command(j, j->q->command, err);
    if (rc == HW_OK && fails_here(j, HW_INJECT_COMMANDED, err)) {
        if (j->q->command == HW_ATTACH_HOOK)
            (void)command(j, HW_ATTACH_UNHOOK, NULL); /* what is told is the first failure */
        rc = HW_ESYS;
    }
    clean(j);
    return rc;
}

static int run(struct job *j, struct hw_error *err)
{
    int rc = hw_process_look(j->q->pid, &j->process, err);
    if (rc < 0)
        return rc;
    rc = read_library(j, err);
    if (rc == HW_OK && j->process.library)
        rc = check_loaded(j, err);
    else if (rc == HW_OK && j->q->command != HW_ATTACH_HOOK)
        rc = hw_fail(err, HW_EGONE, 0, "process %d does not hold the library", j->q->pid->pid);
    j->base = j->process.library;
    j->thread.syscall_at = j->process.syscall_at;
    if (rc == HW_OK && !(j->copy = malloc(COPY_BYTES)))
        rc = hw_fail(err, HW_ENOMEM, 0, "process %d", j->q->pid->pid);
    if (rc == HW_OK)
        rc = seize(j, err);
    if (rc == HW_OK) {
        rc = run_stopped(j, err);
        hw_thread_release(&j->thread);
        j->out->pause_ns = hw_now_monotonic_ns() - j->thread.stopped_ns;
    }
    hw_process_done(&j->process);
    return rc;
}

int hw_inject(const struct hw_inject_request *q, struct hw_inject_result *out, struct hw_error *err)
{
    uint64_t start = hw_now_monotonic_ns();
    struct job *j = calloc(1, sizeof *j);
    *out = (struct hw_inject_result){0};
    if (!j)
        return hw_fail(err, HW_ENOMEM, 0, "attach");
    j->q = q;
    j->out = out;
    j->fd = -1;
    int rc = run(j, err);
    free(j->copy);
    free(j->file);
    free(j);
    out->whole_ns = hw_now_monotonic_ns() - start;
    return rc;
}
