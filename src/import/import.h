/*
 * import.h - input formats: one file per format, one line in importers.c
 *
 * Errors:  HW_EFORMAT with offset when nothing can be read; a damaged part alone is dropped and
 *          counted in the profile's stats.
 */
#ifndef HW_IMPORT_IMPORT_H
#define HW_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

struct hw_error;
struct hw_profile;
struct hw_progress;
struct hw_source;

struct hw_importer {
    const char *name;                   /* `--format` value and the word used in messages */
    const char *summary;                /* one line for `help` */
    int (*probe)(struct hw_bytes head); /* 0 = no, 100 = its magic is there */
    int (*read)(struct hw_bytes file, struct hw_profile *into, struct hw_error *err);
    /* The same from a seekable file that need not fit into memory; NULL = read it whole. */
    int (*read_fd)(int fd, struct hw_profile *into, struct hw_error *err);
    /* The same from a stream, such as a file being unpacked; NULL = read it whole. */
    int (*read_from)(struct hw_source *source, struct hw_profile *into, struct hw_error *err);
};

extern const struct hw_importer *const hw_importers[]; /* NULL-terminated */

/* The importer whose magic is at the head of a file; NULL = none. */
const struct hw_importer *hw_importer_find(struct hw_bytes head);
/* Whether an importer would try this seekable file, packed or not; its position may move. */
bool hw_import_knows(int fd);
/* HW_EISDIR, with what to do instead; for callers that read a trace without importing it. */
int hw_import_refuse_directory(int fd, const char *name, struct hw_error *err);
/* Reads a whole file (packed or not) of any known format into a new, frozen profile. */
int hw_import_file(const char *path, struct hw_profile **out, struct hw_error *err);
/* The same from an open descriptor, which stays the caller's; name is for messages. */
int hw_import_fd(int fd, const char *name, struct hw_profile **out, struct hw_error *err);
/* The same; progress, whose total is the file's size, shows how much has been read. */
int hw_import_fd_with(int fd, const char *name, struct hw_progress *progress,
                      struct hw_profile **out, struct hw_error *err);

#endif
