/*
 * loader.c - the program's own loader loads the library, which then changes tables
 *
 *      memfd_create, fill            only when the library is not there
 *      dlopen("/proc/self/fd/N")
 *      write the command's block
 *      dlsym(handle, run)            does it, under the loader's lock
 */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "inject/remote/job.h"
#include "proc/maps.h"
#include "wire/records.h"

#include "base/banned.h"

/*
 * A loader that may not map all of a library leaves the parts that it has mapped (glibc 2.36 and
 * earlier). It does not know them afterwards, and nobody else has that file.
 */
static void unmap_rest(struct hw_job *j)
{
    struct hw_maps maps;
    int64_t ignored;
    if (hw_maps_read(j->q->pid->dir, &maps, NULL) < 0)
        return; /* it stays: a later attach finds no code there, or calls it another version */
    for (size_t i = 0; i < maps.maps.n; i++) {
        const struct hw_map *m = &maps.maps.v[i];
        uint64_t a[6] = {m->start, m->end - m->start};
        if (m->inode == j->carrier && strcmp(m->path, "/memfd:" HW_INJECT_CARRIER_NAME) == 0)
            (void)hw_thread_syscall(&j->thread, SYS_munmap, a, &ignored); /* then it stays */
    }
    hw_maps_done(&maps);
}

static int load(struct hw_job *j, struct hw_error *err)
{
    char path[64];
    uint64_t at, h, *handle = &h;
    int rc = hw_job_make_carrier(j, err);
    if (rc < 0)
        return rc;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", (int)j->fd);
    rc = hw_job_put_text(j, path, &at, err);
    if (rc == HW_OK)
        rc = hw_job_call(j, j->process.dlopen_at, at, 2 /* RTLD_NOW */, handle, "dlopen", err);
    if (rc < 0)
        return rc;
    if (*handle == 0) {
        unmap_rest(j);
        return hw_fail(
            err, HW_EUNSUPPORTED, 0,
            "process %d: its dynamic linker refuses the client library. It may need a newer C "
            "library than the process has, for which heapwise must then be built; or the process "
            "may not map its code (a security policy)",
            j->q->pid->pid);
    }
    if (hw_job_fails(j, HW_INJECT_LOADED, err))
        return HW_ESYS;
    if (hw_process_read(&j->process, *handle, &j->base, sizeof j->base) < 0)
        return hw_fail(err, HW_ESYS, 0,
                       "process %d: the client library's address was not found after loading it",
                       j->q->pid->pid);
    j->out->loaded = true;
    return HW_OK;
}

static int command(struct hw_job *j, enum hw_attach_command what, struct hw_error *err)
{
    struct hw_attach_block b;
    uint64_t at = j->base + j->block_va, name, ignored;
    char before[sizeof b.socket_path];
    if (hw_process_read(&j->process, at, &b, sizeof b) < 0 || b.magic != HW_ATTACH_MAGIC ||
        b.version != HW_WIRE_VERSION)
        return hw_fail(
            err, HW_EVERSION, 0,
            "process %d holds another version of the client library; restart the program",
            j->q->pid->pid);
    if (b.handle == 0) /* another recorder's, whose constructor has not run yet */
        return hw_fail(err, HW_ETIMEOUT, 0,
                       "process %d is just loading the client library for another recorder; try "
                       "again",
                       j->q->pid->pid);
    memcpy(before, b.socket_path, sizeof before);
    b.command = (uint32_t)what;
    b.result = HW_ATTACHED_UNKNOWN;
    b.generation = j->q->generation;
    if (j->q->socket_path)
        (void)snprintf(b.socket_path, sizeof b.socket_path, "%s", j->q->socket_path);
    int rc = hw_job_write(j, at, &b, sizeof b, err);
    if (rc == HW_OK)
        rc = hw_job_put_text(j, HW_ATTACH_RUN, &name, err);
    if (rc == HW_OK)
        rc = hw_job_call(j, j->process.dlsym_at, b.handle, name, &ignored, "the command", err);
    if (rc < 0)
        return rc;
    if (hw_process_read(&j->process, at, &b, sizeof b) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", j->q->pid->pid);
    j->out->n_slots = b.n_slots;
    j->out->n_changed = b.n_changed;
    j->out->n_modules = b.n_modules;
    j->out->left = b.left == 1;
    if (b.result == HW_ATTACHED_BUSY)
        hw_job_is_held(j, before);
    return hw_job_result(j, b.result, err);
}

/* Removes the hooks if something failed after they were set. */
int hw_job_by_loader(struct hw_job *j, struct hw_error *err)
{
    int rc = j->process.library ? HW_OK : load(j, err);
    if (rc == HW_OK)
        rc = command(j, j->q->command, err);
    if (rc == HW_OK && hw_job_fails(j, HW_INJECT_COMMANDED, err)) {
        if (j->q->command == HW_ATTACH_HOOK)
            (void)command(j, HW_ATTACH_UNHOOK, NULL); /* the first failure is reported */
        rc = HW_ESYS;
    }
    return rc;
}
