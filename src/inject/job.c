/* job.c - what is done on the stopped thread, whichever way the library comes */
#include "inject/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#include "base/banned.h"

#define CALL_NS UINT64_C(2000000000)

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
    hw_autofd int mem = openat(j->q->pid->dir, "mem", O_RDWR | O_CLOEXEC);
    if (mem < 0 || pwrite(mem, p, n, (off_t)at) != (ssize_t)n)
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

int hw_job_make_room(struct hw_job *j, struct hw_error *err)
{
    int rc = hw_job_map(j, HW_JOB_STACK_BYTES, PROT_READ | PROT_WRITE, &j->stack, err);
    if (rc < 0 || hw_job_fails(j, HW_INJECT_STACK, err))
        return rc < 0 ? rc : HW_ESYS;
    rc = hw_job_map(j, HW_JOB_PAGE_BYTES, PROT_READ | PROT_EXEC, &j->code, err);
    if (rc < 0 || hw_job_fails(j, HW_INJECT_CODE, err))
        return rc < 0 ? rc : HW_ESYS;
    j->thread.code_at = j->code;
    j->thread.stack_top = j->stack + HW_JOB_STACK_BYTES - HW_JOB_PAGE_BYTES; /* texts lie above */
    return hw_job_write(j, j->code, HW_THREAD_CODE, sizeof HW_THREAD_CODE - 1, err);
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
    if (j->code)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->code, HW_JOB_PAGE_BYTES},
                                &ignored);
    if (j->stack)
        (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){j->stack, HW_JOB_STACK_BYTES},
                                &ignored);
}
