/*
 * firefox_tables.h - the tables of a Firefox profile; private to firefox.c and firefox_tables.c
 *
 * Shapes:  a thread of the format is a heap of a process. Its tables hold only what its rows use,
 *          taken from the model's callsites. Strings of a thread (names of functions, files and
 *          libraries) are numbered in order of first use.
 */
#ifndef HW_EXPORT_FIREFOX_TABLES_H
#define HW_EXPORT_FIREFOX_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/json_out.h"
#include "model/profile.h"
#include "views/flame/functions.h"
#include "views/flame/program.h"

struct hw_ff_lib {
    hw_str_id path, build_id;
};

struct hw_ff_stack {
    uint32_t prefix; /* HW_ID_NONE = root */
    uint32_t frame;
};

struct hw_ff_frame {
    uint32_t func, line, depth; /* depth: inlining, 0 = the outermost of an address */
    hw_mapping_id mapping;
    uint64_t rel_pc;
};

struct hw_ff_func {
    uint32_t name, file; /* strings; file HW_ID_NONE = unknown */
    uint32_t resource;   /* HW_ID_NONE = none */
};

struct hw_ff_resource {
    uint32_t lib, name;
};

struct hw_ff_row {
    int64_t ts_ns, bytes;
    uint32_t stack;
};

struct hw_ff_string {
    uint32_t function; /* its name; HW_ID_NONE: the string is text */
    hw_str_id text;
    bool last_part; /* write only the last component of the path */
};

/* A heap of a process. */
struct hw_ff_thread {
    hw_upid upid;
    const struct hw_shown_program *program; /* of the process; borrowed */
    hw_str_id heap;
    bool peaks_only;
    HW_VEC(struct hw_ff_stack) stacks;
    HW_VEC(struct hw_ff_frame) frames;
    HW_VEC(struct hw_ff_func) funcs;
    HW_VEC(struct hw_ff_resource) resources;
    HW_VEC(struct hw_ff_row) rows;
    HW_VEC(struct hw_ff_string) strings;
    struct hw_map64 stack_of;    /* callsite -> its last stack */
    struct hw_map64 frame_of;    /* frame -> its first row; inlined ones follow it */
    struct hw_map64 func_of;     /* by function */
    struct hw_map64 resource_of; /* by lib */
    struct hw_map64 string_of;   /* text, or 1 << 32 | function, or 2 << 32 | path */
};

struct hw_firefox {
    const struct hw_profile *p;
    const struct hw_namer *namer;
    struct hw_functions *fns;
    struct hw_shown_program *programs; /* owned; by upid */
    struct hw_json j;
    HW_VEC(struct hw_ff_lib) libs;
    struct hw_map64 lib_of; /* path << 32 | build id -> index */
    struct hw_map64 lib_at; /* path -> the first lib with it */
};

/* The libraries of the whole profile. */
int hw_ff_add_libs(struct hw_firefox *x);
/* The rows of the thread's dumps, and the tables that they need. */
int hw_ff_add_rows(struct hw_firefox *x, struct hw_ff_thread *t);
void hw_ff_thread_done(struct hw_ff_thread *t);

#endif
