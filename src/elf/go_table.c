/*
 * go_table.c - the table, whose offsets are from its beginning:
 *
 *     header   u32 magic  u8 0 0  u8 quantum  u8 8
 *              u64 functions  u64 files  u64 code's address  u64 offsets of names, units, files, values, functions
 *     functions: u32 code's offset, u32 record's offset; in order; behind the last one the end
 *     record:    u32 code  u32 name  8 bytes  u32 -  u32 files  u32 lines  u32 n  u32 unit  (1.20: u32 -)  3 bytes  u8 m
 *                n u32 values, m u32 data
 *
 * Values by address are pairs of differences, zigzag and unsigned, until a first one that is zero.
 */
#include "elf/go_table.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"

#include "base/banned.h"

enum {
    BLOCK = 4096,
    BLOCKS = 256,
    HEADER = 72,
    TABLE_ALIGNED = 32,
    MAX_STEPS = 1 << 16,
    MAX_INLINED = 64
};
enum { MAX_FUNCTIONS = 1 << 22, MAX_BEFORE = 64 << 20, MAX_CODE = 4096 };
enum {
    TREE_VALUES = 2,
    TREE_DATA = 3
}; /* which of a function's values and data are about inlining */

#define NONE UINT32_MAX

static const struct layout {
    uint32_t first, last; /* minor versions */
    uint32_t magic;
    uint32_t record_bytes;
    uint32_t tree_bytes, tree_name,
        tree_parent; /* a function that was inlined, and where in it... */
    uint32_t data_word;
} layouts[] = {
    {19, 19, 0xfffffff0, 40, 20, 12, 16, 38},
    {20, 23, 0xfffffff1, 44, 16, 4, 8, 40},
};

struct block {
    uint64_t at; /* UINT64_MAX = none */
    uint8_t bytes[BLOCK];
};

struct hw_go_table {
    struct hw_image img;
    const struct layout *layout;
    uint64_t at, va, bytes; /* the table in the file and in memory, and at most how much of it */
    char version[32];
    uint64_t text, data;
    uint64_t n_functions, quantum;
    uint64_t names, units, files, values, functions; /* offsets in the table */
    struct block blocks[BLOCKS];
};

struct function {
    uint64_t at; /* its record, in the table */
    uint64_t entry;
    uint32_t name, files, lines, n_values, unit, n_data;
};

/* ---- bytes ---- */

/* A block of the file, or NULL. */
static const struct block *block_of(struct hw_go_table *t, uint64_t at)
{
    struct block *b = &t->blocks[at / BLOCK % BLOCKS];
    uint64_t begin = at / BLOCK * BLOCK;
    if (b->at == begin)
        return b;
    if (begin >= t->img.n_bytes)
        return NULL;
    uint64_t left = t->img.n_bytes - begin;
    size_t n = left < BLOCK ? (size_t)left : BLOCK;
    b->at = UINT64_MAX;
    memset(b->bytes, 0, sizeof b->bytes);
    if (hw_fd_pread_all(t->img.fd, b->bytes, n, begin) < 0)
        return NULL;
    b->at = begin;
    return b;
}

static bool read_file(struct hw_go_table *t, uint64_t at, void *out, size_t n)
{
    uint8_t *to = out;
    if (at > t->img.n_bytes || n > t->img.n_bytes - at)
        return false;
    while (n > 0) {
        const struct block *b = block_of(t, at);
        size_t from = at % BLOCK, some = BLOCK - from < n ? BLOCK - from : n;
        if (!b)
            return false;
        memcpy(to, b->bytes + from, some);
        to += some, at += some, n -= some;
    }
    return true;
}

static bool read_table(struct hw_go_table *t, uint64_t at, void *out, size_t n)
{
    return at <= t->bytes && n <= t->bytes - at && read_file(t, t->at + at, out, n);
}

static bool read_u32(struct hw_go_table *t, uint64_t at, uint32_t *out)
{
    return read_table(t, at, out, sizeof *out);
}

static void read_text(struct hw_go_table *t, uint64_t at, char out[HW_GO_NAME_MAX])
{
    size_t n = 0;
    while (n + 1 < HW_GO_NAME_MAX && read_table(t, at + n, out + n, 1) && out[n])
        n++;
    out[n] = '\0';
}

static bool read_memory(struct hw_go_table *t, uint64_t va, void *out, size_t n)
{
    uint64_t at, left;
    return hw_image_offset(&t->img, va, &at, &left) && n <= left && read_file(t, at, out, n);
}

