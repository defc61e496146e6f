/* job.c - what is done on the stopped thread, whichever way the library comes */
#include "inject/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#include "base/banned.h"

#define CALL_NS  UINT64_C(2000000000)
#define RED_ZONE 128u
#define SPARE    16384u /* that a signal handler could still use */

bool hw_job_fails(const struct hw_job *j, enum hw_inject_step step, struct hw_error *err)
{
    if (j->q->fail_at != step)
        return false;
    (void)hw_fail(err, HW_ESYS, 0, "failure asked for at step %d", (int)step);
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
    if (j->mem < 0)
        j->mem = openat(j->q->pid->dir, "mem", O_RDWR | O_CLOEXEC);
    if (j->mem < 0 || pwrite(j->mem, p, n, (off_t)at) != (ssize_t)n)
        return hw_fail_sys(err, "memory of process %d", j->q->pid->pid);
    return HW_OK;
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
 * Signals are delivered on the stack where the thread is, so there may be something below its red
 * zone, where that stack is known to be large: the first thread's, or one that ends in the thread's
 * own block (the thread pointer). A goroutine's or a fiber's is neither.
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
        j->thread.code_at = j->code; /* from now on it finds back by itself */
    return rc;
}

int hw_job_put_text(struct hw_job *j, const char *text, uint64_t *at, struct hw_error *err)
{
    *at = j->thread.stack_top;
    return hw_job_write(j, *at, text, strlen(text) + 1, err);
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

/* Whatever can still be given back; a thread that stands in the kernel's middle cannot. */
void hw_job_clean(struct hw_job *j)
{
    int64_t ignored;
    if (j->reserved)
        (void)hw_thread_syscall(&j->thread, SYS_munmap,
                                (uint64_t[6]){j->reserved, j->reserved_bytes}, &ignored);
    if (j->fd >= 0)
        (void)hw_thread_syscall(&j->thread, SYS_close, (uint64_t[6]){(uint64_t)j->fd}, &ignored);
    j->thread.code_at = 0; /* what it stands on goes now */
    if (j->code)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->code, HW_JOB_PAGE_BYTES},
                                &ignored);
    if (j->stack)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->stack, HW_JOB_STACK_BYTES},
                                &ignored);
}
