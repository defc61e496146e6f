/*
 * raw.c - the library is mapped from outside, and changes code
 *
 * For programs without a loader, and for allocators whose functions are called without a table. The
 * bare client (client/start/injected_bare.c) needs no libc, so nothing of the program is
 * called: any moment will do, and no lock of its can be in the way.
 *
 *      plan (plan.c)                     the process runs
 *      reserve, relocate, map            .--- one thread stands; only when it is not there
 *      a page near the allocator         |    likewise
 *      call heapwise_bare_run            |
 *      stop the others                   | .- all stand
 *        somebody in the bytes? move it  | |
 *      change the code                   | |
 *      let them go                       | '-
 *      munmap, restore                   '--- all go on
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "inject/allocator_functions.h"
#include "inject/plan.h"
#include "inject/remote/hold.h"
#include "inject/remote/job.h"
#include "wire/records.h"

#include "base/banned.h"

#define PAGE_MASK    (~UINT64_C(4095))
#define STACK_LOOKED (64u * 1024)
#define REACH        (UINT64_C(2) << 30)
#define GAP_LEAST    0x20000u /* room that is left free around our page */
#define GAP_HEAP     (UINT64_C(1) << 30)
#define LOWEST       0x10000u
#define VDSO_MOST    65536u

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct hw_raw {
    struct hw_plan_in in;
    struct hw_plan plan;
    uint64_t hook_va[HW_HOOKED_COUNT]; /* in the library */
    struct hw_image image;             /* of its bytes */
};

/* ---- before anything is stopped ---- */

static bool read_word(void *arg, uint64_t at, uint64_t *out)
{
    return hw_process_read(arg, at, out, sizeof *out) == HW_OK;
}

static int make_plan(struct hw_process *p, struct hw_plan_in *in, struct hw_plan *plan,
                     struct hw_error *err)
{
    const struct hw_allocator *a = &p->allocator;
    *in = (struct hw_plan_in){
        .text = {a->text, a->text_bytes}, .text_at = a->text_at, .word = read_word, .arg = p};
    memcpy(in->entry, a->entry, sizeof in->entry);
    memcpy(in->end, a->end, sizeof in->end);
    return hw_plan_make(in, plan, err);
}

int hw_raw_check(struct hw_process *p, struct hw_error *err)
{
    struct hw_plan_in in;
    struct hw_plan plan;
    int rc = make_plan(p, &in, &plan, err);
    if (rc == HW_OK)
        hw_plan_done(&plan);
    return rc;
}

int hw_job_plan_raw(struct hw_job *j, struct hw_error *err)
{
    static const char *const names[HW_HOOKED_COUNT] = {
#define X(name, kind) #name,
#include "wire/hooked.def"
#undef X
    };
    struct hw_raw *r = calloc(1, sizeof *r);
    if (!r)
        return hw_fail(err, HW_ENOMEM, 0, "attach");
    int rc = hw_image_open(&r->image, -1, j->file, j->file_bytes, /* with_sections = */ true, err);
    if (rc < 0) {
        free(r);
        return rc;
    }
    j->raw = r;
    for (uint32_t i = 0; i < HW_HOOKED_COUNT; i++)
        if (!hw_symbols_find(&r->image, ".dynsym", names[i], &r->hook_va[i]))
            r->hook_va[i] = 0;
    struct hw_error why;
    rc = make_plan(&j->process, &r->in, &r->plan, &why);
    return rc < 0 ? hw_fail(err, rc, 0, "process %d has its allocator in '%s': %s",
                            j->process.pid->pid, j->process.allocator_path, why.text)
                  : HW_OK;
}

void hw_job_raw_done(struct hw_job *j)
{
    if (!j->raw)
        return;
    hw_plan_done(&j->raw->plan);
    hw_image_close(&j->raw->image);
    free(j->raw);
    j->raw = NULL;
}

/* ---- the library ---- */

