/*
 * symbolize.h - functions, files and lines for the frames of a profile
 *
 * Why:     what is recorded is an address in a file; what a person reads is a line of source.
 * Shapes:  frames of mappings with a build id that have no symbol set yet get one, where a file is
 *          found. The same is appended to `packets` as ModuleSymbols packets (a run of Trace bytes,
 *          to be appended to a trace). Addresses in packets are those of the trace; looked up is
 *          what they are in the file's own space, corrected when the trace's load bias is small.
 *          Kernel frames need no build id; their file is that of the kernel's release. Files come
 *          from Breakpad's directories, else from the roots, else, when asked for, from servers. A
 *          function that others were folded into gets HW_FOLDED_MARK behind its name: the address
 *          cannot tell which of them it was. Debug info is read by a process of its own
 *          (line_reader.h): a file that it crashes on, or does not finish, is reported through
 *          `warn`, and its frames get names from the symbol table.
 * Errors:  HW_ENOMEM, HW_ELIMIT; what cannot be found is reported through `missing` and counted.
 * Threads: one owner of the profile. Safe in a program with other threads.
 * Source:  doc/design/symbolization.md
 */
#ifndef HW_ENRICH_SYMBOLS_SYMBOLIZE_H
#define HW_ENRICH_SYMBOLS_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "enrich/binaries.h"

struct hw_error;
struct hw_pb;
struct hw_profile;

struct hw_symbolize_options {
    struct hw_binaries_where where;
    const char *const *breakpad_dirs; /* searched first */
    size_t n_breakpad_dirs;
    const char *llvm_symbolizer; /* a program to ask instead of libdw; NULL = libdw */
    unsigned llvm_limit_ms;      /* its longest silence; 0 = a minute */
    unsigned reader_limit_ms;    /* longest wait for a small file's debug info; 0 = half a minute */
    bool debuginfod;             /* ask the servers of DEBUGINFOD_URLS */
    uint64_t max_file_bytes;     /* larger files are left alone; 0 = no limit */
    uint64_t budget_ns;          /* after that the rest is left; 0 = no limit */
    bool unnamed_only;           /* files without debug info only help frames without a name */
    void (*missing)(void *ctx, const char *path, const char *build_id, const char *other);
    void (*warn)(void *ctx, const char *text);              /* what did not work, and why */
    void (*progress)(void *ctx, size_t done, size_t total); /* frames */
    /* What a server sends: bytes that came, of how many (0 = unknown). */
    void (*fetching)(void *ctx, uint64_t done, uint64_t total);
    bool (*stopped)(void *ctx); /* true = leave the rest */
    void *ctx;
};

struct hw_symbolize_result {
    size_t n_frames; /* inspected */
    size_t n_symbolized;
    size_t n_modules, n_missing;
    size_t n_left;        /* frames that the budget did not reach */
    size_t n_no_build_id; /* frames of files without one */
};

/* packets may be NULL. */
int hw_symbolize(struct hw_profile *p, const struct hw_symbolize_options *o, struct hw_pb *packets,
                 struct hw_symbolize_result *out, struct hw_error *err);

#endif
