/*
 * go_profile.h - the samples that Go's runtime takes of its own allocations, read from outside
 *
 * Why:     each Go program that can write a heap profile samples its allocations all the time. Which
 *          code allocated its memory is there to be read, without a hook and without asking it.
 * Shapes:  a bucket is all samples of one stack and one size: how many were allocated and freed as of the end of the
 *          last garbage collection but one, as runtime.MemProfile has it; before the first collection up to now. Stacks are return
 *          addresses, innermost first.
 *          The list is found among the program's variables: a bucket has the hash of its stack and size, each
 *          is checked against it, and bytes have to be counts times sizes. The list has to end, and to be the
 *          same when it was read.
 * Units:   bytes, addresses of the process.
 * Owns:    its lists.
 * Errors:  HW_ENOMEM. What is not known is a state.
 * Cost:    some 60 words a bucket, read twice, until 100 ms of CPU time are used; at most
 *          HW_GO_BUCKETS_MAX buckets.
 * Threads: pure, but for what it reads of the process.
 * Source:  Go's runtime/mprof.go (bucket, memRecord, stkbucket, MemProfile), the same in 1.19 to 1.23
 */
#ifndef HW_PROC_HEAPS_GO_PROFILE_H
#define HW_PROC_HEAPS_GO_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "proc/smaps.h"

#define HW_GO_BUCKETS_MAX (UINT32_C(1) << 17)
#define HW_GO_DEPTH_MAX   1024u

enum hw_go_profile_state {
    HW_GO_PROFILE_NONE, /* it is no Go program */
    HW_GO_PROFILE_KNOWN,
    HW_GO_PROFILE_OFF, /* it takes no samples: its rate is 0, or nothing in it could write them */
    HW_GO_PROFILE_UNKNOWN, /* its variables were not found */
    HW_GO_PROFILE_CHANGED, /* while it was read, or it does not fit together */
    HW_GO_PROFILE_LIMIT,   /* no CPU time was left, or there are too many */
};

/* What its file tells (elf/go_table.h), at the addresses of the process. */
struct hw_go_places {
    uint64_t table;       /* of functions */
    uint64_t table_bytes; /* of it, or of what follows */
    uint32_t
        data_word; /* behind its address, in the runtime's record of the module: data of functions */
    uint64_t rate;        /* the variable; 0: not known */
    uint64_t rate_before; /* its value in the file: memory that was never written to has that */
};

struct hw_go_bucket {
    uint64_t at;                     /* where it was */
    uint64_t size, allocated, freed; /* of one; how many */
    uint32_t first, n;               /* of pcs */
};

struct hw_go_profile {
    enum hw_go_profile_state state;
    uint64_t rate;              /* bytes between samples on average; 1: all */
    bool is_before_collections; /* no collection has ended: figures are of now */
    uint64_t text, data;        /* where code begins, and functions' data; 0: not known */
    HW_VEC(struct hw_go_bucket) buckets;
    HW_VEC(uint64_t) pcs;
};

/* s: its mappings, neither named nor summed. */
int hw_go_profile_read(const struct hw_smaps *s, int mem, int pagemap,
                       const struct hw_go_places *at, struct hw_go_profile *out);
void hw_go_profile_done(struct hw_go_profile *p);

#endif
