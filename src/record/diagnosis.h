/*
 * diagnosis.h - why a profile came out empty, and whether a process can be profiled at all
 *
 * Why:     an empty profile without a reason is the worst answer a profiler can give. The same
 *          facts decide what `ps` shows before and record says afterwards.
 * Shapes:  one finding = a code of explain.def and a sentence. The first that applies wins.
 */
#ifndef HW_RECORD_DIAGNOSIS_H
#define HW_RECORD_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_cli;
struct hw_pid;
struct hw_recording;

struct hw_finding {
    const char *code; /* NULL = nothing found */
    char text[400];
};

/* Its hooks see nothing, but its memory can be read from outside, and that says who allocates: a Go program. */
bool hw_diagnose_is_readable(const struct hw_finding *f);

/*
 * From the program's file: static, set-uid, another architecture, AddressSanitizer, Go, its own
 * allocator. loads: only what prevents loading the library; else also what hides allocations from
 * it.
 */
void hw_diagnose_file(const char *path, bool loads, struct hw_finding *out);
/* A program of 32 bits (i386) on this 64-bit machine, or a script for one? */
bool hw_diagnose_is_32_bit(const char *path);
/* Whether this process can be profiled now: code NULL = yes. */
void hw_diagnose_pid(int32_t pid, struct hw_finding *out);
/* Is the client library mapped there? */
bool hw_diagnose_has_library(const struct hw_pid *p);
/* Why the recording has no sample. program: the command's file, NULL = none was started. */
void hw_diagnose_recording(const struct hw_recording *r, const char *program,
                           struct hw_finding *out);
/*
 * Why none of these processes was profiled: the first with a reason, else that none exists.
 * no_running: processes already running were excluded.
 */
void hw_diagnose_wanted(const uint64_t *pids, size_t n_pids, char *const *names, size_t n_names,
                        bool no_running, struct hw_finding *out);
/* HW_EXIT_UNSUPPORTED: not permitted, or not a program that can be profiled; else HW_EXIT_FAILED. */
int hw_diagnose_exit(const struct hw_finding *f);
/* Prints it as a message with its code and the remedy as a hint. */
void hw_diagnose_print(const struct hw_cli *cli, const struct hw_finding *f);

#endif
