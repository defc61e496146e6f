/* symbols.c - see symbols.h */
#include "elf/symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/machine_memory.h"
#include "base/text/text_parts.h"
#include "elf/image.h"

#include "base/banned.h"

enum { NAME_COMPARED = 1024, MAX_NESTED = 4096 };

/* The largest tables there are have half a gigabyte of names. */
static uint64_t max_table(void)
{
    const uint64_t most = UINT64_C(1) << 30, share = hw_machine_memory() / 8;
    return share < most ? share : most;
}

/* A symbol table and its names, read whole. Names end in a NUL because reads append one. */
struct table {
    uint8_t *syms;
    char *names;
    size_t n, n_names, entry;
};

static void table_free(struct table *t)
{
    free(t->syms);
    free(t->names);
    *t = (struct table){0};
}

static int table_read(const struct hw_image *img, const char *section, struct table *t)
{
    *t = (struct table){.entry = img->elf_class == 64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym)};
    const struct hw_image_section *s = hw_image_find(img, section);
    if (!s || s->link >= img->n_sections || (s->type != SHT_SYMTAB && s->type != SHT_DYNSYM))
        return HW_ENOTFOUND;
    size_t n_syms;
    uint8_t *names;
    int rc = hw_image_read_section(img, s, max_table(), &t->syms, &n_syms, NULL);
    if (rc < 0)
        return rc;
    rc =
        hw_image_read_section(img, &img->sections[s->link], max_table(), &names, &t->n_names, NULL);
    if (rc < 0) {
        table_free(t);
        return rc;
    }
    t->names = (char *)names;
    t->n = n_syms / t->entry;
    return HW_OK;
}

static Elf64_Sym table_get(const struct table *t, size_t i)
{
    if (t->entry == sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        memcpy(&s, t->syms + i * t->entry, sizeof s);
        return s;
    }
    Elf32_Sym s;
    memcpy(&s, t->syms + i * t->entry, sizeof s);
    return (Elf64_Sym){s.st_name, s.st_info, s.st_other, s.st_shndx, s.st_value, s.st_size};
}

static uint8_t rank_of(const Elf64_Sym *s)
{
    switch (ELF64_ST_BIND(s->st_info)) {
    case STB_GLOBAL:
    case STB_GNU_UNIQUE:
        return 3;
    case STB_WEAK:
        return 2;
    default:
        return 1;
    }
}

/* Where a function without a size must stop at the latest. */
static uint64_t section_end(const struct hw_image *img, const Elf64_Sym *s)
{
    if (s->st_shndx < img->n_sections) {
        const struct hw_image_section *sec = &img->sections[s->st_shndx];
        if (s->st_value - sec->va < sec->bytes)
            return sec->va + sec->bytes;
    }
    return s->st_value + 1;
}

int hw_symbols_add(struct hw_symbols *out, const struct hw_image *img, const char *section,
                   struct hw_error *err)
{
    struct table t;
    int rc = table_read(img, section, &t);
    if (rc < 0)
        return rc == HW_ENOMEM ? hw_fail(err, rc, 0, "symbols:") : HW_OK;
    size_t most = (size_t)(2 * max_table() / sizeof(struct hw_symbol));
    for (size_t i = 1; i < t.n && out->list.n < most; i++) {
        Elf64_Sym s = table_get(&t, i);
        unsigned type = ELF64_ST_TYPE(s.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s.st_shndx == SHN_UNDEF ||
            s.st_name >= t.n_names || !t.names[s.st_name] || s.st_value + s.st_size < s.st_value)
            continue;
        struct hw_symbol sym = {.start = s.st_value,
                                .end = s.st_size ? s.st_value + s.st_size : section_end(img, &s),
                                .name = t.names + s.st_name,
                                .rank = rank_of(&s),
                                .sized = s.st_size != 0};
        if (hw_vec_push(&out->list, sym) < 0)
            goto no_memory;
    }
    if (hw_vec_push(&out->strings, t.names) < 0)
        goto no_memory;
    t.names = NULL;
    table_free(&t);
    return HW_OK;
no_memory:
    out->list.n = 0; /* names would dangle */
    table_free(&t);
    return hw_fail(err, HW_ENOMEM, 0, "symbols");
}

static int by_address(const void *pa, const void *pb)
{
    const struct hw_symbol *a = pa, *b = pb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    if (a->sized != b->sized)
        return a->sized ? -1 : 1;
    /* Names that differ only far behind are equally good; a hostile table has endless ones. */
    size_t na = strnlen(a->name, NAME_COMPARED), nb = strnlen(b->name, NAME_COMPARED);
    if (na != nb)
        return na < nb ? -1 : 1;
    return strncmp(a->name, b->name, NAME_COMPARED);
}

/* ---- folded functions ---- */

