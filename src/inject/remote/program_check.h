/*
 * program_check.h - may this program be attached to at all?
 *
 * Why:     what /proc and the program's file say is checked first: that takes no time, and gives
 *          the reason in the user's words.
 * Errors:  HW_EGONE, HW_EPERM, HW_EBUSY (traced), HW_EUNSUPPORTED.
 */
#ifndef HW_INJECT_REMOTE_PROGRAM_CHECK_H
#define HW_INJECT_REMOTE_PROGRAM_CHECK_H

#include <stdbool.h>

#include "inject/remote/process_facts.h"

/* The interpreter that it asks for. */
struct hw_checked_program {
    int fd;          /* its file; closed by the caller */
    bool dynamic;    /* it has a loader, */
    char loader[64]; /* of this name, without the folder */
};

/* State, tracer, filters of system calls. */
int hw_check_status(const struct hw_pid *pid, struct hw_proc_status *st, struct hw_error *err);
/* Yama. */
int hw_check_scope(const struct hw_pid *pid, struct hw_error *err);
/* The file: its kind and its loader. */
int hw_check_file(const struct hw_pid *pid, struct hw_checked_program *out, struct hw_error *err);
bool hw_pid_ignores(const struct hw_pid *pid, int signal);

#endif
