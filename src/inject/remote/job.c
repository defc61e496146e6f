/* job.c - what is done on the stopped thread, however the library is loaded */
#include "inject/remote/job.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/pid.h"

#include "base/banned.h"

#define CALL_NS  UINT64_C(2000000000)
#define RED_ZONE 128u
#define SPARE    16384u /* room that a signal handler could still need */

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

bool hw_job_fails(const struct hw_job *j, enum hw_inject_step step, struct hw_error *err)
{
    if (j->q->fail_at != step)
        return false;
    (void)hw_fail(err, HW_ESYS, 0, "requested failure at step %d", (int)step);
    return true;
}

int hw_job_kernel(struct hw_job *j, long n, const uint64_t a[6], int64_t *out, const char *what,
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

int hw_job_write(struct hw_job *j, uint64_t at, const void *p, size_t n, struct hw_error *err)
{
    ssize_t done = pwrite(j->process.mem, p, n, (off_t)at);
    if (done == (ssize_t)n)
        return HW_OK;
    if (done == 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has executed another program", j->q->pid->pid);
    return hw_fail_sys(err, "memory of process %d", j->q->pid->pid);
}

/* The ids in its own memory, as the kernel wrote them at its exec: nothing found before holds
 * for another image, and we may not be allowed to touch that one. */
static int check_image(struct hw_job *j, const struct hw_pid *thread, struct hw_error *err)
{
    struct hw_process *p = &j->process;
    struct hw_exec_id now;
    if (p->mem >= 0)
        (void)close(p->mem); /* from an earlier stop */
    p->mem = j->thread.mem = openat(thread->dir, "mem", O_RDWR | O_CLOEXEC);
    if (p->mem < 0)
        return hw_fail(err, errno == EACCES ? HW_EPERM : HW_EGONE, 0, "memory of process %d: %s",
                       thread->pid, strerror(errno));
    int rc = hw_exec_id_read(thread->pid, thread->dir, p->mem, &now);
    if (rc < 0 || !hw_exec_id_same(&now, &p->id))
        return hw_fail(err, rc == HW_EPERM ? rc : HW_EGONE, 0,
                       "process %d has executed another program", thread->pid);
    return HW_OK;
}

int hw_job_check_standing(struct hw_job *j, int32_t number, struct hw_error *err)
{
    struct hw_pid thread = *j->q->pid;
    struct hw_proc_status st;
    char name[32];
    (void)snprintf(name, sizeof name, "task/%d", number);
    hw_autofd int dir = openat(thread.dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) /* it has ended, and another process has its number */
        return hw_fail(err, HW_ETIMEOUT, 0, "thread %d does not belong to process %d", number,
                       thread.pid);
    thread.dir = dir;
    int rc = check_image(j, &thread, err);
    if (rc == HW_OK && hw_proc_status(dir, &st) < 0)
        rc = hw_fail(err, HW_EGONE, 0, "process %d has ended", thread.pid);
    if (rc == HW_OK) {
        j->fsuid = st.fsuid;
        rc = j->q->may ? j->q->may(j->q->arg, &thread, err) : HW_OK;
    }
    return rc;
}

int hw_job_map(struct hw_job *j, uint64_t n, int prot, uint64_t *at, struct hw_error *err)
{
    uint64_t a[6] = {0, n, (uint64_t)prot, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    int64_t p;
    int rc = hw_job_kernel(j, SYS_mmap, a, &p, "memory for the call", err);
    if (rc == HW_OK)
        *at = (uint64_t)p;
    return rc;
}

/*
 * Signals are delivered on the thread's current stack, so the space below its red zone may be used
 * if that stack is known to be large: the first thread's, or one that ends in the thread's own
 * block (the thread pointer). A goroutine's or a fiber's is neither.
 */
uint64_t hw_job_room_on_stack(struct hw_job *j)
{
    struct hw_thread_regs r;
    if (hw_thread_regs(&j->thread, &r) < 0)
        return 0;
    const struct hw_map *m = hw_maps_find(&j->process.maps, r.sp);
    bool known = m && (strcmp(m->path, "[stack]") == 0 || (r.tp > r.sp && r.tp < m->end));
    uint64_t need = HW_THREAD_STATE_BYTES + RED_ZONE + 64;
    if (!known || r.sp - m->start < need + SPARE)
        return 0;
    return (r.sp - need) & ~UINT64_C(63);
}

static int write_state(struct hw_job *j, uint64_t at, struct hw_error *err)
{
    uint8_t *bytes = malloc(HW_THREAD_STATE_BYTES);
    if (!bytes)
        return hw_fail(err, HW_ENOMEM, 0, "attach");
    size_t n = hw_thread_state(&j->thread, at, bytes);
    int rc = hw_job_write(j, at, bytes, n, err);
    free(bytes);
    return rc;
}

int hw_job_write_state(struct hw_job *j, struct hw_error *err)
{
    int rc = j->thread.boot_at ? write_state(j, j->thread.boot_at, err) : HW_OK;
    return rc < 0 || !j->stack ? rc : write_state(j, j->thread.state_at, err);
}

/*
 *  stack  | ....... <- stack_top | a text | state and registers |
 *  code   | hw_thread_code |
 */
int hw_job_make_room(struct hw_job *j, struct hw_error *err)
{
    uint64_t boot = hw_job_room_on_stack(j);
    j->thread.syscall_ret_at = j->process.syscall_ret_at;
    j->thread.restorer_at = j->process.restorer_at;
    if (boot && j->thread.syscall_ret_at && j->thread.restorer_at &&
        write_state(j, boot, NULL) == HW_OK)
        j->thread.boot_at = boot;
    int rc = hw_job_map(j, HW_JOB_STACK_BYTES, PROT_READ | PROT_WRITE, &j->stack, err);
    if (rc < 0 || hw_job_fails(j, HW_INJECT_STACK, err))
        return rc < 0 ? rc : HW_ESYS;
    rc = hw_job_map(j, HW_JOB_PAGE_BYTES, PROT_READ | PROT_EXEC, &j->code, err);
    if (rc < 0 || hw_job_fails(j, HW_INJECT_CODE, err))
        return rc < 0 ? rc : HW_ESYS;
    j->thread.state_at = j->stack + HW_JOB_STACK_BYTES - HW_THREAD_STATE_BYTES;
    j->thread.stack_top = j->thread.state_at - HW_JOB_PAGE_BYTES;
    rc = hw_job_write(j, j->code, hw_thread_code, hw_thread_code_bytes, err);
    if (rc == HW_OK)
        rc = write_state(j, j->thread.state_at, err);
    if (rc == HW_OK)
        j->thread.code_at = j->code; /* from now on the thread recovers by itself */
    return rc;
}

int hw_job_put_text(struct hw_job *j, const char *text, uint64_t *at, struct hw_error *err)
{
    *at = j->thread.stack_top;
    return hw_job_write(j, *at, text, strlen(text) + 1, err);
}

/*
 * The target's descriptor, copied by the kernel: open just as the target has it. Through its path
 * (/proc/PID/fd/N) it would be opened again, with our rights: whatever another thread has put under
 * that number meanwhile, including an O_PATH descriptor of anybody's file. From the thread itself
 * where the kernel can do that (Linux 6.9): it need not share the files of its process.
 */
static int take_descriptor(const struct hw_job *j)
{
    hw_autofd int thread = (int)syscall(SYS_pidfd_open, j->thread.tid, PIDFD_THREAD);
    return (int)syscall(SYS_pidfd_getfd, thread >= 0 ? thread : j->q->pid->pidfd, (int)j->fd, 0);
}

/* Checked on the very descriptor that is written to: a new, empty memory file of that thread. */
static bool is_new_memory(const struct hw_job *j, int fd, const struct stat *st)
{
    struct statfs fs;
    int flags = fcntl(fd, F_GETFL), seals = fcntl(fd, F_GET_SEALS);
    return flags >= 0 && (flags & (O_ACCMODE | O_PATH)) == O_RDWR && fstatfs(fd, &fs) == 0 &&
           fs.f_type == TMPFS_MAGIC && S_ISREG(st->st_mode) && st->st_nlink == 0 &&
           st->st_size == 0 && st->st_uid == j->fsuid && seals >= 0 &&
           (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_GROW)) == 0;
}

int hw_job_make_carrier(struct hw_job *j, struct hw_error *err)
{
    uint64_t name, a[6] = {0};
    int rc = hw_job_put_text(j, HW_INJECT_CARRIER_NAME, &name, err);
    if (rc < 0)
        return rc;
    a[0] = name;
    a[1] = MFD_CLOEXEC;
    rc = hw_job_kernel(j, SYS_memfd_create, a, &j->fd, "memory file", err);
    if (rc < 0) {
        j->fd = -1;
        return rc;
    }
    if (hw_job_fails(j, HW_INJECT_CARRIER, err))
        return HW_ESYS;
    hw_autofd int fd = take_descriptor(j);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return hw_fail_sys(err, "memory file in process %d", j->q->pid->pid);
    j->carrier = st.st_ino;
    if (!is_new_memory(j, fd, &st))
        return hw_fail(err, HW_EPERM, 0,
                       "process %d put another file in the place of heapwise's; it is left alone",
                       j->q->pid->pid);
    size_t done = 0;
    while (done < j->file_bytes) {
        ssize_t n = pwrite(fd, j->file + done, j->file_bytes - done, (off_t)done);
        if (n <= 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    if (done < j->file_bytes)
        return hw_fail_sys(err, "memory file in process %d", j->q->pid->pid);
    return hw_job_fails(j, HW_INJECT_FILLED, err) ? HW_ESYS : HW_OK;
}

int hw_job_call(struct hw_job *j, uint64_t fn, uint64_t a, uint64_t b, uint64_t *out,
                const char *what, struct hw_error *err)
{
    int rc = hw_thread_call(&j->thread, fn, a, b, CALL_NS, out);
    if (rc == HW_ETIMEOUT)
        return hw_fail(err, rc, 0, "process %d: %s did not end within 2 s", j->q->pid->pid, what);
    return rc < 0 ? hw_fail(err, rc, 0, "process %d: %s failed: %s", j->q->pid->pid, what,
                            hw_errc_text(rc))
                  : HW_OK;
}

int hw_job_result(const struct hw_job *j, uint32_t result, struct hw_error *err)
{
    static const struct {
        int rc;
        const char *text;
    } texts[HW_ATTACHED_COUNT] = {
        [HW_ATTACHED_NOT_LATE] = {HW_EBUSY, "was started with the client library"},
        [HW_ATTACHED_NO_MALLOC] = {HW_EUNSUPPORTED, "has no malloc that could be found"},
        [HW_ATTACHED_BUILT_IN] =
            {HW_EUNSUPPORTED,
             "has its allocator linked in, and calls it directly, where no hook can be placed"},
        [HW_ATTACHED_MIXED] =
            {HW_EUNSUPPORTED,
             "takes malloc and free from different libraries, so that frees could not be matched"},
        [HW_ATTACHED_BUSY] = {HW_EBUSY, "is recorded by another recorder"},
        [HW_ATTACHED_NO_MEMORY] = {HW_ENOMEM, "has no memory left for the client library"},
        [HW_ATTACHED_NO_SLOT] =
            {HW_EUNSUPPORTED,
             "nowhere calls its allocator through a table in which a hook could be placed"},
        [HW_ATTACHED_UNKNOWN] =
            {HW_EVERSION, "holds another version of the client library; restart the program"},
    };
    if (result == HW_ATTACHED_OK)
        return HW_OK;
    if (result >= HW_ATTACHED_COUNT)
        return hw_fail(err, HW_EFORMAT, 0, "process %d gave an answer that makes no sense",
                       j->q->pid->pid);
    return hw_fail(err, texts[result].rc, 0, "process %d %s", j->q->pid->pid, texts[result].text);
}

void hw_job_is_held(struct hw_job *j, const char before[108])
{
    uint64_t at = j->base + j->block_va + offsetof(struct hw_attach_block, socket_path);
    (void)snprintf(j->out->holder, sizeof j->out->holder, "%.107s", before);
    (void)hw_job_write(j, at, before, sizeof j->out->holder,
                       NULL); /* else the next recorder would read our name */
}

/* Undoes whatever can be undone; nothing can be for a thread that is inside the kernel. */
void hw_job_clean(struct hw_job *j)
{
    int64_t ignored;
    if (j->reserved)
        (void)hw_thread_syscall(&j->thread, SYS_munmap,
                                (uint64_t[6]){j->reserved, j->reserved_bytes}, &ignored);
    if (j->fd >= 0)
        (void)hw_thread_syscall(&j->thread, SYS_close, (uint64_t[6]){(uint64_t)j->fd}, &ignored);
    j->thread.code_at = 0; /* the code it runs on is unmapped now */
    if (j->code)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->code, HW_JOB_PAGE_BYTES},
                                &ignored);
    if (j->stack)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->stack, HW_JOB_STACK_BYTES},
                                &ignored);
}
