/*
 * access.h - may a user inspect a process? The kernel's ptrace checks, on behalf of another user
 *
 * Why:     a recorder must not lend its rights to less privileged users. The kernel's answer to the
 *          recorder is not its answer to the user, so the same checks are made here.
 * Shapes:  all of these, or CAP_SYS_PTRACE over the process:
 *              its user and group ids (real, effective, saved, of files) are the asker's
 *              it has no capability that the asker lacks, and is in the asker's user namespace
 *              it is dumpable: it has not got other rights at its exec or since, its file may be
 *              read, it did not ask to be left alone (PR_SET_DUMPABLE)
 *              it was not started with other rights than its starter's (AT_SECURE)
 *          The creator of a user namespace has all rights over what belongs to it, not over what
 *          has only entered it.
 * Errors:  HW_EPERM with the reason; HW_EGONE. What cannot be found out is not permitted.
 * Source:  ptrace(2), "Ptrace access mode checking"; user_namespaces(7)
 */
#ifndef HW_PROC_RIGHTS_ACCESS_H
#define HW_PROC_RIGHTS_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_proc_status;

/* Who asks. */
struct hw_requester {
    uint32_t uid, gid;
    uint64_t capabilities; /* effective; of a user other than root they are not believed: 0 */
    uint64_t user_ns;      /* its inode; 0 = not known: nothing is permitted */
};

void hw_requester_self(struct hw_requester *out);
/* At the other end of a connected socket, as of when it was connected. */
int hw_requester_peer(int socket, struct hw_requester *out, int32_t *pid);

/* dir: /proc/PID or that of a thread. */
int hw_access_check(const struct hw_requester *who, int32_t pid, int dir,
                    const struct hw_proc_status *st, struct hw_error *err);

#endif