/* Its only relocations are those of its own addresses. */
static int relocate(struct hw_job *j, struct hw_error *err)
{
    const struct hw_image_section *s = hw_image_find(&j->raw->image, ".rela.dyn");
    Elf64_Rela r;
    if (!s || s->offset > j->file_bytes || s->bytes > j->file_bytes - s->offset)
        return hw_fail(err, HW_EFORMAT, 0,
                       "the client library's file is damaged: it has no relocations");
    for (uint64_t at = s->offset; at + sizeof r <= s->offset + s->bytes; at += sizeof r) {
        uint64_t off, left, v;
        memcpy(&r, j->file + at, sizeof r);
        if (ELF64_R_TYPE(r.r_info) != R_X86_64_RELATIVE ||
            !hw_image_offset(&j->raw->image, r.r_offset, &off, &left) || left < sizeof v ||
            off > j->file_bytes - sizeof v)
            return hw_fail(
                err, HW_EFORMAT, 0,
                "the client library's file cannot be used here: it depends on other libraries");
        v = j->base + (uint64_t)r.r_addend;
        memcpy(j->file + off, &v, sizeof v);
    }
    return HW_OK;
}

static int map_fixed(struct hw_job *j, uint64_t at, uint64_t n, int prot, int64_t fd, uint64_t off,
                     struct hw_error *err)
{
    int flags = MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0);
    uint64_t a[6] = {at, n, (uint64_t)prot, (uint64_t)flags, (uint64_t)fd, off};
    int64_t p;
    return n ? hw_job_kernel(j, SYS_mmap, a, &p, "memory for the library", err) : HW_OK;
}

static int map_segment(struct hw_job *j, const struct hw_image_segment *s, struct hw_error *err)
{
    static const uint8_t zeros[4096];
    uint64_t lo = s->va & PAGE_MASK, file_end = s->va + s->file_bytes,
             page_end = (file_end + 4095) & PAGE_MASK,
             end = (s->va + s->mem_bytes + 4095) & PAGE_MASK;
    int prot = (s->flags & PF_R ? PROT_READ : 0) | (s->flags & PF_W ? PROT_WRITE : 0) |
               (s->flags & PF_X ? PROT_EXEC : 0);
    int rc = map_fixed(j, j->base + lo, page_end - lo, prot, j->fd, s->offset & PAGE_MASK, err);
    if (rc == HW_OK && s->mem_bytes > s->file_bytes && page_end > file_end)
        rc = hw_job_write(j, j->base + file_end, zeros, page_end - file_end, err);
    if (rc == HW_OK && end > page_end)
        rc = map_fixed(j, j->base + page_end, end - page_end, prot, -1, 0, err);
    return rc;
}

static int load(struct hw_job *j, struct hw_error *err)
{
    const struct hw_image *img = &j->raw->image;
    uint64_t whole = 0;
    for (size_t i = 0; i < img->n_segments; i++)
        if (img->segments[i].type == PT_LOAD)
            whole = (img->segments[i].va + img->segments[i].mem_bytes + 4095) & PAGE_MASK;
    int rc = hw_job_map(j, whole, PROT_NONE, &j->reserved, err);
    if (rc < 0)
        return rc;
    j->reserved_bytes = whole;
    j->base = j->reserved;
    rc = relocate(j, err);
    if (rc == HW_OK)
        rc = hw_job_make_carrier(j, err);
    for (size_t i = 0; i < img->n_segments && rc == HW_OK; i++)
        if (img->segments[i].type == PT_LOAD)
            rc = map_segment(j, &img->segments[i], err);
    if (rc < 0)
        return rc;
    j->reserved = 0; /* it stays mapped */
    j->out->loaded = true;
    return hw_job_fails(j, HW_INJECT_LOADED, err) ? HW_ESYS : HW_OK;
}

/* ---- the page near the allocator ---- */

static bool grows(const struct hw_map *m)
{
    return strcmp(m->path, "[heap]") == 0;
}

/* A place in the gap behind maps[i], so far below the gap's end, or 0. Not where the heap or a
 * stack will grow. */
static uint64_t place_in_gap(const struct hw_maps *m, size_t i, uint64_t below, uint64_t lo,
                             uint64_t hi)
{
    uint64_t from = m->maps.v[i].end;
    uint64_t to = i + 1 < m->maps.n ? m->maps.v[i + 1].start : from;
    if (to - from < GAP_LEAST || (grows(&m->maps.v[i]) && to - from < GAP_HEAP) ||
        (i + 1 < m->maps.n && strcmp(m->maps.v[i + 1].path, "[stack]") == 0))
        return 0;
    to = to < hi ? to : hi;
    uint64_t at = to > below ? to - below : 0;
    return at >= lo && at < hi && at > from + GAP_LEAST / 4 ? at & PAGE_MASK : 0;
}

