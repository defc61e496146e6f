/*
 * namespace_entry.h - a socket in the namespaces of another process, made by a child
 *
 * Why:     entering a process's namespaces, and its /tmp, means walking paths below its root: it can
 *          hold those directories' locks for as long as it likes. So the reading thread
 *          (code/blocking_reader.h) starts the child and waits for it; if they do not come back they
 *          are left behind, and count for the process's user.
 * Owns:    what is given is the caller's.
 * Errors:  HW_ETIMEOUT, HW_EPERM (it may not be entered), HW_ESYS; err says it in words.
 * Threads: main thread.
 * Source:  doc/design/attach.md, "Other namespaces"
 */
#ifndef HW_DAEMON_REACH_NAMESPACE_ENTRY_H
#define HW_DAEMON_REACH_NAMESPACE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/code/blocking_reader.h"

struct hw_error;
struct hw_pid;

struct hw_namespace_entry {
    const struct hw_pid *pid;
    uint32_t uid;     /* effective, as the recorder sees it */
    bool user, net;   /* which namespaces are entered */
    const char *name; /* abstract, without its first byte; or of a file in /tmp */
    int fd;           /* out: listens */
    int dir;          /* out: of a file, its directory; else -1 */
};
int hw_namespace_enter(struct hw_blocking_reader *l, struct hw_namespace_entry *e,
                       struct hw_error *err);
/* who.dir: the directory in which the name is. */
void hw_namespace_remove(struct hw_blocking_reader *l, struct hw_reading_who who, const char *name);

#endif
