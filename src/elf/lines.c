/*
 * libdw reads the debug info, through descriptors and without mapping. Units are found by their own
 * ranges, not by .debug_aranges, which clang does not write. In a unit with addresses in it, the
 * functions with code are listed once, sorted by address; from the one that covers an address we
 * descend through lexical blocks and inlined functions. If a file has no debug info for an address,
 * its symbols answer (elf.h), those of .gnu_debugdata included.
 */
#include "elf/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/arena.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "elf/elf.h"
#include "elf/lines_data.h"

#include "base/banned.h"

enum { MAX_TREE_DEPTH = 512, MAX_CHAIN = HW_MAX_INLINE_DEPTH };

/* libdw opens the file named here, and again when a signal interrupted it: for ever, if it is a
 * FIFO. It looks for a relative name beside the file, and then elsewhere. What is in this
 * section is not compressed. */
static bool leads_to_no_file(Elf_Scn *scn, int fd)
{
    char own[64], beside[PATH_MAX] = "", path[2 * PATH_MAX];
    struct stat st;
    const Elf_Data *d = elf_rawdata(scn, NULL);
    const char *name = d ? d->d_buf : NULL;
    if (!name || !memchr(name, 0, d->d_size))
        return true;
    (void)snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    ssize_t n = name[0] == '/' ? 0 : readlink(own, beside, sizeof beside - 1);
    const char *slash = n > 0 ? memrchr(beside, '/', (size_t)n) : NULL;
    int dir = slash ? (int)(slash + 1 - beside) : 0;
    if (snprintf(path, sizeof path, "%.*s%s", dir, beside, name) >= (int)sizeof path)
        return true;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/*
 * libdw unpacks every section it knows at once. Locations of variables, macros and unwind tables
 * are never needed here, and are a quarter of a debug package: a section without bits is skipped.
 * So is a link to something that is not a file. The two largest that are needed are unpacked by
 * us, as far as they are.
 */
static void prepare_section(struct hw_lines *l, Elf_Scn *scn, const char *name, int fd)
{
    static const char *const unused[] = {".debug_loc", ".debug_loclists", ".debug_macro",
                                         ".debug_frame", ".gnu_debugaltlink"};
    GElf_Shdr h;
    for (size_t i = 0; i < HW_ARRAY_LEN(unused); i++)
        if (strcmp(name, unused[i]) == 0 && gelf_getshdr(scn, &h) &&
            (i + 1 < HW_ARRAY_LEN(unused) || leads_to_no_file(scn, fd))) {
            h.sh_type = SHT_NOBITS;
            (void)gelf_update_shdr(scn, &h); /* our copy; if not, it is unpacked in vain */
        }
    if (strcmp(name, ".debug_info") == 0 && !l->info)
        l->info = hw_packed_new(l->elf, scn, fd, HW_PACKED_GROWS);
    if (strcmp(name, ".debug_line") == 0 && !l->line)
        l->line = hw_packed_new(l->elf, scn, fd, HW_PACKED_ZEROS);
    if (strcmp(name, ".debug_aranges") == 0)
        l->aranges = scn;
}

static void prepare_sections(struct hw_lines *l, int fd)
{
    size_t names;
    if (elf_getshdrstrndx(l->elf, &names) != 0)
        return;
    for (Elf_Scn *scn = elf_nextscn(l->elf, NULL); scn; scn = elf_nextscn(l->elf, scn)) {
        GElf_Shdr h;
        const char *name = gelf_getshdr(scn, &h) ? elf_strptr(l->elf, names, h.sh_name) : NULL;
        if (name)
            prepare_section(l, scn, name, fd);
    }
}

/* Reads the debug info anew, after more of it was unpacked. */
static void begin(struct hw_lines *l)
{
    if (l->dwarf)
        (void)dwarf_end(l->dwarf);
    l->dwarf = dwarf_begin_elf(l->elf, DWARF_C_READ, NULL);
    l->units_ready = l->has_unit = false;
    hw_vec_clear(&l->units);
    hw_vec_clear(&l->functions);
    hw_map64_done(&l->whole); /* other text may be where libdw's was */
}

int hw_lines_open(int fd, struct hw_lines **out, struct hw_error *err)
{
    struct hw_lines *l = calloc(1, sizeof *l);
    if (!l)
        return hw_fail(err, HW_ENOMEM, 0, "debug info");
    int rc = hw_elf_open(fd, &l->symbols, err);
    if (rc < 0) {
        free(l);
        return rc;
    }
    (void)elf_version(EV_CURRENT);
    l->elf = elf_begin(fd, ELF_C_READ, NULL); /* read, not mapped: the file may shrink */
    if (l->elf) {
        bool changed;
        prepare_sections(l, fd);
        if (l->info)
            hw_needed_unpack(l->info, 0, &changed);
        begin(l);
    }
    *out = l;
    return HW_OK;
}

void hw_lines_close(struct hw_lines *l)
{
    if (!l)
        return;
    if (l->dwarf)
        (void)dwarf_end(l->dwarf);
    if (l->elf)
        (void)elf_end(l->elf);
    hw_packed_free(l->info);
    hw_packed_free(l->line);
    hw_vec_done(&l->needed);
    hw_elf_close(l->symbols);
    hw_vec_done(&l->units);
    hw_vec_done(&l->functions);
    hw_map64_done(&l->whole);
    hw_arena_done(&l->paths);
    free(l);
}

static bool has_lines(const struct hw_lines *l)
{
    Dwarf_CU *cu = NULL;
    return l->dwarf && dwarf_get_units(l->dwarf, NULL, &cu, NULL, NULL, NULL, NULL) == 0;
}

bool hw_lines_has_debug_info(const struct hw_lines *l)
{
    return has_lines(l);
}

bool hw_lines_is_folded(struct hw_lines *l, uint64_t va)
{
    return hw_elf_is_folded(l->symbols, va);
}

/* ---- units ---- */

static int compare_units(const void *a, const void *b)
{
    const struct hw_unit_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static int add_unit(struct hw_lines *l, Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        if (low >= high || low == 0)
            continue; /* 0: a function the linker dropped */
        if (hw_vec_push(&l->units, (struct hw_unit_range){low, high, dwarf_dieoffset(die)}) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int find_units(struct hw_lines *l)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t type;
    int rc = HW_OK;
    l->units_ready = true;
    while (rc == HW_OK && l->dwarf &&
           dwarf_get_units(l->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0)
        if (type == DW_UT_compile || type == DW_UT_skeleton)
            rc = add_unit(l, &die);
    if (rc == HW_OK && l->units.n)
        qsort(l->units.v, l->units.n, sizeof *l->units.v, compare_units);
    return rc;
}

/* In sound files ranges of units do not overlap; in others the nearest start wins. */
static const struct hw_unit_range *unit_at(const struct hw_lines *l, uint64_t va)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, l->units.n, l->units.v[mid].low <= va);
    if (lo == 0 || va >= l->units.v[lo - 1].high)
        return NULL;
    return &l->units.v[lo - 1];
}

/* ---- the functions of one unit ---- */

static int compare_functions(const void *a, const void *b)
{
    const struct hw_function_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static int add_function(struct hw_lines *l, Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
        if (low < high && low != 0 &&
            hw_vec_push(&l->functions, (struct hw_function_range){low, high, *die}) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

/* deep: also functions inside functions (local classes, lambdas), which takes a walk over
 * everything. */
static bool may_hold_functions(int tag, bool deep)
{
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
        return true;
    case DW_TAG_subprogram:
    case DW_TAG_lexical_block:
        return deep;
    default:
        return false;
    }
}

/* A damaged file may name a sibling before the entry itself: only forward steps lead out of it. */
static bool next_sibling(Dwarf_Die *die)
{
    Dwarf_Off here = dwarf_dieoffset(die);
    return dwarf_siblingof(die, die) == 0 && dwarf_dieoffset(die) > here;
}

Dwarf_Die *hw_die_walk_begin(struct hw_die_walk *w, Dwarf_Die *of)
{
    w->depth = 0;
    return dwarf_child(of, &w->open[0]) == 0 ? &w->open[0] : NULL;
}

Dwarf_Die *hw_die_walk_next(struct hw_die_walk *w, bool inside)
{
    Dwarf_Die *at = &w->open[w->depth];
    if (inside && w->depth + 1 < HW_DIE_DEPTH && dwarf_child(at, at + 1) == 0)
        return &w->open[++w->depth];
    while (!next_sibling(&w->open[w->depth]))
        if (w->depth-- == 0)
            return NULL;
    return &w->open[w->depth];
}

static int list_functions(struct hw_lines *l, bool deep)
{
    struct hw_die_walk walk;
    int rc = HW_OK;
    hw_vec_clear(&l->functions);
    l->is_deep = deep;
    for (Dwarf_Die *at = hw_die_walk_begin(&walk, &l->tree); at && rc == HW_OK;) {
        int tag = dwarf_tag(at);
        if (tag == DW_TAG_subprogram)
            rc = add_function(l, at);
        at = hw_die_walk_next(&walk, may_hold_functions(tag, deep));
    }
    if (rc == HW_OK && l->functions.n)
        qsort(l->functions.v, l->functions.n, sizeof *l->functions.v, compare_functions);
    return rc;
}

static int enter_unit(struct hw_lines *l, Dwarf_Off unit)
{
    if (l->has_unit && l->unit == unit)
        return HW_OK;
    size_t n_files;
    l->has_unit = false;
    hw_vec_clear(&l->functions);
    if (!dwarf_offdie(l->dwarf, unit, &l->unit_die))
        return HW_OK;
    Dwarf_Attribute a;
    l->tree = l->unit_die;
    l->directory = dwarf_attr(&l->unit_die, DW_AT_comp_dir, &a) ? dwarf_formstring(&a) : NULL;
    Dwarf_Die split;
    memset(&split, 0, sizeof split);
    if (dwarf_cu_info(l->unit_die.cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) == 0 &&
        split.addr)
        l->tree = split;
    if (dwarf_getsrcfiles(&l->tree, &l->files, &n_files) != 0 &&
        dwarf_getsrcfiles(&l->unit_die, &l->files, &n_files) != 0)
        l->files = NULL;
    int rc = list_functions(l, /* deep = */ false);
    if (rc < 0)
        return rc;
    l->unit = unit;
    l->has_unit = true;
    return HW_OK;
}

static Dwarf_Die *function_at(struct hw_lines *l, uint64_t va)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, l->functions.n, l->functions.v[mid].low <= va);
    return lo && va < l->functions.v[lo - 1].high ? &l->functions.v[lo - 1].die : NULL;
}

/* ---- one address ---- */

void hw_simplify_path(char *path)
{
    bool whole = path[0] == '/';
    char *to = path, *from = path;
    size_t parts = 0; /* that ".." can remove */
    while (*from) {
        from += *from == '/';
        size_t n = strcspn(from, "/");
        if (n == 2 && from[0] == '.' && from[1] == '.' && (parts || whole)) {
            while (to > path && *--to != '/')
                ;
            parts -= parts > 0;
        } else if (n && !(n == 1 && from[0] == '.')) {
            parts += !(n == 2 && from[0] == '.' && from[1] == '.');
            if (to > path || whole)
                *to++ = '/';
            memmove(to, from, n);
            to += n;
        }
        from += n;
    }
    *to = 0;
}

/* Debug info keeps names as the compiler was given them, relative to where it ran. The text from
 * libdw stays in place while the file is open, so its address identifies it in the map. */
static const char *whole_path(struct hw_lines *l, const char *name)
{
    uint64_t found;
    bool relative = name && name[0] != '/';
    if (!name || (relative ? !l->directory || !l->directory[0] : !strstr(name, "/.")))
        return name;
    if (hw_map64_get(&l->whole, (uint64_t)(uintptr_t)name, &found))
        return (const char *)(uintptr_t)found;
    size_t n_dir = relative ? strlen(l->directory) + 1 : 0, n = strlen(name);
    char *path = hw_arena_alloc(&l->paths, n_dir + n + 1);
    if (!path)
        return name;
    if (relative) {
        memcpy(path, l->directory, n_dir - 1);
        path[n_dir - 1] = '/';
    }
    memcpy(path + n_dir, name, n + 1);
    hw_simplify_path(path);
    /* Without memory it is made again the next time. */
    (void)hw_map64_put(&l->whole, (uint64_t)(uintptr_t)name, (uint64_t)(uintptr_t)path);
    return path;
}

static const char *name_of(Dwarf_Die *die)
{
    Dwarf_Attribute a;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a)) {
        const char *name = dwarf_formstring(&a);
        if (name)
            return name;
    }
    return dwarf_diename(die);
}