bool hw_go_table_word(const struct hw_go_table *t, uint64_t va, uint64_t *out)
{
    uint64_t at, left;
    *out = 0;
    for (size_t i = 0; i < t->img.n_segments; i++) {
        const struct hw_image_segment *s = &t->img.segments[i];
        bool is_bss = s->type == PT_LOAD && va >= s->va && va - s->va >= s->file_bytes &&
                      va - s->va < s->mem_bytes;
        if (is_bss)
            return true;
    }
    return hw_image_offset(&t->img, va, &at, &left) && left >= sizeof *out &&
           hw_fd_pread_all(t->img.fd, out, sizeof *out, at) == HW_OK;
}

/* ---- functions ---- */

static bool code_of(struct hw_go_table *t, uint64_t i, uint32_t *out)
{
    return read_u32(t, t->functions + i * 8, out);
}

static bool function_at(struct hw_go_table *t, uint64_t i, struct function *out)
{
    uint32_t code, at, w[9];
    uint8_t counts[4];
    if (!code_of(t, i, &code) || !read_u32(t, t->functions + i * 8 + 4, &at))
        return false;
    *out = (struct function){.at = t->functions + at, .entry = t->text + code};
    if (!read_table(t, out->at, w, sizeof w) ||
        !read_table(t, out->at + t->layout->record_bytes - 4, counts, sizeof counts))
        return false;
    out->name = w[1];
    out->files = w[5];
    out->lines = w[6];
    out->n_values = w[7];
    out->unit = w[8];
    out->n_data = counts[3];
    return true;
}

/* The one whose code covers va. */
static bool find_function(struct hw_go_table *t, uint64_t va, struct function *out)
{
    uint64_t lo = 0, hi = t->n_functions;
    uint32_t code;
    if (va < t->text || va - t->text > UINT32_MAX)
        return false;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (!code_of(t, mid, &code))
            return false;
        if (code <= va - t->text)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || !code_of(t, lo, &code) || code <= va - t->text) /* behind the last */
        return false;
    return function_at(t, lo - 1, out);
}

