/*
 * compile.c - finds the unwind data of an ELF file and turns it into a table
 *
 *     records (pass 1)  ->  sort, cut overlaps  ->  rows (pass 2)  ->  build
 *
 * .eh_frame takes precedence. .debug_frame - of the file, of its separate debug file, of the image in
 * .gnu_debugdata - only fills addresses that .eh_frame leaves out: assemblers and
 * -fno-asynchronous- unwind-tables code.
 */
#include "cfi/cfi.h"

#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arch.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/radix.h"
#include "cfi/build.h"
#include "cfi/cie_fde.h"
#include "cfi/rows.h"
#include "elf/image.h"

#include "base/banned.h"

enum {
    MAX_SECTION = 1 << 30,
    MAX_SOURCES = 4,
    PADDING_BYTES = 16, /* a shorter gap between functions is alignment, no code */
    ENTRY_BYTES = 256,  /* of code that a file begins with, at most */
    PE_DATAREL = 0x30,
    X86_64_UNWIND = 0x70000001 /* section type that lld gives .eh_frame */
};

struct compiler {
    struct hw_image image, debug, inner;
    uint8_t *inner_bytes;               /* owned: .gnu_debugdata unpacked */
    uint8_t *source_bytes[MAX_SOURCES]; /* owned */
    struct hw_cfi_section sources[MAX_SOURCES];
    uint16_t n_sources;
    struct hw_cfi_records records;
    struct hw_builder builder;
    uint64_t n_unsup;
    uint32_t arch;
};

static void compiler_done(struct compiler *c)
{
    hw_image_close(&c->image);
    hw_image_close(&c->debug);
    hw_image_close(&c->inner);
    free(c->inner_bytes);
    for (uint16_t i = 0; i < c->n_sources; i++)
        free(c->source_bytes[i]);
    hw_cfi_records_done(&c->records);
    hw_builder_done(&c->builder);
}

/* ---- sources ---- */

/* Takes bytes; they are freed with the compiler. */
static int add_source(struct compiler *c, uint8_t *bytes, struct hw_cfi_section s,
                      struct hw_error *err)
{
    uint16_t source = c->n_sources++;
    c->source_bytes[source] = bytes;
    s.bytes.p = bytes;
    s.code = &c->image;
    c->sources[source] = s;
    return hw_cfi_records_add(&c->records, &c->sources[source], source, err);
}

/* No section headers: .eh_frame_hdr (a segment) begins with a pointer to .eh_frame. */
static int find_by_segment(const struct hw_image *img, uint64_t *va)
{
    for (size_t i = 0; i < img->n_segments; i++) {
        const struct hw_image_segment *s = &img->segments[i];
        hw_autofree uint8_t *head = NULL;
        if (s->type != PT_GNU_EH_FRAME ||
            hw_image_read(img, s->offset, s->file_bytes, MAX_SECTION, &head, NULL) < 0)
            continue;
        struct hw_cfi_cursor c = {head, 0, (size_t)s->file_bytes, false};
        uint8_t version = hw_cfi_u8(&c), encoding = hw_cfi_u8(&c);
        (void)hw_cfi_fixed(&c, 2); /* encodings of the search table */
        uint64_t rel = encoding >> 4 == PE_DATAREL >> 4 ? s->va : 0;
        uint64_t p = hw_cfi_pointer(&c, rel ? encoding & 0x0f : encoding, s->va);
        if (c.bad || version != 1)
            continue;
        *va = p + rel;
        return HW_OK;
    }
    return HW_ENOTFOUND;
}

static int add_eh_frame(struct compiler *c, uint64_t *n_section, struct hw_error *err)
{
    const struct hw_image *img = &c->image;
    const struct hw_image_section *sec = hw_image_find(img, ".eh_frame");
    uint8_t *bytes;
    if (sec && (sec->type == SHT_PROGBITS || sec->type == X86_64_UNWIND)) {
        struct hw_cfi_section s = {.va = sec->va, .is_eh = true};
        int rc = hw_image_read_section(img, sec, MAX_SECTION, &bytes, &s.bytes.n, err);
        *n_section = rc < 0 ? 0 : s.bytes.n;
        return rc < 0 ? rc : add_source(c, bytes, s, err);
    }
    uint64_t va, off, left;
    if (find_by_segment(img, &va) < 0 || !hw_image_offset(img, va, &off, &left))
        return HW_OK;
    int rc = hw_image_read(img, off, left, MAX_SECTION, &bytes, err);
    if (rc < 0)
        return rc;
    struct hw_cfi_section s = {.va = va, .is_eh = true, .ends_at_zero = true};
    s.bytes.n = (size_t)left;
    *n_section = left;
    return add_source(c, bytes, s, err);
}

