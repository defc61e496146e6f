/*
 * launch.h - starts the command to profile
 *
 * Why:     the command's pid is needed before it runs (the recorder must know it, the output file
 *          carries it), and a command that cannot be run must be told apart from one that fails.
 * Shapes:  hw_launch_prepare forks a child that waits; hw_launch_go lets it exec. Its environment
 *          has LD_PRELOAD with our library first, HEAPWISE_SOCKET,
 *          PERFETTO_HEAPPROFD_BLOCKING_INIT=1, and further requested variables.
 * Owns:    nothing of the caller's; hw_launch_done kills a child that was never released.
 * Errors:  HW_ENOTFOUND (no such command), HW_EPERM (not runnable), HW_ESYS.
 */
#ifndef HW_RECORD_LAUNCH_H
#define HW_RECORD_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hw_error;

struct hw_launch_options {
    char *const *argv;      /* NULL-terminated */
    const char *library;    /* to preload */
    bool python_allocators; /* PYTHONMALLOC=malloc */
    bool stdout_to_stderr;  /* our standard output carries the trace */
    bool background;        /* no input from our terminal, no Ctrl-C */
    const sigset_t *mask;   /* the signals blocked when the program starts */
};

struct hw_launch {
    pid_t pid;
    int pidfd;
    int hold; /* our end: a byte releases the child, which then reports errno of a failed exec */
    char link_dir[32], link[48]; /* made if LD_PRELOAD cannot express the path; "" = none */
};

/*
 * The client library for a program (NULL = any): `wanted`, or relative to this binary (../lib, the
 * build directory) or in LIBDIR; for a 32-bit program the one in ../lib32, if there is one. The
 * caller frees *out.
 */
int hw_launch_find_library(const char *wanted, const char *program, char **out,
                           struct hw_error *err);
bool hw_launch_has_library_32(void);
/* The file that execvp would run for this name; the caller frees. NULL = none. */
char *hw_launch_find_program(const char *name);

/*
 * The word of the command (of `env`, or a shell script) that removes LD_PRELOAD from what it runs.
 * NULL = none visible. Borrowed.
 */
const char *hw_launch_replaces_preload(char *const *argv);

int hw_launch_prepare(const struct hw_launch_options *o, const char *socket, struct hw_launch *out,
                      struct hw_error *err);
/* Returns once the program runs or has failed to start. */
int hw_launch_go(struct hw_launch *l, struct hw_error *err);
void hw_launch_done(struct hw_launch *l);

#endif
