/*
 * memlog_modes.h - modes of memory internals: which processes are tracked from their start on
 *
 * Why:     the recorder, the command and the page name the same modes, so their words have one
 *          home.
 * Shapes:  a mode is a comma-separated list of words, any of which may select a process. A role is
 *          what a process calls itself ("browser", "renderer", "utility").
 * Owns:    what hw_memlog_parse made; hw_memlog_done frees it, even half-built.
 * Errors:  HW_EINVAL: not a mode; HW_ELIMIT, HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md, "Modes"
 */
#ifndef HW_CONFIG_MEMLOG_MODES_H
#define HW_CONFIG_MEMLOG_MODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"

struct hw_error;

enum hw_memlog_kind { HW_MEMLOG_ALL, HW_MEMLOG_ROLE, HW_MEMLOG_NAME, HW_MEMLOG_CGROUP };

struct hw_memlog_rule {
    enum hw_memlog_kind kind;
    bool sampled; /* one in three of them */
    bool alone;   /* one at a time of each role */
    char *word;   /* owned: role, pattern of the name, path of the group; NULL for all */
};

struct hw_memlog {
    HW_VEC(struct hw_memlog_rule) rules;
};

/* The facts that rules ask for about a process. Texts are borrowed. */
struct hw_memlog_process {
    const char *role;
    const char *argv0;
    const char *cgroup; /* its path, "/" for none */
    uint64_t chance;    /* evenly distributed, the same on every call */
    bool others;        /* another process of this role is tracked */
};

struct hw_memlog_mode {
    const char *name;
    const char *text; /* "enabled for …": the page's message */
};

/* The one-word modes, including "manual"; ends with a NULL name. */
extern const struct hw_memlog_mode hw_memlog_modes[];

/* Adds the rules of another text; "manual" adds none. */
int hw_memlog_parse(struct hw_bytes text, struct hw_memlog *out, struct hw_error *err);
void hw_memlog_done(struct hw_memlog *m);
bool hw_memlog_means(const struct hw_memlog *m, const struct hw_memlog_process *p);
/* Does any rule need it? Otherwise it need not be read. */
bool hw_memlog_needs(const struct hw_memlog *m, enum hw_memlog_kind kind);
/* Does any rule need to know whether another process of that role is tracked? */
bool hw_memlog_needs_others(const struct hw_memlog *m, const char *role);

/*
 * The role of a process: its variable MEMLOG_ROLE, else --type= among its arguments, else browser
 * for a session leader, else utility. Both texts have a NUL after each part; *out is truncated to
 * fit.
 */
void hw_memlog_role(struct hw_bytes environment, struct hw_bytes cmdline, bool leads_session,
                    char out[64]);
/* Is path that group or one below it? */
bool hw_memlog_is_in_group(const char *path, const char *group);
/* The path in the text of /proc/PID/cgroup: of the unified hierarchy, else of the first one. */
void hw_memlog_cgroup(const char *text, char *out, size_t max);

#endif
