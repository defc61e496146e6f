#include "views/flame/functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

enum { MAX_GO = 4 }; /* versions of Go among the programs of a trace */

struct hw_functions {
    HW_VEC(struct hw_function) v;
    uint32_t *slots; /* hash table of index + 1 */
    size_t mask;
    uint32_t *first_at; /* by frame, and one more: where its functions begin in at */
    HW_VEC(struct hw_function_at) at;
    size_t n_frames;
    uint32_t *site;    /* by callsite: the callsite of the code that asked… */
    uint32_t *site_at; /* …and its index in at */
    bool *is_class;    /* by callsite: it is what was allocated, not code */
    const struct hw_callsites *cs;
    const struct hw_wrappers *wrappers; /* borrowed; only used by hw_functions_new */
    struct hw_bytes go[MAX_GO];         /* folders of Go's library; borrowed */
    size_t n_go;
};

/* ---- functions ---- */

static uint64_t hash_of(const struct hw_function *fn)
{
    return hw_hash_mix(hw_hash_mix((uint64_t)fn->name.v << 32 | fn->module.v, fn->rel_pc),
                       (uint64_t)fn->file.v << 32 | 1);
}

static int functions_grow(struct hw_functions *f)
{
    size_t n = f->slots ? (f->mask + 1) * 2 : 1024;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < f->v.n; i++) {
        size_t at = hash_of(&f->v.v[i]) & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = i + 1;
    }
    free(f->slots);
    f->slots = slots;
    f->mask = n - 1;
    return HW_OK;
}

static int function_intern(struct hw_functions *f, const struct hw_function *fn, uint32_t *out)
{
    if (!f->slots || f->v.n * 2 > f->mask) {
        int rc = functions_grow(f);
        if (rc < 0)
            return rc;
    }
    size_t at = hash_of(fn) & f->mask;
    for (; f->slots[at]; at = (at + 1) & f->mask) {
        const struct hw_function *have = &f->v.v[f->slots[at] - 1];
        if (have->name.v == fn->name.v && have->module.v == fn->module.v &&
            have->rel_pc == fn->rel_pc && have->file.v == fn->file.v) {
            *out = f->slots[at] - 1;
            return HW_OK;
        }
    }
    if (hw_vec_push(&f->v, *fn) < 0)
        return HW_ENOMEM;
    f->slots[at] = (uint32_t)f->v.n;
    *out = (uint32_t)f->v.n - 1;
    return HW_OK;
}

static const struct hw_strings *strings_of(const struct hw_callsites *cs)
{
    /* The accessor hands out the table for interning too; here it is only read. */
    return hw_callsites_strings((struct hw_callsites *)(uintptr_t)cs);
}

static bool is_of_go(const struct hw_functions *f, struct hw_bytes file)
{
    for (size_t i = 0; i < f->n_go; i++)
        if (file.n > f->go[i].n && memcmp(file.p, f->go[i].p, f->go[i].n) == 0)
            return true;
    return false;
}

/* seen: the file that identifies the function; file: that of the line, where lines are known. */
static int add_function(struct hw_functions *f, struct hw_function *fn, hw_str_id seen,
                        hw_str_id file, uint32_t line)
{
    const struct hw_strings *s = strings_of(f->cs);
    struct hw_function_at at = {.file = file, .line = line};
    struct hw_bytes name = hw_strings_get(s, fn->name), module = hw_strings_get(s, fn->module);
    fn->language =
        (uint8_t)(hw_function_is_javascript(name, module) ? HW_FUNCTION_MANAGED
                                                          : hw_function_language_of(module));
    fn->home = (uint8_t)hw_function_home_of(name, module, hw_strings_get(s, seen));
    fn->file = fn->name.v && (fn->language == HW_FUNCTION_MANAGED ||
                              hw_function_file_is_whole(hw_strings_get(s, seen)))
                   ? seen
                   : (hw_str_id){0};
    fn->kind =
        (uint8_t)(hw_function_is_wrapper(name, f->wrappers) ? HW_FUNCTION_ALLOCATOR
                                                            : hw_function_kind_of(name, module));
    if (fn->language == HW_FUNCTION_NATIVE && fn->kind == HW_FUNCTION_PLAIN &&
        is_of_go(f, hw_strings_get(s, seen))) {
        fn->kind = HW_FUNCTION_STD;
        fn->home = HW_HOME_STANDARD;
    }
    int rc = function_intern(f, fn, &at.function);
    if (rc == HW_OK && hw_vec_push(&f->at, at) < 0)
        rc = HW_ENOMEM;
    return rc;
}