/* Damaged data here is left out: .eh_frame's rows are good without it. */
static int add_debug_frame(struct compiler *c, const struct hw_image *img)
{
    const struct hw_image_section *sec = hw_image_find(img, ".debug_frame");
    uint8_t *bytes;
    if (!sec || img->elf_class != c->image.elf_class || img->machine != c->image.machine)
        return HW_OK;
    struct hw_cfi_section s = {.is_eh = false};
    if (hw_image_read_section(img, sec, MAX_SECTION, &bytes, &s.bytes.n, NULL) < 0)
        return HW_OK;
    size_t n_before = c->records.fdes.n;
    int rc = add_source(c, bytes, s, NULL);
    if (rc < 0 && rc != HW_ENOMEM)
        c->records.fdes.n = n_before;
    return rc == HW_ENOMEM ? rc : HW_OK;
}

/* ---- order ---- */

/* By start, and of equal starts the last one stays last. ELF files are mostly sorted. */
static int sort_fdes(struct hw_cfi_fde *v, size_t n)
{
    _Static_assert(sizeof *v == 32 && offsetof(struct hw_cfi_fde, start) == 0, "hw_radix_sort32");
    for (size_t i = 1; i < n; i++)
        if (v[i - 1].start > v[i].start)
            return hw_radix_sort32(v, n);
    return HW_OK;
}

/* Of equal starts the last stays; an earlier record ends where the next begins. */
static size_t cut_overlaps(struct hw_cfi_fde *v, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (out && v[out - 1].start == v[i].start)
            out--;
        v[out++] = v[i];
    }
    for (size_t i = 0; i + 1 < out; i++)
        if (v[i].end > v[i + 1].start)
            v[i].end = v[i + 1].start;
    return out;
}

/*
 * fdes[0, n_law) came from .eh_frame, the rest from other sources: of those only what begins
 * outside .eh_frame's functions stays, cut at the next one of them.
 */
static int order_fdes(struct compiler *c, size_t n_law)
{
    struct hw_cfi_fde *v = c->records.fdes.v;
    size_t n = c->records.fdes.n;
    int rc = sort_fdes(v, n_law);
    if (rc < 0)
        return rc;
    size_t n_kept = cut_overlaps(v, n_law);
    if (n_law == n) {
        c->records.fdes.n = n_kept;
        return HW_OK;
    }
    rc = sort_fdes(v + n_law, n - n_law);
    if (rc < 0)
        return rc;
    size_t n_extra = cut_overlaps(v + n_law, n - n_law), out = n_kept, law = 0;
    for (size_t i = 0; i < n_extra; i++) {
        struct hw_cfi_fde f = v[n_law + i];
        while (law < n_kept && v[law].end <= f.start)
            law++;
        if (law < n_kept && v[law].start <= f.start)
            continue;
        if (law < n_kept && v[law].start < f.end)
            f.end = v[law].start;
        v[out++] = f;
    }
    c->records.fdes.n = out;
    return sort_fdes(v, out);
}

/* ---- rows ---- */

/* Nobody calls the code that a file begins with: where it has no unwind data (the loader's, which calls the
 * libraries' constructors), it is the outermost frame. */
static int emit_entry(struct compiler *c, uint64_t to, uint64_t none)
{
    uint64_t entry = c->image.entry;
    int rc =
        hw_builder_row(&c->builder, entry, hw_rule_bits((struct hw_rule){.kind = HW_RULE_END}));
    if (rc == HW_OK && to - entry > ENTRY_BYTES)
        rc = hw_builder_row(&c->builder, entry + ENTRY_BYTES, none);
    return rc;
}

static int emit_rows(struct compiler *c)
{
    const uint64_t none = hw_rule_bits((struct hw_rule){.kind = HW_RULE_NONE});
    const struct hw_cfi_records *r = &c->records;
    uint64_t end = 0, entry = c->image.entry;
    for (size_t i = 0; i < r->fdes.n; i++) {
        const struct hw_cfi_fde *f = &r->fdes.v[i];
        int rc = HW_OK;
        if (i && f->start - end >= PADDING_BYTES)
            rc = hw_builder_row(&c->builder, end, none);
        if (rc == HW_OK && entry != 0 && entry >= end && entry < f->start)
            rc = emit_entry(c, f->start, none);
        if (rc < 0)
            return rc;
        rc = hw_cfi_run_fde(&c->sources[f->source], c->image.machine, &r->cies.v[f->cie], f,
                            hw_builder_row, &c->builder);
        if (rc < 0)
            return rc;
        end = f->end;
    }
    return HW_OK;
}