static bool read_varint(struct hw_go_table *t, uint64_t *at, uint32_t *out)
{
    uint8_t byte;
    *out = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (!read_table(t, (*at)++, &byte, 1))
            return false;
        *out |= (uint32_t)((uint64_t)(byte & 0x7f) << shift);
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* -1: there is none. */
static int32_t value_at(struct hw_go_table *t, const struct function *f, uint32_t values,
                        uint64_t va)
{
    uint64_t at = t->values + values, pc = f->entry;
    uint32_t value = NONE, by, on; /* it wraps */
    if (values == 0)
        return -1;
    for (size_t i = 0; i < MAX_STEPS; i++) {
        if (!read_varint(t, &at, &by) || (by == 0 && i > 0) || !read_varint(t, &at, &on))
            return -1;
        value += (by & 1) ? ~(by >> 1) : by >> 1;
        pc += on * t->quantum;
        if (va < pc)
            return (int32_t)value;
    }
    return -1;
}

/* ---- frames ---- */

/* The function that was inlined at va; false: none. */
static bool inlined_at(struct hw_go_table *t, const struct function *f, uint64_t va, uint32_t *name,
                       uint64_t *parent)
{
    const struct layout *l = t->layout;
    uint64_t values = f->at + l->record_bytes, data = values + (uint64_t)f->n_values * 4;
    uint32_t tree, where, in_parent;
    if (t->data == 0 || f->n_values <= TREE_VALUES || f->n_data <= TREE_DATA ||
        !read_u32(t, values + (size_t)TREE_VALUES * 4, &where) ||
        !read_u32(t, data + (size_t)TREE_DATA * 4, &tree) || tree == NONE)
        return false;
    int32_t i = value_at(t, f, where, va);
    if (i < 0)
        return false;
    uint64_t row = t->data + tree + (uint64_t)i * l->tree_bytes;
    if (!read_memory(t, row + l->tree_name, name, sizeof *name) ||
        !read_memory(t, row + l->tree_parent, &in_parent, sizeof in_parent))
        return false;
    *parent = f->entry + in_parent;
    return true;
}

static void name_file(struct hw_go_table *t, const struct function *f, uint64_t va,
                      struct hw_go_frame *out)
{
    int32_t file = value_at(t, f, f->files, va), line = value_at(t, f, f->lines, va);
    uint32_t at;
    out->line = line > 0 ? (uint32_t)line : 0;
    if (file >= 0 && read_u32(t, t->units + ((uint64_t)f->unit + (uint64_t)file) * 4, &at) &&
        at != NONE)
        read_text(t, t->files + at, out->file);
}

size_t hw_go_table_frames(struct hw_go_table *t, uint64_t va, bool is_last, struct hw_go_frame *out,
                          size_t max)
{
    struct function f;
    size_t n = 0;
    if (va == 0 || !find_function(t, va - 1, &f))
        return 0;
    max = max < MAX_INLINED ? max : MAX_INLINED;
    for (uint64_t at = va - 1; n < max;) {
        struct hw_go_frame *frame = &out[n++];
        uint64_t parent = 0;
        uint32_t name = f.name;
        frame->line = 0;
        frame->file[0] = '\0';
        bool is_inlined = inlined_at(t, &f, at, &name, &parent);
        read_text(t, t->names + name, frame->function);
        name_file(t, &f, at, frame);
        if (!is_inlined || !is_last)
            break;
        at = parent;
    }
    return n;
}

/* ---- the rate ---- */

/* mov variable(%rip), %register, and behind it its comparison with 1. */
static uint64_t compared_with_one(const uint8_t *p, size_t n, uint64_t va)
{
    for (size_t i = 0; i + 18 <= n; i++) {
        uint8_t reg = (p[i + 2] >> 3) & 7;
        const uint8_t compare[] = {0x48, 0x83, (uint8_t)(0xf8 | reg), 1};
        int32_t by;
        if (p[i] != 0x48 || p[i + 1] != 0x8b || (p[i + 2] & 0xc7) != 5)
            continue;
        memcpy(&by, p + i + 3, sizeof by);
        for (size_t k = 7; k <= 14 && i + k + sizeof compare <= n; k++)
            if (memcmp(p + i + k, compare, sizeof compare) == 0)
                return va + i + 7 + (uint64_t)(int64_t)by;
    }
    return 0;
}

static uint64_t rate_in(struct hw_go_table *t, uint64_t i)
{
    uint8_t code[MAX_CODE];
    uint32_t from, to;
    if (!code_of(t, i, &from) || !code_of(t, i + 1, &to) || to <= from)
        return 0;
    size_t n = to - from < MAX_CODE ? to - from : MAX_CODE;
    return read_memory(t, t->text + from, code, n) ? compared_with_one(code, n, t->text + from) : 0;
}

/* Two functions of the runtime read it, in each version and with or without symbols; both have to agree. */
static uint64_t rate_by_code(struct hw_go_table *t)
{
    static const char *const names[] = {"runtime.profilealloc", "runtime.allocmcache"};
    uint64_t found[] = {0, 0};
    if (t->img.machine != EM_X86_64)
        return 0;
    for (uint64_t i = 0; i < t->n_functions && !(found[0] && found[1]); i++) {
        uint32_t at, name;
        char text[32] = "";
        if (!read_u32(t, t->functions + i * 8 + 4, &at) ||
            !read_u32(t, t->functions + at + 4, &name) ||
            !read_table(t, t->names + name, text, sizeof text))
            continue;
        for (size_t k = 0; k < HW_ARRAY_LEN(names); k++)
            if (memcmp(text, names[k], strlen(names[k]) + 1) == 0)
                found[k] = rate_in(t, i);
    }
    return found[0] == found[1] ? found[0] : 0;
}

uint64_t hw_go_table_rate(struct hw_go_table *t)
{
    uint64_t va;
    if (hw_image_find(&t->img, ".symtab"))
        return hw_symbols_find(&t->img, ".symtab", "runtime.MemProfileRate", &va) ? va : 0;
    return rate_by_code(t);
}

/* ---- opening ---- */

static const char build_info[] = ".go.buildinfo";

bool hw_go_table_is_in(int fd)
{
    struct hw_image img;
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return false;
    bool is_in = hw_image_find(&img, build_info) != NULL;
    hw_image_close(&img);
    return is_in;
}

/* Of 1.18 and later: a number, and the version as text. */
static bool read_version(struct hw_go_table *t)
{
    enum { FLAGS = 15, TEXT = 32, INLINE = 2 };
    const struct hw_image_section *s = hw_image_find(&t->img, build_info);
    uint8_t p[TEXT + 1 + sizeof t->version] = {0};
    if (!s || s->bytes < sizeof p || !read_file(t, s->offset, p, sizeof p) ||
        memcmp(p, "\xff Go buildinf:", 14) != 0 || !(p[FLAGS] & INLINE) ||
        p[TEXT] >= sizeof t->version)
        return false;
    memcpy(t->version, p + TEXT + 1, p[TEXT]);
    t->version[p[TEXT]] = '\0';
    return strncmp(t->version, "go1.", 4) == 0;
}

static int find_layout(struct hw_go_table *t, struct hw_error *err)
{
    if (!read_version(t))
        return hw_fail(err, HW_EUNSUPPORTED, 0, "its version of Go is not known");
    unsigned long minor = strtoul(t->version + 4, NULL, 10);
    for (size_t i = 0; i < HW_ARRAY_LEN(layouts); i++)
        if (minor >= layouts[i].first && minor <= layouts[i].last)
            t->layout = &layouts[i];
    if (!t->layout)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "it was built with %s, and heapwise knows go1.%u to go1.%u", t->version,
                       layouts[0].first, layouts[HW_ARRAY_LEN(layouts) - 1].last);
    return HW_OK;
}

