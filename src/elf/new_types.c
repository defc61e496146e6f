/*
 *      mov $0x40,%edi        the size: read here
 *      call operator new
 *      ...                   <- the return address
 *      call Node::Node(int)  a call site of the debug info, or found by its target alone, or
 *      (inlined Node::Node)  an inlined function
 *
 * Between the two, other constructors may create the arguments: these come first, and in the same
 * line. So the size decides, and if two classes fit, the type stays unknown. Code without
 * optimization has no call sites in its debug info: there a byte of a call whose target is exactly
 * where a constructor begins is taken for one; among 96 bytes such a chance is one in 10^7.
 */
#include "elf/new_types.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "elf/lines_data.h"

#include "base/banned.h"

#define AT_LLVM_ALLOC_TYPE 0x3e0eu

enum { SCAN_AHEAD = 96, SCAN_BACK = 32, MAX_SCOPES = 64 };

struct question {
    struct hw_lines *l;
    uint64_t ret;
    int line;
    const char *file;
    bool has_size;
    uint64_t size;
    Dwarf_Die type; /* found */
    bool found, is_certain, is_ambiguous;
};

/* ---- types ---- */

static bool follow(Dwarf_Die *die, unsigned name, Dwarf_Die *out)
{
    Dwarf_Attribute a;
    return dwarf_attr(die, name, &a) && dwarf_formref_die(&a, out);
}

/* The declaration of a function, in its class. */
static Dwarf_Die declaration_of(Dwarf_Die *function)
{
    Dwarf_Die at = *function, next;
    for (int i = 0; i < 4 && (follow(&at, DW_AT_abstract_origin, &next) ||
                              follow(&at, DW_AT_specification, &next));
         i++)
        at = next;
    return at;
}

static bool is_class(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* A constructor has its class's name, without the class's template arguments. */
static bool class_of_constructor(Dwarf_Die *function, Dwarf_Die *out)
{
    Dwarf_Die declaration = declaration_of(function), *scopes = NULL;
    const char *name = dwarf_diename(&declaration);
    int n = name ? dwarf_getscopes_die(&declaration, &scopes) : 0;
    bool found = false;
    if (n > 1 && is_class(&scopes[1])) {
        const char *class = dwarf_diename(&scopes[1]);
        size_t k = class ? strcspn(class, "<") : 0;
        size_t own = strcspn(name, "<");
        found = k > 0 && k == own && strncmp(class, name, k) == 0;
        *out = scopes[1];
    }
    free(scopes);
    return found;
}

/* Does an object of the class have the requested size? An array may have a word before it. */
static bool fits(const struct question *q, Dwarf_Die *class)
{
    Dwarf_Attribute a;
    Dwarf_Word size;
    if (!q->has_size || !dwarf_attr_integrate(class, DW_AT_byte_size, &a) ||
        dwarf_formudata(&a, &size) != 0 || size == 0)
        return false;
    return q->size == size;
}

static void consider(struct question *q, Dwarf_Die *function)
{
    Dwarf_Die class;
    if (!class_of_constructor(function, &class) || !fits(q, &class))
        return;
    if (q->found && dwarf_dieoffset(&q->type) != dwarf_dieoffset(&class))
        q->is_ambiguous = true;
    q->type = class;
    q->found = true;
}

/* ---- places ---- */

static bool same_line(const struct question *q, uint64_t va)
{
    int number;
    Dwarf_Line *line = dwarf_getsrc_die(&q->l->unit_die, va);
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    return file && q->file && dwarf_lineno(line, &number) == 0 && number == q->line &&
           strcmp(file, q->file) == 0;
}

static bool inlined_here(const struct question *q, Dwarf_Die *inlined)
{
    Dwarf_Attribute a;
    Dwarf_Word line, file;
    if (!dwarf_attr(inlined, DW_AT_call_line, &a) || dwarf_formudata(&a, &line) != 0 ||
        !dwarf_attr(inlined, DW_AT_call_file, &a) || dwarf_formudata(&a, &file) != 0 ||
        line != (Dwarf_Word)q->line || !q->l->files)
        return false;
    const char *name = dwarf_filesrc(q->l->files, file, NULL, NULL);
    return name && q->file && strcmp(name, q->file) == 0;
}

static bool behind(const struct question *q, Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
        if (high > q->ret)
            return true;
    return false;
}

static uint64_t return_pc(Dwarf_Die *site)
{
    Dwarf_Attribute a;
    Dwarf_Addr pc;
    bool has = dwarf_attr(site, DW_AT_call_return_pc, &a) || dwarf_attr(site, DW_AT_low_pc, &a);
    return has && dwarf_formaddr(&a, &pc) == 0 ? pc : 0;
}

static void look_at_site(struct question *q, Dwarf_Die *site)
{
    Dwarf_Die origin;
    uint64_t pc = return_pc(site);
    if (pc == q->ret && follow(site, AT_LLVM_ALLOC_TYPE, &origin)) {
        q->type = origin;
        q->found = q->is_certain = true;
    } else if (pc > q->ret && same_line(q, pc - 1) &&
               (follow(site, DW_AT_call_origin, &origin) ||
                follow(site, DW_AT_abstract_origin, &origin))) {
        consider(q, &origin);
    }
}

static void look_at(struct question *q, Dwarf_Die *die)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_call_site:
    case DW_TAG_GNU_call_site:
        look_at_site(q, die);
        break;
    case DW_TAG_inlined_subroutine:
        if (inlined_here(q, die) && behind(q, die))
            consider(q, die);
        break;
    default:
        break;
    }
}