static int add_frame(struct hw_functions *f, hw_frame_id id)
{
    const struct hw_frame *fr = hw_callsites_get_frame(f->cs, id);
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(f->cs);
    const struct hw_symbol_line *lines;
    size_t n = hw_symbol_sets_get(sets, id, &lines);
    struct hw_function fn = {.name = hw_symbol_sets_get_deobfuscated(sets, id)};
    int rc = HW_OK;
    if (fr->mapping.v != HW_ID_NONE)
        fn.module = hw_callsites_get_mapping(f->cs, fr->mapping)->path;
    if (n == 0 || (n == 1 && lines[0].function.v == 0)) {
        if (fn.name.v == 0)
            fn.name = fr->name;
        fn.rel_pc = fn.name.v ? 0 : fr->rel_pc;
        return add_function(f, &fn, n ? lines[0].file : fr->file,
                            n ? lines[0].file : (hw_str_id){0}, n ? lines[0].line : 0);
    }
    for (size_t i = n; rc == HW_OK && i-- > 0;) {
        fn.name = lines[i].function;
        fn.rel_pc = fn.name.v ? 0 : fr->rel_pc;
        rc = add_function(f, &fn, lines[i].file, lines[i].file, lines[i].line);
    }
    return rc;
}

static void find_go(struct hw_functions *f, hw_str_id name, hw_str_id file)
{
    const struct hw_strings *s = strings_of(f->cs);
    struct hw_bytes folder =
        hw_function_go_library(hw_strings_get(s, name), hw_strings_get(s, file));
    if (folder.n && f->n_go < MAX_GO && !is_of_go(f, hw_strings_get(s, file)))
        f->go[f->n_go++] = folder;
}

/* Before any function is added: the runtime's may come after those of the library. */
static void find_go_libraries(struct hw_functions *f)
{
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(f->cs);
    for (uint32_t i = 0; i < hw_callsites_n_frames(f->cs); i++) {
        const struct hw_frame *fr = hw_callsites_get_frame(f->cs, (hw_frame_id){i});
        const struct hw_symbol_line *lines;
        size_t n = hw_symbol_sets_get(sets, (hw_frame_id){i}, &lines);
        for (size_t k = 0; k < n; k++)
            find_go(f, lines[k].function.v ? lines[k].function : fr->name, lines[k].file);
        if (n == 0)
            find_go(f, fr->name, fr->file);
    }
}

static int add_frames(struct hw_functions *f)
{
    f->n_frames = hw_callsites_n_frames(f->cs);
    f->first_at = calloc(f->n_frames + 1, sizeof *f->first_at);
    if (!f->first_at)
        return HW_ENOMEM;
    find_go_libraries(f);
    for (uint32_t i = 0; i < f->n_frames; i++) {
        int rc = add_frame(f, (hw_frame_id){i});
        if (rc < 0)
            return rc;
        if (f->at.n >= UINT32_MAX)
            return HW_ELIMIT;
        f->first_at[i + 1] = (uint32_t)f->at.n;
    }
    return HW_OK;
}

/* ---- functions of one name ---- */

enum { SEVERAL = UINT32_MAX };

/* By name and module: the only function there whose file is known, or SEVERAL. */
static int find_only(const struct hw_functions *f, struct hw_map64 *only)
{
    for (uint32_t i = 0; i < f->v.n; i++) {
        const struct hw_function *fn = &f->v.v[i];
        uint64_t *value;
        bool fresh;
        if (!fn->name.v || !fn->file.v)
            continue;
        int rc = hw_map64_at(only, (uint64_t)fn->name.v << 32 | fn->module.v, &value, &fresh);
        if (rc < 0)
            return rc;
        *value = fresh ? i : SEVERAL;
    }
    return HW_OK;
}

