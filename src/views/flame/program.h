/*
 * program.h - frames of the profiled program itself, and its name
 *
 * Why:     a row of the program itself needs no module, and whoever started redis-server looks for
 *          that name, not for the file it is a link to (redis-check-rdb). That rule is defined only
 *          here.
 * Shapes:  the program is the module that calls the C library's start function, else the one with
 *          the process's name. Its started name is shown wherever a person reads a module, and
 *          "redis-server+0x1f3" for its functions without a name; lists of functions show no module
 *          for the program's own. Output for other programs (mappings of pprof, libraries of
 *          Firefox, columns of SQL, folded, text, csv, json) keeps the file's name, which is needed
 *          to find symbols or to join tables. Filters accept both. A program of NULL means unknown,
 *          or several processes together: files' names are shown.
 * Owns:    nothing; names are the profile's.
 * Errors:  HW_ENOMEM.
 * Cost:    find: the first callstacks of a process, up to one that the C library started; of all
 *          processes: O(callsites + rows).
 * Threads: pure.
 */
#ifndef HW_VIEWS_FLAME_PROGRAM_H
#define HW_VIEWS_FLAME_PROGRAM_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "model/callsites.h"
#include "model/ids.h"
#include "views/flame/functions.h"
#include "views/time/values.h"

struct hw_profile;

struct hw_shown_program {
    hw_str_id module;     /* path of its file; 0 = unknown */
    struct hw_bytes name; /* what it was started as; borrowed */
};

/* What the process was started as; empty: unknown, or no such process. */
struct hw_bytes hw_process_name(const struct hw_profile *p, hw_upid upid);
struct hw_shown_program hw_program_find(const struct hw_callsites *cs, const hw_values *values,
                                        struct hw_bytes process_name);
/* One per process, by upid. The caller frees *out. */
int hw_programs_find(const struct hw_profile *p, struct hw_shown_program **out);

/* Whether a frame in this file is the program's own. */
bool hw_program_has(const struct hw_shown_program *program, hw_str_id path);
/* Whether its shown name differs from its file's. */
bool hw_program_is_renamed(const struct hw_shown_program *program, const struct hw_callsites *cs);
/* Who a function's code belongs to. */
enum hw_function_owner {
    HW_OWNER_PROGRAM, /* the program's own, and what an interpreter or virtual machine runs */
    HW_OWNER_LIBRARY, /* shared libraries, packages of Python */
    HW_OWNER_RUNTIME, /* the C library, the language's own library, allocators, interpreters */
    HW_OWNER_COUNT
};
/* If the program is unknown, files that are no shared libraries count as its own. */
enum hw_function_owner hw_function_owner_of(const struct hw_shown_program *program,
                                            const struct hw_callsites *cs,
                                            const struct hw_function *fn);
/* The shown module of a frame in this file: the last part of its path, or the program's name. */
struct hw_bytes hw_program_module_shown(const struct hw_shown_program *program,
                                        const struct hw_callsites *cs, hw_str_id path);
/* Appends where a function is (hw_function_where): "pk/large.py:4", or its module as shown.
 * place: its line (places.h), NULL = none. */
void hw_program_where(const struct hw_shown_program *program, struct hw_strbuf *out,
                      const struct hw_callsites *cs, const struct hw_function *fn,
                      const struct hw_function_at *place);
/* hw_function_label, with the program's name for its functions without a name. */
void hw_program_label(const struct hw_shown_program *program, struct hw_strbuf *out,
                      const struct hw_callsites *cs, const struct hw_function *fn,
                      const struct hw_namer *namer);

#endif