static void walk(struct question *q, Dwarf_Die *function)
{
    struct hw_die_walk w;
    for (Dwarf_Die *at = hw_die_walk_begin(&w, function); at && !q->is_certain;) {
        look_at(q, at);
        int tag = dwarf_tag(at);
        at = hw_die_walk_next(&w, tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine);
    }
}

/* ---- code ---- */

/* The section's bytes that hold [va, va + n); NULL: they do not exist. */
static const uint8_t *code_at(struct hw_lines *l, uint64_t va, size_t n)
{
    for (Elf_Scn *scn = elf_nextscn(l->elf, NULL); scn; scn = elf_nextscn(l->elf, scn)) {
        GElf_Shdr h;
        if (!gelf_getshdr(scn, &h) || !(h.sh_flags & SHF_EXECINSTR) || h.sh_type == SHT_NOBITS ||
            va < h.sh_addr || h.sh_size < n || va - h.sh_addr > h.sh_size - n)
            continue;
        Elf_Data *d = elf_rawdata(scn, NULL);
        uint64_t at = va - h.sh_addr;
        return d && d->d_buf && at + n <= d->d_size ? (const uint8_t *)d->d_buf + at : NULL;
    }
    return NULL;
}

static uint32_t word_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* mov $size,%edi, the last one before the call. */
static void find_size(struct question *q)
{
    const uint8_t *p = code_at(q->l, q->ret - SCAN_BACK, SCAN_BACK);
    for (int i = SCAN_BACK - 10; p && i >= 0 && !q->has_size; i--)
        if (p[i] == 0xbf) {
            q->size = word_at(p + i + 1);
            q->has_size = q->size > 0 && q->size < 1u << 30;
        }
}

static int scan_calls(struct question *q)
{
    size_t n = SCAN_AHEAD;
    const uint8_t *p = NULL;
    while (n > 8 && !(p = code_at(q->l, q->ret, n)))
        n -= 8;
    for (size_t i = 0; p && i + 5 <= n; i++) {
        uint64_t call = q->ret + i,
                 target = call + 5 + (uint64_t)(int64_t)(int32_t)word_at(p + i + 1);
        if (p[i] != 0xe8 || !same_line(q, call))
            continue;
        Dwarf_Die *f, function;
        Dwarf_Addr low;
        uint64_t here = q->ret - 1;
        int rc = hw_lines_function(q->l, target, &f);
        if (rc == HW_OK && f && dwarf_lowpc(f, &low) == 0 && low == target) {
            function = *f;
            consider(q, &function);
        }
        if (rc == HW_OK) /* back to the unit whose lines are wanted */
            rc = hw_lines_function(q->l, here, &f);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static bool is_x86_64(struct hw_lines *l)
{
    GElf_Ehdr h;
    return gelf_getehdr(l->elf, &h) && h.e_machine == EM_X86_64;
}

/* ---- names ---- */

/* With its namespaces and classes. */
static const char *name_of(struct hw_lines *l, Dwarf_Die *type)
{
    Dwarf_Die *scopes = NULL;
    struct hw_strbuf text = {0};
    int n = dwarf_getscopes_die(type, &scopes);
    for (int i = n < MAX_SCOPES ? n - 1 : MAX_SCOPES; i > 0; i--) {
        const char *name = dwarf_diename(&scopes[i]);
        int tag = dwarf_tag(&scopes[i]);
        if (tag == DW_TAG_namespace || is_class(&scopes[i]))
            hw_strbuf_addf(&text, "%s::", name ? name : "(anonymous)");
    }
    free(scopes);
    const char *own = dwarf_diename(type);
    hw_strbuf_adds(&text, own ? own : "");
    const char *copy = own && !text.failed ? hw_arena_copy(&l->paths, text.p, text.n + 1) : NULL;
    hw_strbuf_done(&text);
    return copy;
}

static int find_type(struct hw_lines *l, uint64_t va, const char **out)
{
    struct question q = {.l = l, .ret = va + 1};
    Dwarf_Die *f, function;
    *out = NULL;
    int rc = hw_lines_function(l, va, &f);
    if (rc < 0 || !f)
        return rc;
    function = *f;
    Dwarf_Line *line = dwarf_getsrc_die(&l->unit_die, va);
    q.file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (line && dwarf_lineno(line, &q.line) != 0)
        q.file = NULL;
    if (is_x86_64(l))
        find_size(&q);
    walk(&q, &function);
    if (!q.found && q.has_size)
        rc = scan_calls(&q);
    if (rc == HW_OK && q.found && (q.is_certain || !q.is_ambiguous))
        *out = name_of(l, &q.type);
    return rc;
}

int hw_lines_new_types(struct hw_lines *l, const uint64_t *ascending, size_t n, hw_lines_fn answer,
                       void *ctx)
{
    int rc = HW_OK;
    hw_lines_unpack_all(l);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        struct hw_line line = {0};
        if (l->dwarf)
            rc = find_type(l, ascending[i], &line.function);
        if (rc == HW_OK)
            rc = answer(ctx, i, &line, line.function != NULL);
    }
    return rc;
}
