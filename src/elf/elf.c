/* elf.c - see elf.h; bytes come from image.c, names from symbols.c */
#include "elf/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"

#include "base/banned.h"

struct hw_elf {
    struct hw_image image;
    struct hw_image inner; /* .gnu_debugdata's */
    uint8_t *inner_bytes;  /* owned */
    bool inner_tried, symbols_ready;
    struct hw_symbols symbols;
};

int hw_elf_open(int fd, struct hw_elf **out, struct hw_error *err)
{
    struct hw_elf *e = calloc(1, sizeof *e);
    if (!e)
        return hw_fail(err, HW_ENOMEM, 0, "ELF file");
    e->inner.fd = -1;
    int rc = hw_image_open(&e->image, fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0) {
        free(e);
        return rc;
    }
    *out = e;
    return HW_OK;
}

void hw_elf_close(struct hw_elf *e)
{
    if (!e)
        return;
    hw_symbols_done(&e->symbols);
    hw_image_close(&e->inner);
    hw_image_close(&e->image);
    free(e->inner_bytes);
    free(e);
}

/* The image with a full symbol table: the file, else what .gnu_debugdata holds, else NULL. */
static const struct hw_image *symtab_image(struct hw_elf *e)
{
    const struct hw_image_section *s = hw_image_find(&e->image, ".symtab");
    if (s && s->type == SHT_SYMTAB)
        return &e->image;
    if (!e->inner_tried) {
        e->inner_tried = true;
        size_t n;
        if (hw_image_debugdata(&e->image, &e->inner_bytes, &n, NULL) == HW_OK)
            (void)hw_image_open(&e->inner, -1, e->inner_bytes, n, /* with_sections = */ true,
                                NULL); /* damaged: as if it were absent */
    }
    return hw_image_find(&e->inner, ".symtab") ? &e->inner : NULL;
}

enum { MAX_LOADER = 4096 }; /* the path of a program's loader */

static bool has_musl(const struct hw_image *img, const struct hw_image_segment *interp)
{
    hw_autofree uint8_t *text = NULL;
    return hw_image_read(img, interp->offset, interp->file_bytes, MAX_LOADER, &text, NULL) == 0 &&
           memmem(text, interp->file_bytes, "/ld-musl", 8) != NULL;
}

int hw_elf_get_info(struct hw_elf *e, struct hw_elf_info *out, struct hw_error *err)
{
    (void)err; /* headers were read by open; what is missing here is a flag, not an error */
    const struct hw_image *img = &e->image;
    struct hw_elf_info info = {.machine = img->machine,
                               .elf_class = img->elf_class,
                               .type = img->type,
                               .load_bias = hw_image_load_bias(img)};
    info.build_id_len = hw_image_build_id(img, info.build_id, HW_BUILD_ID_MAX);
    for (size_t i = 0; i < img->n_segments; i++) {
        if (img->segments[i].type == PT_INTERP) {
            info.has_interp = true;
            info.is_musl = has_musl(img, &img->segments[i]);
        }
        info.has_dynamic |= img->segments[i].type == PT_DYNAMIC;
        info.has_eh_frame |= img->segments[i].type == PT_GNU_EH_FRAME;
    }
    info.has_eh_frame |= hw_image_find(img, ".eh_frame") != NULL;
    info.is_go = hw_image_find(img, ".note.go.buildid") || hw_image_find(img, ".gopclntab") ||
                 hw_image_find(img, ".go.buildinfo");
    const struct hw_image *full = symtab_image(e);
    uint64_t va;
    info.has_symtab = full != NULL;
    info.defines_malloc = hw_symbols_find(img, ".dynsym", "malloc", &va) ||
                          (full && hw_symbols_find(full, ".symtab", "malloc", &va));
    info.is_sanitized = hw_symbols_have_sanitizer(img, ".dynsym") ||
                        (full && hw_symbols_have_sanitizer(full, ".symtab"));
    *out = info;
    return HW_OK;
}

int hw_elf_read_identity(int fd, uint8_t build_id[HW_BUILD_ID_MAX], uint32_t *len,
                         uint64_t *load_bias, struct hw_error *err)
{
    struct hw_image img;
    int rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ false, err);
    if (rc < 0)
        return rc;
    uint32_t n = hw_image_build_id(&img, build_id, HW_BUILD_ID_MAX);
    uint64_t bias = hw_image_load_bias(&img);
    hw_image_close(&img);
    if (!n && hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) == HW_OK) {
        n = hw_image_build_id(&img, build_id, HW_BUILD_ID_MAX);
        hw_image_close(&img);
    }
    *len = n;
    *load_bias = bias;
    return HW_OK;
}

/* Symbols are read when first needed. Out of memory: no names, and not tried again. */
static void symbols_prepare(struct hw_elf *e)
{
    if (e->symbols_ready)
        return;
    e->symbols_ready = true;
    const struct hw_image *full = symtab_image(e);
    if (full)
        (void)hw_symbols_add(&e->symbols, full, ".symtab", NULL);
    if (full != &e->image) /* .gnu_debugdata leaves out what .dynsym has */
        (void)hw_symbols_add(&e->symbols, &e->image, ".dynsym", NULL);
    hw_symbols_sort(&e->symbols);
}

const char *hw_elf_function_at(struct hw_elf *e, uint64_t va, uint64_t *start)
{
    symbols_prepare(e);
    const struct hw_symbol *s = hw_symbols_at(&e->symbols, va);
    if (!s)
        return NULL;
    if (start)
        *start = s->start;
    return s->name;
}

bool hw_elf_is_folded(struct hw_elf *e, uint64_t va)
{
    symbols_prepare(e);
    const struct hw_symbol *s = hw_symbols_at(&e->symbols, va);
    return s && s->folded;
}

bool hw_elf_find_sized(struct hw_elf *e, const char *name, uint64_t *va, uint64_t *size)
{
    if (hw_symbols_find_sized(&e->image, ".dynsym", name, va, size))
        return true;
    const struct hw_image *full = symtab_image(e);
    return full && hw_symbols_find_sized(full, ".symtab", name, va, size);
}

bool hw_elf_find_symbol(struct hw_elf *e, const char *name, uint64_t *va)
{
    uint64_t size;
    return hw_elf_find_sized(e, name, va, &size);
}

bool hw_elf_find_data(struct hw_elf *e, uint64_t va, uint64_t *begin, uint64_t *n_bytes)
{
    for (size_t i = 0; i < e->image.n_segments; i++) {
        const struct hw_image_segment *s = &e->image.segments[i];
        if (s->type != PT_LOAD || (s->flags & PF_W) == 0 || va < s->va ||
            va - s->va >= s->mem_bytes)
            continue;
        *begin = s->va;
        *n_bytes = s->file_bytes;
        return true;
    }
    return false;
}

int hw_elf_read_at(struct hw_elf *e, uint64_t va, void *out, size_t n, struct hw_error *err)
{
    uint64_t off, left;
    uint8_t *bytes;
    if (!hw_image_offset(&e->image, va, &off, &left) || left < n)
        return hw_fail(err, HW_ENOTFOUND, va, "no such bytes in the file");
    int rc = hw_image_read(&e->image, off, n, n, &bytes, err);
    if (rc < 0)
        return rc;
    memcpy(out, bytes, n);
    free(bytes);
    return HW_OK;
}