static void call_place(struct hw_lines *l, Dwarf_Die *inlined, struct hw_line *out)
{
    Dwarf_Attribute a;
    Dwarf_Word file, line;
    if (l->files && dwarf_attr(inlined, DW_AT_call_file, &a) && dwarf_formudata(&a, &file) == 0)
        out->file = whole_path(l, dwarf_filesrc(l->files, file, NULL, NULL));
    if (out->file && dwarf_attr(inlined, DW_AT_call_line, &a) && dwarf_formudata(&a, &line) == 0)
        out->line = (uint32_t)line;
}

static void leaf_place(struct hw_lines *l, uint64_t va, struct hw_line *out)
{
    int number;
    Dwarf_Line *line = dwarf_getsrc_die(&l->unit_die, va);
    if (!line)
        return;
    out->file = whole_path(l, dwarf_linesrc(line, NULL, NULL));
    if (out->file && dwarf_lineno(line, &number) == 0 && number > 0)
        out->line = (uint32_t)number;
}

static bool is_mangled(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
}

/* The child of *at that covers va, in *at. */
static bool descend(Dwarf_Die *at, uint64_t va)
{
    Dwarf_Die child;
    if (dwarf_child(at, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
            dwarf_haspc(&child, va) == 1) {
            *at = child;
            return true;
        }
    } while (next_sibling(&child));
    return false;
}

