#include "views/flame/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/program_name.h"
#include "base/text/text_parts.h"
#include "model/profile.h"

#include "base/banned.h"

static const struct hw_strings *strings_of(const struct hw_callsites *cs)
{
    /* The accessor hands out the table for interning too; here it is only read. */
    return hw_callsites_strings((struct hw_callsites *)(uintptr_t)cs);
}

/* ---- which module is the program ---- */

static bool is_start(const struct hw_callsites *cs, hw_frame_id frame)
{
    static const char start[] = "__libc_start_main";
    struct hw_bytes name = hw_strings_get(strings_of(cs), hw_callsites_get_frame(cs, frame)->name);
    return hw_bytes_start_with(name, start);
}

/* The module that calls this callsite, the C library's start function; 0 = none. */
static hw_str_id path_above(const struct hw_callsites *cs, const struct hw_callsite *c)
{
    const struct hw_frame *f = hw_callsites_get_frame(cs, hw_callsites_get(cs, c->parent)->frame);
    return f->mapping.v == HW_ID_NONE ? (hw_str_id){0}
                                      : hw_callsites_get_mapping(cs, f->mapping)->path;
}

/* The module that calls the C library's start function; 0 when the stack has none. */
static hw_str_id starter_of(const struct hw_callsites *cs, hw_callsite_id leaf)
{
    for (hw_callsite_id at = leaf; at.v != HW_ID_NONE;) {
        const struct hw_callsite *c = hw_callsites_get(cs, at);
        if (c->parent.v != HW_ID_NONE && is_start(cs, c->frame))
            return path_above(cs, c);
        at = c->parent;
    }
    return (hw_str_id){0};
}

/* The mapping whose file has the process's name. */
static hw_str_id module_named(const struct hw_callsites *cs, struct hw_bytes process_name)
{
    struct hw_bytes name = hw_bytes_base_name(process_name);
    for (uint32_t i = 0; name.n && i < hw_callsites_n_mappings(cs); i++) {
        hw_str_id path = hw_callsites_get_mapping(cs, (hw_mapping_id){i})->path;
        if (hw_bytes_equal(hw_bytes_base_name(hw_strings_get(strings_of(cs), path)), name))
            return path;
    }
    return (hw_str_id){0};
}

static hw_str_id program_module(const struct hw_callsites *cs, const hw_values *values,
                                struct hw_bytes process_name)
{
    for (size_t i = 0; i < values->n; i++) {
        hw_str_id path = starter_of(cs, values->v[i].callsite);
        if (path.v)
            return path;
    }
    return module_named(cs, process_name);
}

struct hw_bytes hw_process_name(const struct hw_profile *p, hw_upid upid)
{
    return upid.v < p->processes.n
               ? hw_strings_get(strings_of(p->callsites), p->processes.v[upid.v].name)
               : hw_bytes_of("", 0);
}

/* A process may set a title ("postgres: checkpointer"), which says more than the program's name. */
static struct hw_shown_program shown_as(const struct hw_callsites *cs, hw_str_id module,
                                        struct hw_bytes process_name)
{
    return (struct hw_shown_program){module,
                                     hw_program_name(process_name, hw_module_base(cs, module))};
}

struct hw_shown_program hw_program_find(const struct hw_callsites *cs, const hw_values *values,
                                        struct hw_bytes process_name)
{
    return shown_as(cs, program_module(cs, values, process_name), process_name);
}

/* starter_of for all callsites at once. */
static hw_str_id *find_starters(const struct hw_callsites *cs)
{
    size_t n = hw_callsites_count(cs), n_frames = hw_callsites_n_frames(cs);
    hw_autofree bool *start = calloc(n_frames + 1, sizeof *start);
    hw_str_id *out = calloc(n + 1, sizeof *out);
    if (!start || !out) {
        free(out);
        return NULL;
    }
    for (uint32_t i = 0; i < n_frames; i++)
        start[i] = is_start(cs, (hw_frame_id){i});
    for (uint32_t i = 0; i < n; i++) { /* parents come before children */
        const struct hw_callsite *c = hw_callsites_get(cs, (hw_callsite_id){i});
        if (c->parent.v != HW_ID_NONE)
            out[i] = start[c->frame.v] ? path_above(cs, c) : out[c->parent.v];
    }
    return out;
}

