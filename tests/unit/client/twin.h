/*
 * twin.h - a small recorder: enough of one to check the client against a program's own count
 *
 * Why:     the client's promises (every allocation at interval 1, every free, nothing named before
 *          it is known) are checked record by record, without the daemon between.
 * Shapes:  runs a command under the preload library, answers each handshake with a ring of its own,
 *          books in ring order. Samples are put down to the function of the program that holds the
 *          leaf's return address, which needs no unwinding.
 * Errors:  broken promises are counted in n_broken and described on stderr.
 */
#ifndef HW_TESTS_TWIN_H
#define HW_TESTS_TWIN_H

#include <stddef.h>
#include <stdint.h>

#include "wire/handshake.h"
#include "wire/ring.h"

struct twin_fn {
    char name[64];
    uint64_t lo, hi; /* in the file's address space */
    uint64_t alloc, allocs, freed, freed_objects;
};

struct twin_options {
    const char *library;
    uint64_t interval, ring_bytes, block_timeout_us, seed, adaptive_threshold;
    uint32_t flags;           /* enum hw_client_config_flags */
    unsigned n_sessions;      /* one after another, 0 and 1 = one */
    unsigned session_ms;      /* length of all but the last */
    unsigned stall_ms;        /* do not read for this long after the first handshake */
    unsigned silent_after;    /* handshakes after which heartbeat and reading end; 0 = never */
    unsigned answer_after_ms; /* to all hellos but the first */
    unsigned first_after_ms;  /* to that one */
    uint64_t armed_interval;  /* the program is held at its start and armed; 0 = it asks there */
    uint32_t first_status;    /* enum hw_welcome_status of the first answer */
    unsigned uid;             /* who listens; 0 = who runs the test */
};

struct twin_result {
    int exit_status; /* as waitpid gives it */
    char *out;       /* the program's stdout; owned */
    struct twin_fn *fns;
    size_t n_fns;
    uint64_t n_clients;  /* hellos */
    uint64_t n_armed;    /* of them those who were armed, */
    uint64_t n_startup;  /* and those who begin from the start */
    uint64_t n_answered; /* of them those who heard the answer: who waits, or wrote into the ring */
    uint64_t n_allocs, n_frees, n_stacks, n_copies, n_heaps, n_broken;
    uint64_t alloc_bytes, sample_bytes, live_bytes;
    double objects; /* sum of sample_size / alloc_size */
    uint64_t counters[32];
    uint32_t client_error;
};

int twin_run(const struct twin_options *o, char *const argv[], struct twin_result *out);
void twin_done(struct twin_result *r);
/* Lines "EXPECT fn alloc allocs live objects" of the output against the books: number that differ.
 */
unsigned twin_differences(const struct twin_result *r, unsigned *n_lines);
uint64_t twin_counter(const struct twin_result *r, const char *name);

#endif
