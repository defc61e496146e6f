/*
 * functions.h - frames grouped into functions, and what kind of function each is
 *
 * Why:     people think in functions; a callstack has addresses. And the leaf of every stack is an
 *          allocator: the code responsible is somewhere above it.
 * Shapes:  a named function is (raw name, module path, source file where namesakes need it); a
 *          frame without a name is a function of its own (module path, rel_pc). Functions that a
 *          runtime runs always have their file: each Python file has a `<module>`. Native functions
 *          need it when two `static` ones share a name. A header or another included file does not
 *          count, since one function may contain lines of several; neither does an unknown file:
 *          such frames belong to the module's only function of that name, if there is only one.
 *          Ids are dense from 0. The raw name and the module determine the kind
 *          (allocator_frames.c): allocators and their known wrappers (xmalloc, g_malloc0,
 *          sqlite3Realloc, os::malloc in libjvm.so, …) and the profiler's own library; the C
 *          library, the loader and templates of the C++ and Rust standard libraries; the rest. A
 *          callsite's *site* is the function that asked: going up from the leaf, the first that is
 *          none of these (a nameless function called by an allocator of its file is one of them);
 *          else the std function nearest the leaf; else the allocator itself. Below a managed
 *          function (Java, Python, JavaScript) code of its language's runtime counts as std:
 *          the caller of Unsafe.allocateMemory asked for a direct buffer, not libjvm. So does
 *          native code without names, and that of modules that Python imports: tokenize_bytes of
 *          pandas says less than the line of Python that called it. Go's library, in the folder of its
 *          runtime, is std, too. The class that ends the stack of a Java object is not code: it
 *          counts as an allocator.
 * Owns:    its tables; names stay in the profile's strings.
 * Errors:  HW_ENOMEM.
 * Cost:    O(frames + callsites), once.
 * Threads: constant after creation.
 */
#ifndef HW_VIEWS_FLAME_FUNCTIONS_H
#define HW_VIEWS_FLAME_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "model/callsites.h"
#include "model/ids.h"

enum hw_function_kind {
    HW_FUNCTION_PLAIN,
    HW_FUNCTION_STD,       /* std::vector<…>::push_back, fopen, the loader */
    HW_FUNCTION_ALLOCATOR, /* malloc, operator new, wrappers, the profiler's hooks */
    HW_FUNCTION_KIND_COUNT
};

enum hw_function_language {
    HW_FUNCTION_NATIVE,
    HW_FUNCTION_EXTENSION, /* native code of a module that Python imports */
    HW_FUNCTION_RUNTIME,   /* native code of an interpreter or virtual machine */
    HW_FUNCTION_MANAGED,   /* a function that a runtime runs */
};

/* Who a function of Python, JavaScript, Go or the like belongs to, by its file. */
enum hw_function_home {
    HW_HOME_OWN,     /* the program, or there is no file */
    HW_HOME_PACKAGE, /* below site-packages, dist-packages or node_modules */
    HW_HOME_STANDARD /* the interpreter's: lib/python3.11/json, <frozen importlib>, node:fs */
};

struct hw_function {
    hw_str_id name;   /* raw; 0 = unknown */
    hw_str_id module; /* path; 0 = unknown */
    hw_str_id file;   /* source file, where namesakes need it; else 0 */
    uint64_t rel_pc;  /* only when the name is unknown */
    uint8_t kind;     /* enum hw_function_kind */
    uint8_t language; /* enum hw_function_language */
    uint8_t home;     /* enum hw_function_home */
    bool is_namesake; /* another function has its name and module */
};

/* A function with its current line in a frame: where it calls the next one, or where the leaf
 * is. */
struct hw_function_at {
    uint32_t function;
    hw_str_id file; /* 0 = unknown */
    uint32_t line;
};

struct hw_functions;

/* Additional wrapper names, with `*` and `?` as in a shell; NULL is none. */
struct hw_wrappers {
    const char *const *v;
    size_t n;
};

int hw_functions_new(const struct hw_callsites *cs, const struct hw_wrappers *wrappers,
                     struct hw_functions **out);
void hw_functions_free(struct hw_functions *f);
size_t hw_functions_count(const struct hw_functions *f);
const struct hw_function *hw_functions_get(const struct hw_functions *f, uint32_t function);
/* The innermost function of a frame. */
uint32_t hw_functions_of_frame(const struct hw_functions *f, hw_frame_id frame);
/* All functions of a frame, outermost first: more than one when there are inlined ones. *n >= 1. */
const struct hw_function_at *hw_functions_chain(const struct hw_functions *f, hw_frame_id frame,
                                                size_t *n);
/* The function responsible for the allocations at this callsite, and its own callsite. */
uint32_t hw_functions_site(const struct hw_functions *f, hw_callsite_id c);
hw_callsite_id hw_functions_site_callsite(const struct hw_functions *f, hw_callsite_id c);
/* Whether the callsite's own frame is the class of what was allocated there. */
bool hw_functions_is_class(const struct hw_functions *f, hw_callsite_id c);
/* The site with its line, and its position among its frame's functions (1 = the outermost). */
const struct hw_function_at *hw_functions_site_at(const struct hw_functions *f, hw_callsite_id c,
                                                  size_t *depth_in_frame);

enum hw_function_kind hw_function_kind_of(struct hw_bytes raw_name, struct hw_bytes module);
enum hw_function_language hw_function_language_of(struct hw_bytes module);
/* JavaScript by V8's names for a perf map: "JS:^onRequest /srv/app.js:12:5". */
bool hw_function_is_javascript(struct hw_bytes raw_name, struct hw_bytes module);
enum hw_function_home hw_function_home_of(struct hw_bytes raw_name, struct hw_bytes module,
                                          struct hw_bytes file);
/* Whether a source file is compiled by itself; "vector" and "a.h" are included by others. */
bool hw_function_file_is_whole(struct hw_bytes file);
/* Where Go's own library is, as a function of Go's runtime shows it: "/usr/lib/go-1.19/src/" by
 * runtime.main of "/usr/lib/go-1.19/src/runtime/proc.go"; else empty. */
struct hw_bytes hw_function_go_library(struct hw_bytes raw_name, struct hw_bytes file);
bool hw_function_is_wrapper(struct hw_bytes raw_name, const struct hw_wrappers *w);

/* How a name is shown: demanglers are on a higher floor, so the caller passes one. NULL, or if it
 * returns NULL: the raw name. */
struct hw_namer {
    const char *(*shown)(void *ctx, hw_str_id raw);
    void *ctx;
};

/* Adds the shown name; "module+0x1f3" for a function without one, "[unknown]" without a module. */
void hw_function_label(struct hw_strbuf *out, const struct hw_callsites *cs,
                       const struct hw_function *fn, const struct hw_namer *namer);
/* Adds the module's path; nothing when it is unknown. */
void hw_function_module(struct hw_strbuf *out, const struct hw_callsites *cs,
                        const struct hw_function *fn);
/* Adds "dir/file.cc:12", the last two parts of the path; nothing when the file is unknown. */
void hw_function_place(struct hw_strbuf *out, const struct hw_callsites *cs, hw_str_id file,
                       uint32_t line);
/* Where to look for it: the file of a managed function or of one with namesakes; else the
 * module. */
hw_str_id hw_function_where(const struct hw_function *fn);
/* "dir/file.cc", the last two parts of the path. */
struct hw_bytes hw_function_file_shown(const struct hw_callsites *cs, hw_str_id file);
/* The path's last part; empty when unknown. */
struct hw_bytes hw_module_base(const struct hw_callsites *cs, hw_str_id path);

#endif
