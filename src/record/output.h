/*
 * output.h - the trace file of a recording, from its temporary to its final name
 *
 * Why:     a recording is readable at any time but has its final name only when it is complete, and
 *          never replaces another file unasked.
 * Shapes:  written as NAME.part, renamed at the end. The default name is heap.COMMAND.PID.trace,
 *          after the program that was really profiled. "-" goes through an unlinked file, copied to
 *          standard output at the end; so does a pipe or a device. When that copy fails, the trace
 *          is saved under its default name, here or in TMPDIR.
 * Errors:  HW_ESYS, HW_EEXIST (the file exists and force is off), HW_EINVAL ("-" on a terminal, a
 *          directory, a socket). hw_output_open finds what can be known before the recording.
 */
#ifndef HW_RECORD_OUTPUT_H
#define HW_RECORD_OUTPUT_H

#include <stdbool.h>

struct hw_error;

struct hw_output {
    int fd;             /* O_RDWR; owned */
    char *part;         /* NULL: unlinked or written in place */
    char *final_name;   /* what the user gave, or the default; NULL for "-" */
    const char *suffix; /* of default names; borrowed */
    bool named, force, to_stdout;
    bool rescued; /* it could not be written as requested; final_name is elsewhere */
};

#define HW_OUTPUT_NONE ((struct hw_output){.fd = -1})

/* Can a file be written there? For files written long after their command starts. */
int hw_output_check(const char *path, struct hw_error *err);
/* path NULL: the default name from command and pid. */
int hw_output_open(const char *path, const char *command, int pid, bool force,
                   struct hw_output *out, struct hw_error *err);
/* The same for a file of another kind: suffix as in ".trace". */
int hw_output_open_as(const char *suffix, const char *path, const char *command, int pid,
                      bool force, struct hw_output *out, struct hw_error *err);
/* Is a signal pending that ends us? Blocked ones do not end a wait by themselves. */
bool hw_output_stop_requested(void);
/*
 * Gives the file its name; command and pid: the program really profiled, for a default name. On
 * error the trace is not lost: err says where it is; with `rescued`, that is final_name.
 */
int hw_output_finish(struct hw_output *o, const char *command, int pid, struct hw_error *err);
/* Removes the unfinished file (nothing was recorded). */
void hw_output_discard(struct hw_output *o);
void hw_output_done(struct hw_output *o);

#endif