/* The function to merge one without a known file into: the only one of its name, or itself. */
static uint32_t owner_of(struct hw_functions *f, const struct hw_map64 *only, uint32_t i)
{
    struct hw_function *fn = &f->v.v[i];
    uint64_t found;
    if (!fn->name.v || !hw_map64_get(only, (uint64_t)fn->name.v << 32 | fn->module.v, &found))
        return i;
    if (!fn->file.v && found != SEVERAL && fn->language != HW_FUNCTION_MANAGED)
        return (uint32_t)found;
    fn->is_namesake = found != i;
    if (found != SEVERAL && found != i)
        f->v.v[found].is_namesake = true;
    return i;
}

/* Renumbers functions in the order in which frames name them. */
static void renumber(struct hw_functions *f, const uint32_t *owner, uint32_t *number,
                     struct hw_function *kept)
{
    uint32_t n_kept = 0;
    for (size_t i = 0; i < f->at.n; i++) {
        uint32_t *function = &f->at.v[i].function, *to = &number[owner[*function]];
        if (*to == HW_ID_NONE) {
            *to = n_kept;
            kept[n_kept++] = f->v.v[owner[*function]];
        }
        *function = *to;
    }
    if (n_kept)
        memcpy(f->v.v, kept, n_kept * sizeof *kept);
    f->v.n = n_kept;
}

static int merge_namesakes(struct hw_functions *f)
{
    struct hw_map64 only = {0};
    size_t n = f->v.n;
    uint32_t *owner = malloc((n + 1) * sizeof *owner), *number = malloc((n + 1) * sizeof *number);
    struct hw_function *kept = malloc((n + 1) * sizeof *kept);
    int rc = owner && number && kept ? find_only(f, &only) : HW_ENOMEM;
    for (uint32_t i = 0; rc == HW_OK && i < n; i++) {
        owner[i] = owner_of(f, &only, i);
        number[i] = HW_ID_NONE;
    }
    if (rc == HW_OK)
        renumber(f, owner, number, kept);
    free(owner);
    free(number);
    free(kept);
    hw_map64_done(&only);
    return rc;
}

static uint8_t kind_at(const struct hw_functions *f, uint32_t at)
{
    return f->v.v[f->at.v[at].function].kind;
}

/* The frame's function of the lowest kind (nearest to plain code); the innermost of several. */
static uint32_t best_of_frame(const struct hw_functions *f, uint32_t frame)
{
    uint32_t best = f->first_at[frame + 1] - 1;
    for (uint32_t i = best; i-- > f->first_at[frame];)
        if (kind_at(f, i) < kind_at(f, best))
            best = i;
    return best;
}

/* A function without a name that a named allocator of the same file calls is part of it: the static
 * sqlite3MemMalloc below sqlite3Malloc in a stripped library. */
static bool belongs_to_allocator(const struct hw_functions *f, uint32_t at, uint32_t parent_at)
{
    const struct hw_function *fn = &f->v.v[f->at.v[at].function];
    const struct hw_function *parent = &f->v.v[f->at.v[parent_at].function];
    return fn->name.v == 0 && fn->module.v && fn->module.v == parent->module.v;
}

/* A callsite while the sites of its children are determined. */
struct site_state {
    uint8_t kind;      /* of its own frame, given its callers */
    uint8_t site_kind; /* of its site */
    bool managed;      /* it or one of its callers is a managed function */
};

/* Stacks of Java objects end with the object's class, below the method that allocated it. A class
 * has nothing but a name; a method also has a module or a file. */
static bool is_class(const struct hw_functions *f, uint32_t at, const struct site_state *up)
{
    const struct hw_function_at *a = &f->at.v[at];
    const struct hw_function *fn = &f->v.v[a->function];
    struct hw_bytes module = hw_strings_get(strings_of(f->cs), fn->module);
    return up && up->managed && fn->kind == HW_FUNCTION_PLAIN && fn->name.v && !a->file.v &&
           !a->line &&
           (hw_bytes_equal(module, hw_bytes_str("/[java]")) ||
            hw_bytes_equal(module, hw_bytes_str("[java]")));
}

