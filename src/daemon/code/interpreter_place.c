/*
 * interpreter_place.c - which file to ask: the program itself (an interpreter can be linked into any), and
 * whatever has "python", "ruby" or "php" in its name
 */
#include "daemon/code/interpreter_place.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arch.h"
#include "base/limits.h"
#include "daemon/core.h"
#include "wire/php.def"
#include "wire/python.def"
#include "wire/ruby.def"

#include "base/banned.h"

static bool is_candidate(const struct hw_target *t, const struct hw_module_file *f)
{
    const char *slash = f->path ? strrchr(f->path, '/') : NULL;
    return slash && f->is_elf &&
           (strstr(slash, "python") || strstr(slash, "ruby") || strstr(slash, "php") ||
            strcmp(slash + 1, t->exe) == 0);
}

/* 0 = none that we know */
static uint32_t minor_of(const struct hw_python_symbols *s)
{
    uint32_t minor = (uint32_t)(s->version >> 16 & 0xff);
    if (s->version >> 24 != 3 || (s->version & 0xf0) != HW_PYTHON_RELEASED || s->is_free_threaded)
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
                "the stacks of Python %u.%u%s show only the interpreter's own functions: heapwise "
                "reads Python frames of 3.8 to 3.13%s",
                (unsigned)(s->version >> 24), (unsigned)(s->version >> 16 & 255),
                s->is_free_threaded ? " without the global lock" : "",
                s->is_free_threaded ? " with it" : "");
    else
        hw_note(t, "python",
                "the stacks of this Python (older than 3.8) show only the interpreter's own "
                "functions: heapwise reads Python frames of 3.8 to 3.13");
}

static void tell_objects(struct hw_python_objects_place *o, const struct hw_python_symbols *s,
                         uint64_t bias)
{
    uint64_t data = s->data + bias;
    if (s->get_allocator == 0 || s->data == 0)
        return;
    atomic_store_explicit(&o->get_allocator, s->get_allocator + bias, memory_order_relaxed);
    atomic_store_explicit(&o->data_lo, (data + 7) & ~7ull, memory_order_relaxed);
    atomic_store_explicit(&o->data_hi, (data + s->data_bytes) & ~7ull, memory_order_relaxed);
}

