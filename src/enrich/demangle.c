/*
 * libiberty's printers hand their text to a callback piece by piece and keep everything on the
 * stack, but cannot be told to stop. A hostile name can make them print for hours, so the callback
 * leaves by longjmp once the limit is passed; nothing is lost by that, as nothing was allocated.
 * D's demangler allocates; its output is bounded by limiting the input.
 */
#include "enrich/demangle.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

#include "base/banned.h"

/* Above this libiberty refuses unless told that the stack may be used; with HW_DEMANGLE_MAX_IN the
 * parser's depth stays below 2 MiB of stack. */
#define LIBIBERTY_SOFT_MAX 1024u
#define D_MAX_IN           1024u

struct hw_demangler {
    const struct hw_strings *names; /* borrowed */
    const char **shown;             /* by id; NULL = not asked yet */
    size_t n;
    struct hw_arena arena;
};

struct sink {
    jmp_buf stop;
    size_t n;
    char text[HW_DEMANGLE_MAX_OUT + 1];
};

static void sink_add(const char *p, size_t n, void *opaque)
{
    struct sink *s = opaque;
    if (n > HW_DEMANGLE_MAX_OUT - s->n)
        longjmp(s->stop, 1);
    memcpy(s->text + s->n, p, n);
    s->n += n;
}

static int has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return 1;
    return 0;
}

/* volatile-free: everything that is read after the jump lives in *s. */
static int run(struct sink *s, const char *raw, int rust, int options)
{
    if (setjmp(s->stop))
        return 0;
    s->n = 0;
    int ok = rust ? rust_demangle_callback(raw, options, sink_add, s)
                  : cplus_demangle_v3_callback(raw, options, sink_add, s);
    return ok && s->n > 0 && !has_control(s->text, s->n);
}

static char *demangle_d(const char *raw, size_t n)
{
    if (n > D_MAX_IN)
        return NULL;
    char *text = dlang_demangle(raw, DMGL_PARAMS);
    if (text && (strlen(text) > HW_DEMANGLE_MAX_OUT || has_control(text, strlen(text)))) {
        free(text);
        return NULL;
    }
    return text;
}

char *hw_demangle_text(const char *raw)
{
    size_t n = strlen(raw);
    if (n < 3 || n > HW_DEMANGLE_MAX_IN || raw[0] != '_')
        return NULL;
    if (raw[1] == 'D')
        return demangle_d(raw, n);
    if (raw[1] != 'Z' && raw[1] != 'R' && raw[1] != '_')
        return NULL;
    struct sink *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    int options = DMGL_PARAMS | DMGL_ANSI | (n > LIBIBERTY_SOFT_MAX ? DMGL_NO_RECURSE_LIMIT : 0);
    char *out = NULL;
    if (run(s, raw, /* rust = */ 1, DMGL_PARAMS) || run(s, raw, /* rust = */ 0, options)) {
        out = malloc(s->n + 1);
        if (out) {
            memcpy(out, s->text, s->n);
            out[s->n] = 0;
        }
    }
    free(s);
    return out;
}

int hw_demangler_new(const struct hw_strings *names, struct hw_demangler **out)
{
    struct hw_demangler *d = calloc(1, sizeof *d);
    if (!d)
        return HW_ENOMEM;
    d->names = names;
    *out = d;
    return HW_OK;
}

void hw_demangler_free(struct hw_demangler *d)
{
    if (!d)
        return;
    hw_arena_done(&d->arena);
    free(d->shown);
    free(d);
}

/* The table of names may have grown since the last question. */
static int room_for(struct hw_demangler *d, uint32_t id)
{
    if (id < d->n)
        return HW_OK;
    size_t want = hw_strings_count(d->names);
    if (want <= id)
        return HW_ENOTFOUND;
    const char **grown = realloc(d->shown, want * sizeof *grown);
    if (!grown)
        return HW_ENOMEM;
    for (size_t i = d->n; i < want; i++)
        grown[i] = NULL;
    d->shown = grown;
    d->n = want;
    return HW_OK;
}

const char *hw_demangle(struct hw_demangler *d, hw_str_id raw)
{
    const char *name = hw_strings_cstr(d->names, raw);
    if (room_for(d, raw.v) < 0)
        return name;
    if (d->shown[raw.v])
        return d->shown[raw.v];
    char *text = hw_demangle_text(name);
    const char *kept = text ? hw_arena_copy(&d->arena, text, strlen(text)) : NULL;
    free(text);
    d->shown[raw.v] = kept ? kept : name;
    return d->shown[raw.v];
}

const char *hw_demangle_shown(void *ctx, hw_str_id raw)
{
    return hw_demangle(ctx, raw);
}