static struct site_state classify(const struct hw_functions *f, uint32_t at,
                                  const struct site_state *up, uint32_t up_at)
{
    const struct hw_function *fn = &f->v.v[f->at.v[at].function];
    struct site_state s = {fn->kind, fn->kind,
                           fn->language == HW_FUNCTION_MANAGED || (up && up->managed)};
    bool says_less = fn->language == HW_FUNCTION_RUNTIME || fn->language == HW_FUNCTION_EXTENSION ||
                     (fn->language == HW_FUNCTION_NATIVE && fn->name.v == 0);
    if (s.managed && s.kind == HW_FUNCTION_PLAIN && says_less)
        s.kind = HW_FUNCTION_STD;
    if (up && up->kind == HW_FUNCTION_ALLOCATOR && belongs_to_allocator(f, at, up_at))
        s.kind = HW_FUNCTION_ALLOCATOR;
    s.site_kind = s.kind;
    return s;
}

/* Sets is_class for callsites without children; find_sites() then checks these. */
static void mark_leaves(struct hw_functions *f, size_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t parent = hw_callsites_get(f->cs, (hw_callsite_id){i})->parent.v;
        f->is_class[i] = true;
        if (parent < i)
            f->is_class[parent] = false;
    }
}

/* A parent is interned before its children, so one pass in order of id sees it first. */
static int find_sites(struct hw_functions *f)
{
    size_t n = hw_callsites_count(f->cs);
    f->site = calloc(n ? n : 1, sizeof *f->site);
    f->site_at = calloc(n ? n : 1, sizeof *f->site_at);
    f->is_class = calloc(n ? n : 1, sizeof *f->is_class);
    struct site_state *states = calloc(n ? n : 1, sizeof *states);
    if (!f->site || !f->site_at || !f->is_class || !states) {
        free(states);
        return HW_ENOMEM;
    }
    mark_leaves(f, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct hw_callsite *c = hw_callsites_get(f->cs, (hw_callsite_id){i});
        uint32_t own = best_of_frame(f, c->frame.v), parent = c->parent.v;
        f->site[i] = i;
        f->site_at[i] = own;
        if (parent >= i) {
            states[i] = classify(f, own, NULL, 0);
            f->is_class[i] = false;
            continue;
        }
        const struct hw_callsite *p = hw_callsites_get(f->cs, c->parent);
        states[i] = classify(f, own, &states[parent], best_of_frame(f, p->frame.v));
        f->is_class[i] &= is_class(f, own, &states[parent]);
        if (f->is_class[i])
            states[i].kind = states[i].site_kind = HW_FUNCTION_ALLOCATOR;
        /* PLAIN < STD < ALLOCATOR: the lower, the nearer to the user's code */
        if (states[parent].site_kind < states[i].site_kind) {
            states[i].site_kind = states[parent].site_kind;
            f->site[i] = f->site[parent];
            f->site_at[i] = f->site_at[parent];
        }
    }
    free(states);
    return HW_OK;
}

int hw_functions_new(const struct hw_callsites *cs, const struct hw_wrappers *wrappers,
                     struct hw_functions **out)
{
    struct hw_functions *f = calloc(1, sizeof *f);
    if (!f)
        return HW_ENOMEM;
    f->cs = cs;
    f->wrappers = wrappers;
    int rc = add_frames(f);
    f->wrappers = NULL;
    if (rc == 0)
        rc = merge_namesakes(f);
    if (rc == 0)
        rc = find_sites(f);
    if (rc < 0) {
        hw_functions_free(f);
        return rc;
    }
    *out = f;
    return HW_OK;
}

void hw_functions_free(struct hw_functions *f)
{
    if (!f)
        return;
    hw_vec_done(&f->v);
    free(f->slots);
    free(f->first_at);
    hw_vec_done(&f->at);
    free(f->site);
    free(f->site_at);
    free(f->is_class);
    free(f);
}