/* Functions from the outside in; a function's line is where the next one was inlined. */
static size_t build_chain(struct hw_lines *l, Dwarf_Die *function, uint64_t va)
{
    Dwarf_Die at = *function;
    size_t n = 0;
    l->chain[n++] = (struct hw_line){.function = name_of(&at)};
    for (int depth = 0; depth < MAX_TREE_DEPTH && n < MAX_CHAIN && descend(&at, va); depth++) {
        if (dwarf_tag(&at) != DW_TAG_inlined_subroutine)
            continue;
        call_place(l, &at, &l->chain[n - 1]);
        l->chain[n++] = (struct hw_line){.function = name_of(&at)};
    }
    leaf_place(l, va, &l->chain[n - 1]);
    for (size_t i = 0; i < n / 2; i++) {
        struct hw_line t = l->chain[i];
        l->chain[i] = l->chain[n - 1 - i];
        l->chain[n - 1 - i] = t;
    }
    return n;
}

/* A symbol replaces a missing name, and one that says less: "_M_invoke" of some template, whose
 * symbol says which. */
static void name_outermost(struct hw_lines *l, uint64_t va, size_t *n)
{
    struct hw_line *outermost = &l->chain[*n ? *n - 1 : 0];
    if (*n && outermost->function && is_mangled(outermost->function))
        return;
    const char *symbol = hw_elf_function_at(l->symbols, va, NULL);
    if (!symbol)
        return;
    if (*n == 0) {
        *outermost = (struct hw_line){0};
        *n = 1;
    }
    if (!outermost->function || is_mangled(symbol))
        outermost->function = symbol;
}

