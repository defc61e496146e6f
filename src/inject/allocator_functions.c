/* allocator_functions.c - see allocator_functions.h */
#include "inject/allocator_functions.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "proc/maps.h"

#include "base/banned.h"

#define MAX_TEXT (256u * 1024 * 1024)

static const char *const names[HW_HOOKED_COUNT] = {
#define X(name, kind) #name,
#include "wire/hooked.def"
#undef X
};

static const struct hw_image_segment *code_segment(const struct hw_image *img, uint64_t offset)
{
    for (size_t i = 0; i < img->n_segments; i++) {
        const struct hw_image_segment *s = &img->segments[i];
        if (s->type == PT_LOAD && (s->flags & PF_X) && offset >= (s->offset & ~UINT64_C(4095)) &&
            offset < s->offset + s->file_bytes)
            return s;
    }
    return NULL;
}

static void take(struct hw_allocator *a, const struct hw_symbols *s,
                 const struct hw_image_segment *code)
{
    for (size_t i = 0; i < s->list.n; i++) {
        const struct hw_symbol *y = &s->list.v[i];
        if (y->start - code->va >= code->file_bytes)
            continue;
        for (size_t k = 0; k < HW_HOOKED_COUNT; k++)
            if (!a->entry[k] && strcmp(y->name, names[k]) == 0) {
                a->entry[k] = y->start + a->base;
                a->end[k] = (y->sized ? y->end : y->start + 4096) + a->base;
            }
    }
}

int hw_allocator_read(int fd, const struct hw_map *m, struct hw_allocator *out,
                      struct hw_error *err)
{
    struct hw_image img;
    struct hw_symbols s = {0};
    *out = (struct hw_allocator){0};
    int rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0)
        return rc;
    const struct hw_image_segment *code = code_segment(&img, m->offset);
    if (!code || code->file_bytes > MAX_TEXT) {
        rc = hw_fail(err, HW_EUNSUPPORTED, 0, "no code of '%s' can be read", m->path);
    } else if (hw_symbols_have_sanitizer(&img, ".dynsym") ||
               hw_symbols_have_sanitizer(&img, ".symtab")) {
        rc =
            hw_fail(err, HW_EUNSUPPORTED, 0, "it belongs to a sanitizer, which tolerates no hooks");
    } else {
        out->base = m->start - m->offset - (code->va - code->offset);
        rc = hw_symbols_add(&s, &img, ".symtab", err);
        if (rc == HW_OK)
            take(out, &s, code);
        hw_symbols_done(&s);
        s = (struct hw_symbols){0};
        if (rc == HW_OK)
            rc = hw_symbols_add(&s, &img, ".dynsym", err);
        if (rc == HW_OK)
            take(out, &s, code);
        bool stripped = !hw_image_find(&img, ".symtab");
        if (rc == HW_OK && !out->entry[HW_HOOKED_malloc])
            rc = stripped ? hw_fail(err, HW_ENOTFOUND, 0,
                                    "its symbol table was removed (stripped), so its malloc cannot "
                                    "be found; use a build that keeps its symbols")
                          : hw_fail(err, HW_ENOTFOUND, 0, "it has no function named malloc");
    }
    if (rc == HW_OK) {
        out->text_at = code->va + out->base;
        out->text_bytes = code->file_bytes;
        rc = hw_image_read(&img, code->offset, code->file_bytes, MAX_TEXT, &out->text, err);
    }
    hw_symbols_done(&s);
    hw_image_close(&img);
    if (rc < 0)
        hw_allocator_done(out);
    return rc;
}

void hw_allocator_done(struct hw_allocator *a)
{
    free(a->text);
    a->text = NULL;
}

bool hw_allocator_is_in(int fd, bool whole)
{
    struct hw_image img;
    uint64_t va;
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return false;
    bool found = hw_symbols_find(&img, ".dynsym", "malloc", &va) ||
                 (whole && hw_symbols_find(&img, ".symtab", "malloc", &va));
    hw_image_close(&img);
    return found;
}