static void fill_stats(const struct compiler *c, uint64_t eh_frame_bytes, const void *table,
                       struct hw_cfi_stats *stats)
{
    const struct hw_table_header *h = table;
    const uint16_t *row_rule = (const uint16_t *)(const void *)((const char *)h + h->row_rule_off);
    const struct hw_rule *rules =
        (const struct hw_rule *)(const void *)((const char *)h + h->rules_off);
    *stats = (struct hw_cfi_stats){.n_fdes = c->records.n_fdes,
                                   .n_dropped_fdes = c->records.n_dropped,
                                   .n_rows = h->n_rows,
                                   .n_rules = h->n_rules,
                                   .eh_frame_bytes = eh_frame_bytes};
    for (uint32_t i = 0; i < h->n_rows; i++) {
        uint8_t kind = rules[row_rule[i]].kind;
        stats->n_unsup_rows += kind == HW_RULE_UNSUP || kind == HW_RULE_REG;
    }
}

/* 0 = none that we have rules for; so for a 64-bit machine's file of 32 bits (x32). */
static uint32_t arch_of(const struct hw_image *img)
{
    if (img->machine == EM_386 && img->elf_class == 32)
        return HW_ARCH_X86;
    if (img->elf_class != 64)
        return 0;
    if (img->machine == EM_X86_64)
        return HW_ARCH_X86_64;
    return img->machine == EM_AARCH64 ? HW_ARCH_ARM64 : 0;
}

static int compile(struct compiler *c, int elf_fd, int debug_fd, void **out, size_t *n_bytes,
                   struct hw_cfi_stats *stats, struct hw_error *err)
{
    uint64_t eh_frame_bytes = 0;
    int rc = hw_image_open(&c->image, elf_fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0)
        return rc;
    c->arch = arch_of(&c->image);
    if (!c->arch)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "no unwind rules for ELF machine %u (%u bit)",
                       c->image.machine, c->image.elf_class);
    c->records.machine = c->image.machine;

    rc = add_eh_frame(c, &eh_frame_bytes, err);
    size_t n_law = c->records.fdes.n;
    if (rc == HW_OK)
        rc = add_debug_frame(c, &c->image);
    if (rc == HW_OK && debug_fd >= 0 &&
        hw_image_open(&c->debug, debug_fd, NULL, 0, /* with_sections = */ true, NULL) == HW_OK)
        rc = add_debug_frame(c, &c->debug);
    size_t n_inner;
    if (rc == HW_OK && hw_image_debugdata(&c->image, &c->inner_bytes, &n_inner, NULL) == HW_OK &&
        hw_image_open(&c->inner, -1, c->inner_bytes, n_inner, /* with_sections = */ true, NULL) ==
            HW_OK)
        rc = add_debug_frame(c, &c->inner);
    if (rc == HW_OK)
        rc = order_fdes(c, n_law);
    if (rc < 0)
        return rc == HW_ENOMEM ? hw_fail(err, rc, 0, "frame records:") : rc;
    if (!c->records.fdes.n)
        return hw_fail(err, HW_ENOTFOUND, 0, "no unwind data");
    if (emit_rows(c) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "unwind rows");

    struct hw_builder_head head = {.arch = c->arch,
                                   .hi_va = c->records.fdes.v[c->records.fdes.n - 1].end};
    head.build_id_len = hw_image_build_id(&c->image, head.build_id, sizeof head.build_id);
    rc = hw_builder_finish(&c->builder, &head, out, n_bytes, err);
    if (rc == HW_OK && stats)
        fill_stats(c, eh_frame_bytes, *out, stats);
    return rc;
}

int hw_cfi_compile(int elf_fd, int debug_fd, void **out, size_t *n_bytes,
                   struct hw_cfi_stats *stats, struct hw_error *err)
{
    struct compiler *c = calloc(1, sizeof *c);
    if (!c)
        return hw_fail(err, HW_ENOMEM, 0, "unwind table");
    c->image.fd = c->debug.fd = c->inner.fd = -1;
    int rc = compile(c, elf_fd, debug_fd, out, n_bytes, stats, err);
    compiler_done(c);
    free(c);
    return rc;
}
