/*
 * module_names.h - functions at addresses of a file that a trace names by path and build id
 *
 * Why:     hw_symbolize names the frames of a profile. A dump of memory-infra has only
 *          addresses and paths, often without a build id, and its own rules for where files are.
 * Shapes:  open a module, ask, close. Searched in order: the path as given, the directories (by
 *          base name and in their .build-id), /usr/lib/debug, servers. A file whose build id is
 *          another one's does not count, unless that is asked for. With Breakpad files nothing else
 *          is read.
 * Errors:  HW_ENOTFOUND with the reason as text; HW_ENOMEM, HW_ESYS.
 * Threads: one owner at a time.
 * Source:  doc/formats/memory-infra.md, "Names in place"
 */
#ifndef HW_ENRICH_SYMBOLS_MODULE_NAMES_H
#define HW_ENRICH_SYMBOLS_MODULE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_named_module;
struct hw_module_names;

struct hw_module_names_options {
    const char *const *dirs; /* searched after the path itself; borrowed */
    size_t n_dirs;
    const char *breakpad_dir; /* NULL = ELF files */
    const char *program;      /* llvm-symbolizer or addr2line; NULL = our own reader */
    bool no_system_files;     /* the path itself counts only outside of the system's directories */
    bool no_paths;            /* the path itself does not count at all */
    bool paths_only;          /* neither .build-id trees nor servers */
    bool ignore_build_id;
    bool debuginfod; /* where it is configured */
};

int hw_module_names_new(const struct hw_module_names_options *o, struct hw_module_names **out,
                        struct hw_error *err);
void hw_module_names_free(struct hw_module_names *m); /* NULL is fine */

/* build_id: raw; n = 0: not known. */
int hw_module_open(struct hw_module_names *m, const char *path, struct hw_bytes build_id,
                   struct hw_named_module **out, struct hw_error *err);
void hw_module_close(struct hw_named_module *module); /* NULL is fine */
/* Why functions of it have no names, if it has no symbols; NULL: it has some. */
const char *hw_module_lacks(const struct hw_named_module *module);
/* An executable that is always at the addresses its file says. */
bool hw_module_is_fixed(const struct hw_named_module *module);

/* names: demangled, innermost first; n = 0: unknown. Not 0 stops. */
typedef int (*hw_module_fn)(void *ctx, size_t index, const char *const *names, size_t n);
int hw_module_resolve(struct hw_named_module *module, const uint64_t *ascending, size_t n,
                      hw_module_fn answer, void *ctx, struct hw_error *err);

#endif
