/*
 * python_place.c - which file to ask: the program itself (an interpreter can be linked into any), and
 * whatever has "python" in its name
 */
#include "daemon/code/python_place.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arch.h"
#include "daemon/core.h"
#include "wire/python.def"

#include "base/banned.h"

#define RELEASED 0xf0u /* the last byte of PY_VERSION_HEX, neither alpha nor beta */

static bool is_candidate(const struct hw_target *t, const struct hw_module_file *f)
{
    const char *slash = f->path ? strrchr(f->path, '/') : NULL;
    return slash && f->is_elf && (strstr(slash, "python") || strcmp(slash + 1, t->exe) == 0);
}

/* 0 = none that we know */
static uint32_t minor_of(const struct hw_python_symbols *s)
{
    uint32_t minor = (uint32_t)(s->version >> 16 & 0xff);
    if (s->version >> 24 != 3 || (s->version & 0xf0) != RELEASED)
        return 0;
#define ROW(m, ...)                                                                                \
    if (minor == (m))                                                                              \
        return minor;
    HW_PYTHONS(ROW)
#undef ROW
    return 0;
}

static void warn_unknown(struct hw_target *t, const struct hw_python_symbols *s)
{
    if (t->warned_python)
        return;
    t->warned_python = true;
    if (s->version)
        hw_note(t, "python",
                "the stacks of Python %u.%u show only the interpreter's own functions: heapwise "
                "reads Python frames of 3.11 to 3.13",
                (unsigned)(s->version >> 24), (unsigned)(s->version >> 16 & 255));
    else
        hw_note(t, "python",
                "the stacks of this Python (older than 3.11) show only the interpreter's own "
                "functions: heapwise reads Python frames of 3.11 to 3.13");
}

static void tell(struct hw_target *t, const struct hw_frame_range *r)
{
    const struct hw_python_symbols *s = &r->file->python;
    struct hw_python_place *p = &t->page.map->python;
    uint32_t minor = minor_of(s);
    if (minor == 0) {
        warn_unknown(t, s);
        return;
    }
    t->python = r->file;
    atomic_store_explicit(&p->minor, minor, memory_order_relaxed);
    atomic_store_explicit(&p->runtime, s->runtime + r->bias, memory_order_relaxed);
    atomic_store_explicit(&p->code_type, s->code_type + r->bias, memory_order_relaxed);
    atomic_store_explicit(&p->cold_lo, s->cold ? s->cold + r->bias : 0, memory_order_relaxed);
    atomic_store_explicit(&p->cold_hi, s->cold ? s->cold + s->cold_bytes + r->bias : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&p->eval_lo, s->eval + r->bias, memory_order_relaxed);
    /* Release: pairs with the client's acquire; the client then reads the rest. */
    atomic_store_explicit(&p->eval_hi, s->eval + s->eval_bytes + r->bias, memory_order_release);
}

void hw_python_tell(struct hw_target *t)
{
    if (!t->page.map || t->hello.arch != HW_ARCH_HERE || sizeof(void *) < 8 || t->python ||
        t->session->sources.v[t->source].config->no_managed_frames)
        return;
    for (size_t i = 0; i < t->frames.ranges.n && !t->python; i++) {
        const struct hw_frame_range *r = &t->frames.ranges.v[i];
        if (!r->file || !is_candidate(t, r->file))
            continue;
        hw_modules_want_python(t->rec->modules, r->file);
        if (r->file->python_known && r->file->python.eval && r->file->python.eval_bytes)
            tell(t, r);
    }
}