int hw_lines_function(struct hw_lines *l, uint64_t va, Dwarf_Die **out)
{
    *out = NULL;
    int rc = l->units_ready ? HW_OK : find_units(l);
    const struct hw_unit_range *u = rc == HW_OK ? unit_at(l, va) : NULL;
    if (!u)
        return rc;
    rc = enter_unit(l, u->unit);
    if (rc < 0 || !l->has_unit)
        return rc;
    *out = function_at(l, va);
    if (!*out && !l->is_deep) {
        rc = list_functions(l, /* deep = */ true);
        if (rc == HW_OK)
            *out = function_at(l, va);
    }
    return rc;
}

static int find_chain(struct hw_lines *l, uint64_t va, size_t *n)
{
    Dwarf_Die *function;
    int rc = hw_lines_function(l, va, &function);
    *n = 0;
    if (rc < 0)
        return rc;
    if (function) {
        *n = build_chain(l, function, va);
    } else if (l->has_unit && unit_at(l, va)) { /* assembly: lines, but no function */
        l->chain[0] = (struct hw_line){0};
        leaf_place(l, va, &l->chain[0]);
        *n = l->chain[0].file != NULL;
    }
    name_outermost(l, va, n);
    return HW_OK;
}

/* ---- as much as is needed ---- */