struct header {
    uint32_t magic;
    uint8_t zero[2], quantum, word;
    uint64_t functions, files, text, at[5];
};
_Static_assert(sizeof(struct header) == HEADER, "as in the file");

static bool is_header(const struct hw_go_table *t, const struct header *h)
{
    return h->magic == t->layout->magic && !h->zero[0] && !h->zero[1] && h->word == 8 &&
           (h->quantum == 1 || h->quantum == 4) && h->functions > 0 &&
           h->functions <= MAX_FUNCTIONS;
}

/* The first that looks like it, from the section's beginning on; no more than max bytes behind that. */
static bool find_in(struct hw_go_table *t, const char *section, uint64_t max, struct header *h)
{
    const struct hw_image_section *s = hw_image_find(&t->img, section);
    if (!s || s->offset > t->img.n_bytes)
        return false;
    uint64_t left = t->img.n_bytes - s->offset, bytes = s->bytes < left ? s->bytes : left;
    for (uint64_t at = 0; at < bytes && at <= max; at += TABLE_ALIGNED) {
        t->at = s->offset + at;
        t->va = s->va + at;
        t->bytes = bytes - at;
        if (read_table(t, 0, h, sizeof *h) && is_header(t, h))
            return true;
    }
    return false;
}

/* A C compiler's linker puts the table among other constants of a position-independent program. */
static bool find_table(struct hw_go_table *t, struct header *h)
{
    return find_in(t, ".gopclntab", 0, h) || find_in(t, ".data.rel.ro.gopclntab", 0, h) ||
           find_in(t, ".data.rel.ro", MAX_BEFORE, h);
}

static int read_header(struct hw_go_table *t, struct hw_error *err)
{
    struct header h;
    if (!find_table(t, &h))
        return hw_fail(err, HW_EFORMAT, 0, "the table of functions of %s was not found in its file",
                       t->version);
    t->n_functions = h.functions;
    t->quantum = h.quantum;
    t->text = h.text;
    uint64_t *offsets[] = {&t->names, &t->units, &t->files, &t->values, &t->functions};
    for (size_t i = 0; i < HW_ARRAY_LEN(offsets); i++) {
        if (h.at[i] > t->bytes)
            return hw_fail(err, HW_EFORMAT, t->at, "its table of functions reaches beyond its end");
        *offsets[i] = h.at[i];
    }
    if (h.functions >= (t->bytes - t->functions) / 8)
        return hw_fail(err, HW_EFORMAT, t->at, "its table of functions reaches beyond its end");
    return HW_OK;
}

int hw_go_table_open(int fd, struct hw_go_table **out, struct hw_error *err)
{
    struct hw_go_table *t = calloc(1, sizeof *t);
    if (!t)
        return hw_fail(err, HW_ENOMEM, 0, "Go's table of functions");
    for (size_t i = 0; i < BLOCKS; i++)
        t->blocks[i].at = UINT64_MAX;
    int rc = hw_image_open(&t->img, fd, NULL, 0, /* with_sections = */ true, err);
    if (rc == HW_OK && (!hw_image_find(&t->img, build_info) || t->img.elf_class != 64))
        rc = hw_fail(err, HW_ENOTFOUND, 0, "it is no 64-bit Go program");
    if (rc == HW_OK)
        rc = find_layout(t, err);
    if (rc == HW_OK)
        rc = read_header(t, err);
    if (rc < 0) {
        hw_go_table_close(t);
        return rc;
    }
    *out = t;
    return HW_OK;
}

void hw_go_table_close(struct hw_go_table *t)
{
    if (t)
        hw_image_close(&t->img);
    free(t);
}

/* ---- where things are ---- */

const char *hw_go_table_version(const struct hw_go_table *t)
{
    return t->version;
}

uint64_t hw_go_table_first(const struct hw_go_table *t)
{
    for (size_t i = 0; i < t->img.n_segments; i++)
        if (t->img.segments[i].type == PT_LOAD) /* in order */
            return t->img.segments[i].va / BLOCK * BLOCK;
    return 0;
}

uint64_t hw_go_table_va(const struct hw_go_table *t)
{
    return t->va;
}

uint64_t hw_go_table_bytes(const struct hw_go_table *t)
{
    return t->bytes;
}

uint32_t hw_go_table_data_word(const struct hw_go_table *t)
{
    return t->layout->data_word;
}

void hw_go_table_text(const struct hw_go_table *t, uint64_t *lo, uint64_t *hi)
{
    const struct hw_image_section *s = hw_image_find(&t->img, ".text");
    *lo = s ? s->va : 0;
    *hi = s && s->bytes < UINT64_MAX - s->va ? s->va + s->bytes : *lo;
}

void hw_go_table_place(struct hw_go_table *t, uint64_t text, uint64_t data)
{
    t->text = text;
    t->data = data;
}