static int try_near(struct hw_job *j, uint64_t at, uint64_t *out)
{
    uint64_t a[6] = {at,
                     HW_PLAN_NEAR_BYTES,
                     PROT_READ | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                     UINT64_MAX,
                     0};
    int64_t p;
    int rc = hw_thread_syscall(&j->thread, SYS_mmap, a, &p);
    if (rc < 0)
        return rc;
    if (p < 0 && p > -4096)
        return HW_ENOTFOUND;
    *out = (uint64_t)p;
    if (*out == at)
        return HW_OK;
    (void)hw_thread_syscall(&j->thread, SYS_munmap, (uint64_t[6]){*out, HW_PLAN_NEAR_BYTES}, &p);
    return HW_ENOTFOUND;
}

static int map_near(struct hw_job *j, uint64_t *out, struct hw_error *err)
{
    static const uint64_t below[] = {GAP_LEAST / 2, 64u << 20, 512u << 20};
    const struct hw_maps *m = &j->process.maps;
    const struct hw_plan_in *in = &j->raw->in;
    uint64_t end = in->text_at + in->text.n, lo = end > REACH ? end - REACH : 0,
             hi = in->text_at + REACH - 2 * HW_PLAN_NEAR_BYTES;
    lo = lo < LOWEST ? LOWEST : lo;
    uint64_t first = m->maps.n ? m->maps.v[0].start : 0; /* the gap below everything */
    uint64_t at = first > LOWEST + GAP_LEAST ? (first - GAP_LEAST / 2) & PAGE_MASK : 0;
    int rc = at >= lo && at < hi ? try_near(j, at, out) : HW_ENOTFOUND;
    /* The kernel places what we have mapped since just below what there was. */
    for (size_t k = 0; k < sizeof below / sizeof *below; k++)
        for (size_t i = 0; i < m->maps.n && rc == HW_ENOTFOUND; i++)
            if ((at = place_in_gap(m, i, below[k], lo, hi)) != 0)
                rc = try_near(j, at, out);
    return rc == HW_ENOTFOUND ? hw_fail(err, HW_EUNSUPPORTED, 0,
                                        "process %d has no free memory within 2 GiB of its "
                                        "allocator's code, where the hooks have to be",
                                        j->q->pid->pid)
           : rc < 0 ? hw_fail(err, rc, 0, "process %d: memory near its allocator:", j->q->pid->pid)
                    : HW_OK;
}

static int place(struct hw_job *j, struct hw_bare_block *b, struct hw_error *err)
{
    uint64_t hooks[HW_HOOKED_COUNT];
    uint8_t have[HW_PLAN_NEAR_BYTES];
    bool fresh = b->near_at == 0;
    int rc = fresh ? map_near(j, &b->near_at, err) : HW_OK;
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < HW_HOOKED_COUNT; i++)
        hooks[i] = j->raw->hook_va[i] ? j->base + j->raw->hook_va[i] : 0;
    rc = hw_plan_place(&j->raw->in, &j->raw->plan, b->near_at, hooks, err);
    if (rc == HW_OK && fresh)
        return hw_job_write(j, b->near_at, j->raw->plan.near, HW_PLAN_NEAR_BYTES, err);
    if (rc == HW_OK && (hw_process_read(&j->process, b->near_at, have, sizeof have) < 0 ||
                        memcmp(have, j->raw->plan.near, sizeof have) != 0))
        rc = hw_fail(err, HW_EVERSION, 0,
                     "process %d was changed by another version of heapwise; restart the program",
                     j->q->pid->pid);
    return rc;
}

/* ---- the code ---- */

/* Where a thread is, and where its signal handlers will return to. */
static int check_thread(struct hw_job *j, struct hw_thread *t, bool *again)
{
    const struct hw_plan *p = &j->raw->plan;
    struct hw_thread_regs r;
    uint64_t to;
    if (hw_thread_regs(t, &r) < 0)
        return HW_EGONE;
    if (hw_plan_covers(p, r.pc)) {
        if (!hw_plan_moves(p, r.pc, &to))
            *again = true;
        else
            hw_thread_move(t, to);
    }
    const struct hw_map *m = hw_maps_find(&j->process.maps, r.sp);
    uint64_t n = m ? m->end - r.sp : 4096 - (r.sp & 4095);
    n = (n < STACK_LOOKED ? n : STACK_LOOKED) & ~UINT64_C(7);
    if (r.sp % 8 != 0 || hw_process_read(&j->process, r.sp, j->copy, n) < 0)
        return HW_OK; /* not a stack that a handler could run on */
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t word;
        memcpy(&word, j->copy + i, sizeof word);
        *again |= hw_plan_covers(p, word);
    }
    return HW_OK;
}

