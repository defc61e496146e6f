/*
 * launch.h - starts the command to profile
 *
 * Why:     the command's pid is needed before it runs (the recorder must know it, the output file
 *          carries it), and a command that cannot be run must be told apart from one that fails.
 * Shapes:  hw_launch_prepare forks a child that waits; hw_launch_go lets it exec. In between the
 *          environment is fixed: LD_PRELOAD with our library first, HEAPWISE_SOCKET,
 *          PERFETTO_HEAPPROFD_BLOCKING_INIT=1, further variables asked for.
 * Owns:    nothing of the caller's; hw_launch_done ends a child that was never let go.
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
    bool background;        /* reads nothing of our terminal, hears no Ctrl-C */
    const sigset_t *mask;   /* the signals blocked when the program starts */
};

struct hw_launch {
    pid_t pid;
    int pidfd;
    int hold; /* our end: a byte lets the child go, then it tells errno of a failed exec */
    char link_dir[32], link[48]; /* made where LD_PRELOAD cannot say a path; "" = none */
};

/* The client library for a program (NULL = any): `wanted`, or beside this binary (../lib, the build
 * directory) or in LIBDIR; for a 32-bit program the one in ../lib32, when there is one. *out is the
 * caller's to free. */
int hw_launch_find_library(const char *wanted, const char *program, char **out,
                           struct hw_error *err);
bool hw_launch_has_library_32(void);
/* The file that execvp would run for this name; the caller frees. NULL = none. */
char *hw_launch_find_program(const char *name);

/* A word of the command that takes LD_PRELOAD away from what it runs: of `env`, or of a shell's
 * text. NULL = none that can be seen. Borrowed. */
const char *hw_launch_replaces_preload(char *const *argv);

int hw_launch_prepare(const struct hw_launch_options *o, const char *socket, struct hw_launch *out,
                      struct hw_error *err);
/* Returns when the program runs or has failed to. */
int hw_launch_go(struct hw_launch *l, struct hw_error *err);
void hw_launch_done(struct hw_launch *l);

#endif