void hw_lines_unpack_all(struct hw_lines *l)
{
    bool changed = false;
    if (l->info)
        (void)hw_packed_reach(l->info, UINT64_MAX, &changed);
    if (l->line)
        (void)hw_packed_reach(l->line, UINT64_MAX, &changed);
    if (changed)
        begin(l);
}

static struct hw_bytes read_aranges(struct hw_lines *l)
{
    GElf_Shdr h;
    Elf_Data *d = NULL;
    if (l->aranges && gelf_getshdr(l->aranges, &h) &&
        (!(h.sh_flags & SHF_COMPRESSED) || elf_compress(l->aranges, 0, 0) >= 0))
        d = elf_getdata(l->aranges, NULL);
    return d && d->d_buf ? hw_bytes_of(d->d_buf, d->d_size) : hw_bytes_of("", 0);
}

/* Leaves the first entries of the units in l->needed. */
static bool unpack_needed(struct hw_lines *l, const uint64_t *ascending, size_t n)
{
    struct hw_needed_units *units = &l->needed;
    bool changed = false;
    Dwarf_Off line;
    Dwarf_Die die;
    if (hw_needed_find(read_aranges(l), ascending, n, units) < 0)
        return false;
    for (size_t i = 0; i < units->n; i++)
        hw_needed_unpack(l->info, units->v[i], &changed);
    if (changed)
        begin(l);
    for (size_t i = 0; i < units->n; i++) {
        if (!hw_needed_enter(l->dwarf, units->v[i], &die) || hw_needed_has_others(&die))
            return false;
        units->v[i] = dwarf_dieoffset(&die);
        if (l->line && hw_needed_lines(&die, &line))
            hw_needed_unpack(l->line, line, &changed);
    }
    return true;
}

static bool is_needed(const struct hw_needed_units *units, Dwarf_Off unit)
{
    size_t i = 0;
    while (i < units->n && units->v[i] != unit)
        i++;
    return i < units->n;
}

/* What the units' own ranges say is the last word. */
static bool are_needed(struct hw_lines *l, const uint64_t *ascending, size_t n, int *rc)
{
    Dwarf_Off last = 0;
    *rc = l->units_ready ? HW_OK : find_units(l);
    for (size_t i = 0; *rc == HW_OK && i < n; i++) {
        const struct hw_unit_range *u = unit_at(l, ascending[i]);
        if (!u || (u->unit != last && !is_needed(&l->needed, u->unit)))
            return false;
        last = u->unit;
    }
    return true;
}

static int unpack_for(struct hw_lines *l, const uint64_t *ascending, size_t n)
{
    int rc = HW_OK;
    bool packed = l->info && !hw_packed_is_whole(l->info);
    if (!packed || !unpack_needed(l, ascending, n) || !are_needed(l, ascending, n, &rc))
        hw_lines_unpack_all(l);
    return rc;
}

int hw_lines_resolve(struct hw_lines *l, const uint64_t *ascending, size_t n, hw_lines_fn answer,
                     void *ctx)
{
    int rc = unpack_for(l, ascending, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        size_t n_chain;
        rc = find_chain(l, ascending[i], &n_chain);
        if (rc == HW_OK)
            rc = answer(ctx, i, l->chain, n_chain);
    }
    return rc;
}