static void tell_python(struct hw_target *t, const struct hw_frame_range *r)
{
    const struct hw_python_symbols *s = &r->file->interpreters.python;
    struct hw_python_place *p = &t->page.map->python;
    uint32_t minor = minor_of(s);
    if (minor == 0) {
        warn_unknown(t, s);
        return;
    }
    t->interpreter = r->file;
    t->interpreter_kind = HW_MANAGED_PYTHON;
    tell_objects(&t->page.map->python_objects, s, r->bias);
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

static void tell_greenlet(struct hw_target *t)
{
    struct hw_greenlet_place *p = &t->page.map->greenlet;
    if (atomic_load_explicit(&p->hi, memory_order_relaxed) != 0)
        return;
    for (size_t i = 0; i < t->frames.ranges.n; i++) {
        const struct hw_frame_range *r = &t->frames.ranges.v[i];
        const char *slash = r->file && r->file->path ? strrchr(r->file->path, '/') : NULL;
        if (!slash || strncmp(slash + 1, "_greenlet.", 10) != 0)
            continue;
        atomic_store_explicit(&p->lo, r->lo, memory_order_relaxed);
        /* Release: pairs with the client's acquire. */
        atomic_store_explicit(&p->hi, r->hi, memory_order_release);
        return;
    }
}

/* ---- Ruby ---- */

static bool is_known_ruby(const struct hw_ruby_symbols *s)
{
#define ROW(v, cfp, thread, frame, ec, vm, blocking, at, ...)                                      \
    if (s->version == (v))                                                                         \
        return s->objspace == (at);
    HW_RUBIES(ROW)
#undef ROW
    return false;
}

static void tell_ruby(struct hw_target *t, const struct hw_frame_range *r)
{
    const struct hw_ruby_symbols *s = &r->file->interpreters.ruby;
    struct hw_ruby_place *p = &t->page.map->ruby;
    if (!is_known_ruby(s)) {
        if (!t->warned_ruby)
            hw_note(t, "ruby",
                    "the stacks of this Ruby (%u.%u) show only the interpreter's own functions: "
                    "heapwise reads Ruby's frames of 3.1 on x86-64",
                    (unsigned)(s->version / 100), (unsigned)(s->version % 100));
        t->warned_ruby = true;
        return;
    }
    t->interpreter = r->file;
    t->interpreter_kind = HW_MANAGED_RUBY;
    atomic_store_explicit(&p->version, s->version, memory_order_relaxed);
    atomic_store_explicit(&p->vm, s->vm + r->bias, memory_order_relaxed);
    atomic_store_explicit(&p->tls_at, s->tls_at ? s->tls_at + r->bias : 0, memory_order_relaxed);
    atomic_store_explicit(&p->tls_module, s->tls_at ? 0 : 1, memory_order_relaxed);
    atomic_store_explicit(&p->tls_offset, s->tls_offset, memory_order_relaxed);
    atomic_store_explicit(&p->core_lo, s->core ? s->core + r->bias : 0, memory_order_relaxed);
    atomic_store_explicit(&p->core_hi, s->core ? s->core + s->core_bytes + r->bias : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&p->exec_lo, s->exec + r->bias, memory_order_relaxed);
    /* Release: as above. */
    atomic_store_explicit(&p->exec_hi, s->exec + s->exec_bytes + r->bias, memory_order_release);
}

/* ---- PHP ---- */

static bool is_known_php(const struct hw_php_symbols *s)
{
#define ROW(number, bytes, ...)                                                                    \
    if (s->api == (number))                                                                        \
        return s->globals && s->globals_bytes == (bytes);
    HW_PHPS(ROW)
#undef ROW
    return false;
}

static void tell_php(struct hw_target *t, const struct hw_frame_range *r)
{
    const struct hw_php_symbols *s = &r->file->interpreters.php;
    struct hw_php_place *p = &t->page.map->php;
    if (!is_known_php(s)) {
        if (!t->warned_php)
            hw_note(t, "php",
                    "the stacks of this PHP show only the engine's own functions: heapwise reads "
                    "PHP's frames of 8.2, without threads");
        t->warned_php = true;
        return;
    }
    t->interpreter = r->file;
    t->interpreter_kind = HW_MANAGED_PHP;
    atomic_store_explicit(&p->api, s->api, memory_order_relaxed);
    atomic_store_explicit(&p->globals, s->globals + r->bias, memory_order_relaxed);
    atomic_store_explicit(&p->exec_lo, s->exec + r->bias, memory_order_relaxed);
    /* Release: as above. */
    atomic_store_explicit(&p->exec_hi, s->exec + s->exec_bytes + r->bias, memory_order_release);
}

void hw_interpreters_tell(struct hw_target *t)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    if (t->page.map && t->interpreter_kind == HW_MANAGED_PYTHON)
        tell_greenlet(t);
    if (!t->page.map || t->hello.arch != HW_ARCH_HERE || sizeof(void *) < 8 || t->interpreter ||
        (c->no_managed_frames && !hw_heapprofd_wants_heap(c, HW_PYTHON_HEAP)))
        return;
    for (size_t i = 0; i < t->frames.ranges.n && !t->interpreter; i++) {
        const struct hw_frame_range *r = &t->frames.ranges.v[i];
        if (!r->file || !is_candidate(t, r->file))
            continue;
        hw_modules_want_interpreters(t->rec->modules, r->file);
        const struct hw_interpreters *known = &r->file->interpreters;
        if (!r->file->interpreters_known)
            continue;
        if (known->python.eval && known->python.eval_bytes)
            tell_python(t, r);
        else if (c->no_managed_frames) /* of others only frames are wanted */
            continue;
        else if (known->ruby.exec && known->ruby.exec_bytes)
            tell_ruby(t, r);
        else if (known->php.exec && known->php.exec_bytes)
            tell_php(t, r);
    }
}
