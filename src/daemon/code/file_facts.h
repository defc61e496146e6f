/*
 * file_facts.h - cached facts about executed files, for the next program that executes them
 *
 * Why:     programs that start all the time execute the same few files, and the build id, load bias
 *          and cache key of each take a dozen system calls.
 * Shapes:  keyed by device, inode, size, mtime and ctime of an open descriptor: permission to open
 *          the file is checked before, each time.
 * Threads: any; a file is read without the lock, which may take for ever (blocking_reader.h).
 */
#ifndef HW_DAEMON_CODE_FILE_FACTS_H
#define HW_DAEMON_CODE_FILE_FACTS_H

#include "daemon/code/modules.h"

struct hw_facts;

int hw_facts_new(struct hw_facts **out);
void hw_facts_free(struct hw_facts *f);

/* As hw_module_facts_read. */
int hw_facts_read(struct hw_facts *f, int fd, struct hw_module_facts *out);

#endif
