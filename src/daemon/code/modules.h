/*
 * modules.h - the files that targets execute: identity, unwind table, names
 *
 * Why:     a thousand targets run the same few libraries: each is opened, compiled and searched for
 *          names once per recorder.
 * Shapes:  one row per file, known by device, inode, size and time of change. Tables and names
 *          arrive later from the workers; interested parties register as the row's waiters.
 * Owns:    rows until hw_modules_done; a descriptor of each file while there are few enough.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_MODULES_H
#define HW_DAEMON_CODE_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "cfi/cfi.h"
#include "daemon/code/worker.h"
#include "elf/elf.h"

enum hw_table_state {
    HW_TABLE_WANTED = 0, /* not asked for yet */
    HW_TABLE_COMPILING,
    HW_TABLE_READY,
    HW_TABLE_NONE /* no unwind data, or not readable */
};

struct hw_module_file {
    uint64_t dev, inode, size, mtime_ns;
    int fd;     /* owned; -1 = closed to save descriptors */
    bool slow;  /* to be closed by another thread */
    char *path; /* owned; as seen first */
    uint8_t build_id[HW_BUILD_ID_MAX];
    uint32_t build_id_len;
    uint64_t load_bias;
    bool is_elf;
    char cache_key[HW_CFI_KEY_MAX]; /* "" = none */
    enum hw_table_state table_state;
    void *table; /* owned; READY */
    size_t table_bytes;
    /* Names: address → pointer into names' arena; 0 = asked for, no name there. */
    struct hw_map64 names;
    struct hw_map64 asked;   /* addresses in a running job or in the list below */
    HW_VEC(uint64_t) wanted; /* for the next job */
    bool names_running;
    bool control_asked, control_known;
    bool interpreters_asked, interpreters_known;
    struct hw_interpreters interpreters;
    bool used;           /* marked before hw_modules_sweep */
    uint64_t control_va; /* of the client's control page; 0 = it has none */
};

struct hw_modules;

typedef void hw_modules_changed(void *ctx, struct hw_module_file *m); /* table or names came */

int hw_modules_new(struct hw_workers *w, int cache_fd, hw_modules_changed *changed, void *ctx,
                   struct hw_modules **out);
void hw_modules_free(struct hw_modules *ms);

/* What its file says about itself. Reading may take as long as the server of its file system
 * likes (blocking_reader.h). */
struct hw_module_facts {
    uint64_t dev, inode, size, mtime_ns;
    bool is_elf, slow;
    uint8_t build_id[HW_BUILD_ID_MAX];
    uint32_t build_id_len;
    uint64_t load_bias;
    char cache_key[HW_CFI_KEY_MAX]; /* "" = none */
};
/* A file for which these are known, in the main thread. */
void hw_modules_close_file(int fd, bool slow);
int hw_module_facts_read(int fd, struct hw_module_facts *out); /* any thread */

/* Row of an open file; takes over the descriptor, also on failure. */
int hw_modules_get(struct hw_modules *ms, int fd, const struct hw_module_facts *facts,
                   const char *path, struct hw_module_file **out);
/* Starts compiling unless that was done before. */
void hw_modules_want_table(struct hw_modules *ms, struct hw_module_file *m);

/* Asks where the client library keeps its control page. */
void hw_modules_want_control(struct hw_modules *ms, struct hw_module_file *m);

/* Asks whether it has an interpreter, of Python or Ruby, and where. */
void hw_modules_want_interpreters(struct hw_modules *ms, struct hw_module_file *m);

/* Name at a link-time address: true and *name (NULL = the file has none), or false: asked for by
 * the next hw_modules_request_names. The names stay valid until hw_modules_free. */
bool hw_module_name(struct hw_modules *ms, struct hw_module_file *m, uint64_t va,
                    const char **name);
/* Sends what hw_module_name could not answer. */
void hw_modules_request_names(struct hw_modules *ms);

/* Closes the files that are not marked as used and drops their tables: both are restored by the
 * next hw_modules_get. Clears the marks. A few open files are kept, marked or not. */
void hw_modules_sweep(struct hw_modules *ms);
/* Nothing names a file or a name any more: forgets them, unless they are few. */
void hw_modules_forget(struct hw_modules *ms);

/* When hw_workers.fd is readable. */
void hw_modules_answers(struct hw_modules *ms);

#endif