static int check_threads(struct hw_job *j, const struct hw_hold *h, struct hw_error *err)
{
    bool again = false;
    int rc = check_thread(j, &j->thread, &again);
    if (rc == HW_OK && j->thread.moved)
        rc = hw_job_write_state(j, err);
    for (size_t i = 0; i < h->threads.n && rc == HW_OK; i++)
        rc = check_thread(j, h->threads.v[i], &again);
    if (rc == HW_OK && again)
        rc = HW_ETIMEOUT;
    return rc < 0 ? hw_fail(err, rc, 0,
                            "process %d: a thread is in the first instructions of its allocator; "
                            "try again",
                            j->q->pid->pid)
                  : HW_OK;
}

/* The bytes to be replaced must still be there: else somebody else has changed them, too. */
static int check_bytes(struct hw_job *j, bool on, struct hw_error *err)
{
    const struct hw_plan *p = &j->raw->plan;
    for (size_t i = 0; i < p->changes.n; i++) {
        const struct hw_plan_change *c = &p->changes.v[i];
        uint8_t now[HW_PLAN_MOST_BYTES];
        int rc = hw_process_read(&j->process, c->at, now, c->n);
        if (rc < 0)
            return hw_fail(err, rc, 0, "code of process %d:", j->q->pid->pid);
        if (memcmp(now, c->before, c->n) == 0 || memcmp(now, c->after, c->n) == 0)
            continue;
        uint32_t name = i < p->windows.n ? p->windows.v[i].name : p->site_names.v[i - p->windows.n];
        return hw_fail(
            err, on ? HW_EUNSUPPORTED : HW_EBUSY, 0,
            "process %d: the code around %s was changed by another tool; it is left alone",
            j->q->pid->pid, hw_hooked_text(name));
    }
    return HW_OK;
}

static int write_changes(struct hw_job *j, bool on, struct hw_error *err)
{
    struct hw_plan *p = &j->raw->plan;
    int rc = HW_OK;
    for (size_t i = 0; i < p->changes.n && rc == HW_OK; i++) {
        const struct hw_plan_change *c = &p->changes.v[i];
        const uint8_t *want = on ? c->after : c->before;
        uint8_t now[HW_PLAN_MOST_BYTES];
        if (hw_process_read(&j->process, c->at, now, c->n) == HW_OK && memcmp(now, want, c->n) == 0)
            continue;
        rc = hw_job_write(j, c->at, want, c->n, err);
        j->out->n_changed += rc == HW_OK;
    }
    if (rc < 0 && on) /* the first failure is reported */
        (void)write_changes(j, false, NULL);
    j->out->n_slots = on && rc == HW_OK ? (uint32_t)p->changes.n : 0;
    j->out->n_modules = 1;
    return rc;
}

static int change(struct hw_job *j, bool on, struct hw_error *err)
{
    struct hw_hold h = {0};
    int rc = check_bytes(j, on, err);
    if (rc == HW_OK)
        rc = hw_hold_take(j->q->pid, &j->thread, &h, err);
    if (rc < 0)
        return rc;
    if (hw_job_fails(j, HW_INJECT_HELD, err))
        rc = HW_ESYS;
    if (rc == HW_OK && on)
        rc = check_threads(j, &h, err);
    if (rc == HW_OK)
        rc = write_changes(j, on, err);
    hw_hold_release(&h);
    return rc;
}

/* ---- the commands ---- */

static uint64_t stack_end(const struct hw_process *p)
{
    for (size_t i = 0; i < p->maps.maps.n; i++)
        if (strcmp(p->maps.maps.v[i].path, "[stack]") == 0)
            return p->maps.maps.v[i].end;
    return 0;
}

/* The kernel's page is the same in all processes of this word size, but at a different address
 * in each. */
