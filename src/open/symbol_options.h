/*
 * symbol_options.h - symbols and original names, as the environment and the options of a command
 * ask for
 *
 * Why:     several commands name frames by the same rules and say the same about what is missing.
 * Shapes:  the results go into the profile and, as packets, into `out` (may be NULL).
 *          PERFETTO_BINARY_PATH, PERFETTO_SYMBOLIZER_MODE, BREAKPAD_SYMBOL_DIR, DEBUGINFOD_URLS,
 *          PERFETTO_PROGUARD_MAP; --symbols, --symbolizer.
 */
#ifndef HW_OPEN_SYMBOL_OPTIONS_H
#define HW_OPEN_SYMBOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "enrich/binaries.h"

struct hw_cli;
struct hw_error;
struct hw_pb;
struct hw_profile;

enum hw_symbol_options_flags {
    HW_SYMBOL_OPTIONS_QUIET = 1, /* nothing on standard error */
    HW_SYMBOL_OPTIONS_CHEAP = 2, /* what costs next to nothing: no file above 256 MiB */
    HW_SYMBOL_OPTIONS_AWAY =
        4 /* of a trace of strangers: its modules' own paths are not looked at */
};

/* Where names come from, for a command that says it in its own way. */
struct hw_symbol_options_where {
    struct hw_binaries_where binaries;
    const char *const *breakpad_dirs;
    size_t n_breakpad_dirs;
};

bool hw_symbol_options_symbols_asked(
    const struct hw_cli *cli); /* by the environment or --symbols */
bool hw_symbol_options_map_asked(void);
/* Where the environment and --symbols have files with symbols; borrowed from them. */
struct hw_binaries_where hw_symbol_options_places(const struct hw_cli *cli);
int hw_symbol_options_symbolize(const struct hw_cli *cli, struct hw_profile *p, unsigned flags,
                                struct hw_pb *out, struct hw_error *err);
int hw_symbol_options_symbolize_from(const struct hw_cli *cli, struct hw_profile *p,
                                     const struct hw_symbol_options_where *w, unsigned flags,
                                     struct hw_pb *out, struct hw_error *err);
int hw_symbol_options_deobfuscate(const char *list, struct hw_profile *p, struct hw_pb *out,
                                  struct hw_error *err);
/* For commands that read a trace: as the environment and the options ask; failures are told, and
 * the work goes on. */
void hw_symbol_options_by_environment(const struct hw_cli *cli, struct hw_profile *p);
/* The same, and what it found as packets. flags: HW_SYMBOL_OPTIONS_AWAY or 0. */
void hw_symbol_options_by_environment_to(const struct hw_cli *cli, struct hw_profile *p,
                                         unsigned flags, struct hw_pb *out);

/*
 * Symbols for a trace just recorded: appended to it (out NULL), or written to a file of their own.
 * Done by a process of its own: neither the memory of a whole profile nor a long search may cost
 * the recording. Without a request by the environment only what is here and cheap, and quietly. 1 =
 * written, 0 = nothing to add, < 0 = failed; the trace is as it was then.
 */
int hw_symbol_options_add(const struct hw_cli *cli, const char *trace, const char *out);

#endif
