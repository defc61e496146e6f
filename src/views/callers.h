/*
 * callers.h - who called the functions that asked for memory
 *
 * Why:     "_sdsnewlen" says little: who called it does. And a row of the program itself needs no
 *          module beside it, which takes knowing which one that is.
 * Shapes:  the way up from a function, nearest caller first, that most of the figure came by: at
 *          each step the caller with the most of what came by the steps before. Only plain code
 *          with a name counts (HW_FUNCTION_PLAIN), each function once; main is no caller.
 * Errors:  HW_ENOMEM.
 * Cost:    find: O(n log n) nodes of the tree.
 * Threads: pure.
 */
#ifndef HW_VIEWS_CALLERS_H
#define HW_VIEWS_CALLERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/strbuf.h"
#include "model/callsites.h"
#include "views/flame.h"
#include "views/functions.h"
#include "views/values.h"

enum { HW_CALLERS_MAX = 3 };

struct hw_profile;
struct hw_callers {
    size_t n;
    uint32_t function[HW_CALLERS_MAX];
    double share[HW_CALLERS_MAX]; /* of the row's figure that came by it and those before */
};

/* One a function, by its id, from a top-down tree: of what it asked for itself in this metric, or
 * of that and of all it called. The caller frees *out. */
enum hw_callers_of { HW_CALLERS_OF_SELF, HW_CALLERS_OF_TOTAL };
int hw_callers_find(const struct hw_callsites *cs, const struct hw_functions *fns,
                    const struct hw_flame *tree, enum hw_metric by, enum hw_callers_of of,
                    struct hw_callers **out);

/* Adds "parse < load": what stands behind a function's own name. NULL as namer: raw names. */
void hw_callers_text(struct hw_strbuf *out, const struct hw_callers *c,
                     const struct hw_callsites *cs, const struct hw_functions *fns,
                     const struct hw_namer *namer);

/* The module of the program itself: where the first function of a callstack through the C
 * library's start stands; else the one with the process's name. 0 = not known. */
hw_str_id hw_program_module(const struct hw_callsites *cs, const hw_values *values,
                            struct hw_bytes process_name);

/* The program by the name it was started with: its file may have another (redis-server is a link
 * to redis-check-rdb). */
struct hw_shown_program {
    hw_str_id module;
    struct hw_bytes name; /* last part of the process's name; borrowed */
};

/* What the process was started as; empty: not known, or no such process. */
struct hw_bytes hw_process_name(const struct hw_profile *p, hw_upid upid);
struct hw_shown_program hw_program_find(const struct hw_callsites *cs, const hw_values *values,
                                        struct hw_bytes process_name);
/* What is shown as the module of a frame in this file. NULL as program: the file. */
struct hw_bytes hw_program_module_shown(const struct hw_shown_program *program,
                                        const struct hw_callsites *cs, hw_str_id path);
/* hw_function_label; a nameless frame of the program by the program's name. */
void hw_program_label(const struct hw_shown_program *program, struct hw_strbuf *out,
                      const struct hw_callsites *cs, const struct hw_function *fn,
                      const struct hw_namer *namer);

#endif