static bool is_mangled(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

/* The name without what compilers and libraries put around it: __GI_x, _IO_new_x, x.part.0, x@V. */
static struct hw_bytes core_of(const char *name)
{
    static const char *const prefixes[] = {"_", "GI_", "IO_", "libc_", "new_", "old_"};
    for (size_t i = 0; i < HW_ARRAY_LEN(prefixes);) {
        size_t n = strlen(prefixes[i]);
        bool is = strncmp(name, prefixes[i], n) == 0 && name[n];
        name += is ? n : 0;
        i = is ? 0 : i + 1;
    }
    size_t n = strnlen(name, NAME_COMPARED), cut = strcspn(name, ".@");
    return hw_bytes_of(name, cut && cut < n ? cut : n);
}

static bool contains(struct hw_bytes a, struct hw_bytes b)
{
    return b.n && a.n >= b.n && memmem(a.p, a.n, b.p, b.n);
}

/* C1 and C2, D0 to D2 of one constructor or destructor differ in one digit. */
static bool is_variant(struct hw_bytes a, struct hw_bytes b)
{
    if (a.n != b.n)
        return false;
    size_t i = 0;
    while (i < a.n && a.p[i] == b.p[i])
        i++;
    if (i == a.n)
        return true;
    bool digits = a.p[i] >= '0' && a.p[i] <= '5' && b.p[i] >= '0' && b.p[i] <= '5';
    return digits && i && (a.p[i - 1] == 'C' || a.p[i - 1] == 'D') &&
           memcmp(a.p + i, b.p + i, 1) != 0 && memcmp(a.p + i + 1, b.p + i + 1, a.n - i - 1) == 0;
}

/* operator new and delete are often names for an allocator's own functions. */
static bool is_new_or_delete(const char *name)
{
    return strncmp(name, "_Zd", 3) == 0 || strncmp(name, "_Zn", 3) == 0;
}

static bool is_alias(const struct hw_symbol *a, const struct hw_symbol *b)
{
    struct hw_bytes x = core_of(a->name), y = core_of(b->name);
    bool mangled = is_mangled(a->name);
    if (mangled != is_mangled(b->name) || is_new_or_delete(a->name) || is_new_or_delete(b->name))
        return true; /* written by hand: no linker folds these */
    if (mangled)
        return is_variant(x, y);
    return a->rank == 2 || b->rank == 2 || contains(x, y) || contains(y, x);
}

void hw_symbols_sort(struct hw_symbols *s)
{
    size_t n = 0;
    if (s->list.n)
        qsort(s->list.v, s->list.n, sizeof *s->list.v, by_address);
    for (size_t i = 0; i < s->list.n; i++) {
        if (n && s->list.v[n - 1].start == s->list.v[i].start) {
            /* The better name stays, with the range of the one whose size is known. */
            if (!s->list.v[n - 1].sized && s->list.v[i].sized) {
                s->list.v[n - 1].end = s->list.v[i].end;
                s->list.v[n - 1].sized = true;
            }
            s->list.v[n - 1].folded |= !is_alias(&s->list.v[n - 1], &s->list.v[i]);
            continue;
        }
        s->list.v[n++] = s->list.v[i];
    }
    s->list.n = n;
    uint64_t reaches = 0;
    for (size_t i = 0; i < n; i++) {
        struct hw_symbol *sym = &s->list.v[i];
        if (!sym->sized && i + 1 < n && sym[1].start < sym->end)
            sym->end = sym[1].start;
        reaches = sym->end > reaches ? sym->end : reaches;
        sym->reaches = reaches;
    }
}

const struct hw_symbol *hw_symbols_at(const struct hw_symbols *s, uint64_t va)
{
    size_t lo = 0, n = s->list.n;
    while (n) {
        size_t half = n / 2;
        if (s->list.v[lo + half].start <= va) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    /* A function may lie inside another (hand-written code): go back while one can still reach. */
    for (size_t k = 0; k < MAX_NESTED && lo-- > 0 && s->list.v[lo].reaches > va; k++)
        if (va < s->list.v[lo].end)
            return &s->list.v[lo];
    return NULL;
}

void hw_symbols_done(struct hw_symbols *s)
{
    for (size_t i = 0; i < s->strings.n; i++)
        free(s->strings.v[i]);
    hw_vec_done(&s->strings);
    hw_vec_done(&s->list);
}

bool hw_symbols_find(const struct hw_image *img, const char *section, const char *name,
                     uint64_t *va)
{
    uint64_t size;
    return hw_symbols_find_sized(img, section, name, va, &size);
}

bool hw_symbols_find_sized(const struct hw_image *img, const char *section, const char *name,
                           uint64_t *va, uint64_t *size)
{
    struct table t;
    if (table_read(img, section, &t) < 0)
        return false;
    bool found = false;
    for (size_t i = 1; i < t.n && !found; i++) {
        Elf64_Sym s = table_get(&t, i);
        unsigned type = ELF64_ST_TYPE(s.st_info);
        bool kind = type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC ||
                    type == STT_NOTYPE || type == STT_TLS;
        if (!kind || s.st_shndx == SHN_UNDEF || s.st_name >= t.n_names ||
            strcmp(t.names + s.st_name, name) != 0)
            continue;
        *va = s.st_value;
        *size = s.st_size;
        found = true;
    }
    table_free(&t);
    return found;
}

static bool is_init_of_sanitizer(const char *name)
{
    static const char *const names[] = {
#define INIT(symbol) symbol,
#include "base/sanitizers.def"
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool hw_symbols_is_sanitizer(const char *path)
{
    static const char *const names[] = {
#define RUNTIME(prefix) prefix,
#include "base/sanitizers.def"
    };
    const char *base = hw_base_name(path);
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (hw_starts_with(base, names[i]))
            return true;
    return false;
}

bool hw_symbols_have_sanitizer(const struct hw_image *img, const char *section)
{
    struct table t;
    bool found = false, hooks = false;
    uint64_t va;
    if (table_read(img, section, &t) < 0)
        return false;
    for (const char *p = t.names, *end = p + t.n_names; !found && p < end; p += strlen(p) + 1) {
        found = is_init_of_sanitizer(p) || hw_symbols_is_sanitizer(p);
        hooks |= hw_starts_with(p, "__sanitizer_");
    }
    table_free(&t);
    return found || (hooks && hw_symbols_find(img, section, "malloc", &va));
}
