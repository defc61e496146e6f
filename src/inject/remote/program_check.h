/*
 * program_check.h - may this program be attached to at all?
 *
 * Why:     what /proc and the program's file tell is looked at first: it takes no time, and says
 *          in the user's words why not.
 * Errors:  HW_EGONE, HW_EPERM, HW_EBUSY (traced), HW_EUNSUPPORTED.
 */
#ifndef HW_INJECT_REMOTE_PROGRAM_CHECK_H
#define HW_INJECT_REMOTE_PROGRAM_CHECK_H

#include <stdbool.h>

#include "inject/remote/process.h"

/* What it asks for at its start. */
struct hw_checked_program {
    int fd;          /* its file; the caller's to close */
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