static uint64_t kernels_clock(const struct hw_process *p)
{
    const uint8_t *ours = (const uint8_t *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    struct hw_image img;
    uint64_t va = 0;
    for (size_t i = 0; ours && i < p->maps.maps.n; i++) {
        const struct hw_map *m = &p->maps.maps.v[i];
        uint64_t n = m->end - m->start;
        uint8_t head[VDSO_MOST];
        if (strcmp(m->path, "[vdso]") != 0 || n > sizeof head ||
            hw_process_read(p, m->start, head, n) < 0 ||
            hw_image_open(&img, -1, head, n, /* with_sections = */ true, NULL) < 0)
            continue;
        bool found = hw_symbols_find(&img, ".dynsym", "__vdso_clock_gettime", &va);
        hw_image_close(&img);
        return found ? m->start + va : 0;
    }
    return 0;
}

static int run_command(struct hw_job *j, struct hw_bare_block *b, enum hw_attach_command what,
                       struct hw_error *err)
{
    uint64_t at = j->base + j->block_va, result;
    char before[sizeof b->attach.socket_path];
    memcpy(before, b->attach.socket_path, sizeof before);
    b->attach.command = (uint32_t)what;
    b->attach.generation = j->q->generation;
    if (j->q->socket_path)
        (void)snprintf(b->attach.socket_path, sizeof b->attach.socket_path, "%s",
                       j->q->socket_path);
    int rc = hw_job_write(j, at, b, sizeof *b, err);
    if (rc == HW_OK)
        rc = hw_job_call(j, j->base + j->run_va, 0, 0, &result, "the command", err);
    if (rc == HW_OK && result == HW_ATTACHED_BUSY)
        hw_job_is_held(j, before);
    uint64_t left_at = at + offsetof(struct hw_bare_block, attach.left);
    j->out->left =
        rc == HW_OK &&
        hw_process_read(&j->process, left_at, &b->attach.left, sizeof b->attach.left) == HW_OK &&
        b->attach.left == 1;
    return rc < 0 ? rc : hw_job_result(j, (uint32_t)result, err);
}

static int hook(struct hw_job *j, struct hw_bare_block *b, struct hw_error *err)
{
    memcpy(b->real, j->raw->plan.real, sizeof b->real);
    b->clock = kernels_clock(&j->process);
    b->main_stack_hi = stack_end(&j->process);
    b->allocator_base = j->process.allocator.base;
    int rc = run_command(j, b, HW_ATTACH_HOOK, err);
    if (rc < 0)
        return rc;
    rc = change(j, /* on = */ true, err);
    if (rc == HW_OK && hw_job_fails(j, HW_INJECT_COMMANDED, err)) {
        (void)change(j, /* on = */ false, NULL);
        rc = HW_ESYS;
    }
    if (rc < 0)
        (void)run_command(j, b, HW_ATTACH_UNHOOK, NULL); /* the first failure is reported */
    return rc;
}

int hw_job_by_raw(struct hw_job *j, struct hw_error *err)
{
    struct hw_bare_block b;
    int rc = j->process.library ? HW_OK : load(j, err);
    if (rc < 0)
        return rc;
    uint64_t at = j->base + j->block_va;
    if (hw_process_read(&j->process, at, &b, sizeof b) < 0 || b.attach.magic != HW_ATTACH_MAGIC ||
        b.attach.version != HW_WIRE_VERSION)
        return hw_fail(
            err, HW_EVERSION, 0,
            "process %d holds another version of the client library; restart the program",
            j->q->pid->pid);
    if (j->q->command != HW_ATTACH_HOOK && b.near_at == 0)
        return HW_OK; /* never hooked */
    if (j->q->command == HW_ATTACH_REFRESH)
        return HW_OK; /* its allocator was there from the start */
    rc = place(j, &b, err);
    if (b.near_at) /* also after a failure: the page is there */
        (void)hw_job_write(j, at + offsetof(struct hw_bare_block, near_at), &b.near_at,
                           sizeof b.near_at, NULL);
    if (rc < 0)
        return rc;
    if (j->q->command == HW_ATTACH_HOOK)
        return hook(j, &b, err);
    rc = change(j, /* on = */ false, err);
    return rc < 0 ? rc : run_command(j, &b, HW_ATTACH_UNHOOK, err);
}