size_t hw_functions_count(const struct hw_functions *f)
{
    return f->v.n;
}

const struct hw_function *hw_functions_get(const struct hw_functions *f, uint32_t function)
{
    return &f->v.v[function];
}

uint32_t hw_functions_of_frame(const struct hw_functions *f, hw_frame_id frame)
{
    return f->at.v[f->first_at[frame.v + 1] - 1].function;
}

const struct hw_function_at *hw_functions_chain(const struct hw_functions *f, hw_frame_id frame,
                                                size_t *n)
{
    *n = f->first_at[frame.v + 1] - f->first_at[frame.v];
    return &f->at.v[f->first_at[frame.v]];
}

hw_callsite_id hw_functions_site_callsite(const struct hw_functions *f, hw_callsite_id c)
{
    return (hw_callsite_id){f->site[c.v]};
}

uint32_t hw_functions_site(const struct hw_functions *f, hw_callsite_id c)
{
    return f->at.v[f->site_at[c.v]].function;
}

bool hw_functions_is_class(const struct hw_functions *f, hw_callsite_id c)
{
    return f->is_class[c.v];
}

const struct hw_function_at *hw_functions_site_at(const struct hw_functions *f, hw_callsite_id c,
                                                  size_t *depth_in_frame)
{
    hw_frame_id frame = hw_callsites_get(f->cs, (hw_callsite_id){f->site[c.v]})->frame;
    *depth_in_frame = f->site_at[c.v] - f->first_at[frame.v] + 1;
    return &f->at.v[f->site_at[c.v]];
}

/* ---- how a function is shown ---- */

struct hw_bytes hw_module_base(const struct hw_callsites *cs, hw_str_id path)
{
    return hw_bytes_base_name(hw_strings_get(strings_of(cs), path));
}

void hw_function_label(struct hw_strbuf *out, const struct hw_callsites *cs,
                       const struct hw_function *fn, const struct hw_namer *namer)
{
    if (fn->name.v != 0) {
        const char *shown = namer && namer->shown ? namer->shown(namer->ctx, fn->name) : NULL;
        struct hw_bytes raw = hw_strings_get(strings_of(cs), fn->name);
        if (shown)
            hw_strbuf_adds(out, shown);
        else
            hw_strbuf_add(out, raw.p, raw.n);
        return;
    }
    struct hw_bytes module = hw_module_base(cs, fn->module);
    if (module.n == 0 && fn->rel_pc == 0) {
        hw_strbuf_adds(out, "[unknown]");
        return;
    }
    if (module.n == 0)
        hw_strbuf_adds(out, "[unknown]");
    hw_strbuf_add(out, module.p, module.n);
    hw_strbuf_addf(out, "+0x%llx", (unsigned long long)fn->rel_pc);
}

void hw_function_module(struct hw_strbuf *out, const struct hw_callsites *cs,
                        const struct hw_function *fn)
{
    struct hw_bytes path = hw_strings_get(strings_of(cs), fn->module);
    hw_strbuf_add(out, path.p, path.n);
}

hw_str_id hw_function_where(const struct hw_function *fn)
{
    bool by_file = fn->language == HW_FUNCTION_MANAGED || fn->is_namesake;
    return by_file && fn->file.v ? fn->file : fn->module;
}

struct hw_bytes hw_function_file_shown(const struct hw_callsites *cs, hw_str_id file)
{
    struct hw_bytes path = hw_strings_get(strings_of(cs), file);
    size_t start = path.n, slashes = 0;
    while (start > 0 && (path.p[start - 1] != '/' || ++slashes < 2))
        start--;
    return hw_bytes_skip(path, start);
}

void hw_function_place(struct hw_strbuf *out, const struct hw_callsites *cs, hw_str_id file,
                       uint32_t line)
{
    struct hw_bytes shown = hw_function_file_shown(cs, file);
    if (shown.n == 0)
        return;
    hw_strbuf_add_escaped(out, shown.p, shown.n);
    if (line)
        hw_strbuf_addf(out, ":%u", line);
}