/* By the first row of the dump whose stack has a starter. */
static hw_str_id module_of_dump(const struct hw_profile *p, uint32_t dump,
                                const hw_str_id *starters)
{
    size_t first, n;
    hw_profile_dump_rows(p, dump, &first, &n);
    for (size_t i = first; i < first + n; i++)
        if (starters[p->allocs.callsite[i]].v)
            return starters[p->allocs.callsite[i]];
    return (hw_str_id){0};
}

int hw_programs_find(const struct hw_profile *p, struct hw_shown_program **out)
{
    hw_autofree hw_str_id *starters = find_starters(p->callsites);
    struct hw_shown_program *found = calloc(p->processes.n + 1, sizeof *found);
    if (!starters || !found) {
        free(found);
        return HW_ENOMEM;
    }
    for (uint32_t d = 0; d < p->dumps.n; d++) {
        hw_upid upid = p->dumps.v[d].upid;
        if (upid.v < p->processes.n && !found[upid.v].module.v)
            found[upid.v].module = module_of_dump(p, d, starters);
    }
    for (uint32_t i = 0; i < p->processes.n; i++) {
        struct hw_bytes name = hw_process_name(p, (hw_upid){i});
        hw_str_id module = found[i].module;
        found[i] =
            shown_as(p->callsites, module.v ? module : module_named(p->callsites, name), name);
    }
    *out = found;
    return HW_OK;
}

/* ---- shown names ---- */

bool hw_program_has(const struct hw_shown_program *program, hw_str_id path)
{
    return program && program->name.n && path.v && path.v == program->module.v;
}

/* libfoo.so, libfoo.so.6, plugin.so */
static bool is_shared_library(struct hw_bytes base)
{
    const uint8_t *so = memmem(base.p, base.n, ".so", 3);
    return so && (so + 3 == base.p + base.n || so[3] == '.' || so[3] == '-');
}

enum hw_function_owner hw_function_owner_of(const struct hw_shown_program *program,
                                            const struct hw_callsites *cs,
                                            const struct hw_function *fn)
{
    if (fn->kind != HW_FUNCTION_PLAIN || fn->language == HW_FUNCTION_RUNTIME)
        return HW_OWNER_RUNTIME;
    if (fn->language == HW_FUNCTION_MANAGED)
        return fn->home == HW_HOME_STANDARD  ? HW_OWNER_RUNTIME
               : fn->home == HW_HOME_PACKAGE ? HW_OWNER_LIBRARY
                                             : HW_OWNER_PROGRAM;
    if (fn->home == HW_HOME_STANDARD)
        return HW_OWNER_RUNTIME;
    if (program && program->module.v)
        return fn->module.v == program->module.v ? HW_OWNER_PROGRAM : HW_OWNER_LIBRARY;
    if (fn->module.v == 0 || is_shared_library(hw_module_base(cs, fn->module)))
        return HW_OWNER_LIBRARY;
    return HW_OWNER_PROGRAM;
}

bool hw_program_is_renamed(const struct hw_shown_program *program, const struct hw_callsites *cs)
{
    return program && hw_program_has(program, program->module) &&
           !hw_bytes_equal(program->name, hw_module_base(cs, program->module));
}

struct hw_bytes hw_program_module_shown(const struct hw_shown_program *program,
                                        const struct hw_callsites *cs, hw_str_id path)
{
    return hw_program_has(program, path) ? program->name : hw_module_base(cs, path);
}

void hw_program_where(const struct hw_shown_program *program, struct hw_strbuf *out,
                      const struct hw_callsites *cs, const struct hw_function *fn,
                      const struct hw_function_at *place)
{
    hw_str_id where = hw_function_where(fn);
    bool is_file = where.v && where.v == fn->file.v;
    struct hw_bytes shown =
        is_file ? hw_function_file_shown(cs, place && place->file.v ? place->file : where)
                : hw_program_module_shown(program, cs, where);
    hw_strbuf_add(out, shown.p, shown.n);
    if (is_file && place && place->line)
        hw_strbuf_addf(out, ":%u", place->line);
}

void hw_program_label(const struct hw_shown_program *program, struct hw_strbuf *out,
                      const struct hw_callsites *cs, const struct hw_function *fn,
                      const struct hw_namer *namer)
{
    if (fn->name.v || !hw_program_has(program, fn->module)) {
        hw_function_label(out, cs, fn, namer);
        return;
    }
    hw_strbuf_add(out, program->name.p, program->name.n);
    hw_strbuf_addf(out, "+0x%llx", (unsigned long long)fn->rel_pc);
}
