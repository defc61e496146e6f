/*
 * exec_files.h - what is in the files of starting programs, read where waiting harms nobody
 *
 * Why:     a file's lock is its user's: on XFS, or below an overlay, a read waits for whoever holds
 *          it, for ever and beyond the reach of SIGKILL; a name waits for its directory's. The
 *          answerer keeps the machine's execs waiting, and the finder's tracees stand as long as it
 *          does, so neither reads a file or walks a path. Up to 16 processes do that, which hold
 *          nothing; one that does not come back is left behind, and counts for its user.
 * Shapes:  facts of files by their identity, in the memory that answerer and finder share (a
 *          finder's successor knows them, too). hw_exec_file_find never waits. Names by the root
 *          that they are looked up in; those of the finder only.
 * Owns:    the readers end with the finder.
 * Threads: one writer, the finder.
 * Source:  doc/design/security.md
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_FILES_H
#define HW_DAEMON_EXECWATCH_EXEC_FILES_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/inject_at_exec.h"

#define HW_EXEC_FILES        256u
#define HW_EXEC_FILE_READERS 16u
#define HW_EXEC_LINE         256u

enum hw_exec_file_kind { HW_EXEC_FILE_OTHER, HW_EXEC_FILE_SCRIPT, HW_EXEC_FILE_LOADER };

/* Nothing changes a file without changing one of these. */
struct hw_exec_file_id {
    uint64_t dev, ino, size;
    int64_t changed_s, changed_ns;
};

struct hw_exec_file {
    struct hw_exec_file_id id;
    struct hw_start_file start;
    uint32_t kind;                  /* enum hw_exec_file_kind, by its first bytes */
    char interpreter[HW_EXEC_LINE]; /* of a script */
};

struct hw_exec_files {
    struct hw_exec_file_entry {
        _Atomic uint32_t version; /* odd while it is written; 0 = nothing is there */
        struct hw_exec_file file;
    } v[HW_EXEC_FILES];
};

/* Of an open file, or of a path; asks no server of a file system. -1: errno. */
int hw_exec_file_id_of(int fd, const char *path, struct hw_exec_file_id *out);
bool hw_exec_file_find(const struct hw_exec_files *f, const struct hw_exec_file_id *id,
                       struct hw_exec_file *out);
void hw_exec_file_keep(struct hw_exec_files *f, const struct hw_exec_file *file);
/* What is in these first bytes. */
uint32_t hw_exec_file_kind_of(const char *head, size_t n, char interpreter[HW_EXEC_LINE]);

/* ---- the readers: exec_file_readers.c ---- */

#define HW_EXEC_SIGHTS 64u

struct hw_exec_root {
    uint64_t mount_ns, dev, ino;
    uint64_t interpreter; /* a hash, 0 = none: that file is known then as well */
    uint32_t uid, pad;    /* who looks */
};

struct hw_exec_file_readers {
    struct hw_exec_file_reader {
        int fd; /* -1 = none */
        int32_t pid, tid;
        uint32_t uid;
        uint64_t since_ns;         /* of its question; 0 = it has none */
        uint64_t key;              /* what it is asked */
        struct hw_exec_file_id id; /* of a file */
    } v[HW_EXEC_FILE_READERS];
    struct hw_exec_sight {
        struct hw_exec_root root;
        enum hw_start_sight sight;
        uint64_t until_ns; /* 0 = no entry */
    } sights[HW_EXEC_SIGHTS];
    const char *library;
};

void hw_exec_file_readers_init(struct hw_exec_file_readers *r, const char *library);
void hw_exec_file_readers_begin(struct hw_exec_file_readers *r); /* with this process's priority */
/* HW_OK; HW_EBUSY = it is asked about: soon; HW_ETIMEOUT: the one that is asked does not come back,
 * or this user has no other left. tid: for whose start. */
int hw_exec_file_get(struct hw_exec_file_readers *r, struct hw_exec_files *f, int32_t tid, int fd,
                     struct hw_exec_file *out);
/* The same, of what the process sees of our names, and of the file that interprets a script ("" = it
 * is none): nobody asks about that one once more. dir: its /proc/PID */
int hw_exec_sight_get(struct hw_exec_file_readers *r, int32_t tid, int dir, uint32_t uid,
                      const char *socket, const char *interpreter, enum hw_start_sight *out);
/* Without asking, of a process that stands: HW_OK, or HW_EBUSY = not known. */
int hw_exec_sight_find(const struct hw_exec_file_readers *r, int dir, uint32_t uid,
                       enum hw_start_sight *out);
/* Fills p[0..HW_EXEC_FILE_READERS). */
void hw_exec_file_readers_poll(const struct hw_exec_file_readers *r, struct pollfd *p);
void hw_exec_file_readers_read(struct hw_exec_file_readers *r, struct hw_exec_files *f);

#endif
