/*
 * records.h - what a target writes into its ring, byte by byte
 *
 * Why:     client and daemon are compiled separately (the client also for other architectures) and
 *          share these bytes. Private to this project; wire/version.h says how it may change.
 * Shapes:  every record starts with one 64-bit head, stored last with release order, and is a
 *          multiple of 8 bytes long:
 *
 *              63      56 55    48 47                 32 31                              0
 *             +----------+--------+---------------------+---------------------------------+
 *             | 0xA5     | type   | length in 8 bytes   | low 32 bits of position / 8     |
 *             +----------+--------+---------------------+---------------------------------+
 *
 *          The position makes bytes left from an earlier lap invalid; the mark in the top byte
 *          keeps addresses, sizes and sample ids from looking like a head.
 * Units:   bytes; times are CLOCK_MONOTONIC_COARSE ns; addresses are the target's.
 * Source:  doc/design/ring.md
 */
#ifndef HW_WIRE_RECORDS_H
#define HW_WIRE_RECORDS_H

#include <stdint.h>

#include "wire/version.h"

#define HW_REC_MARK      0xA5u
#define HW_REC_MAX_BYTES (80u * 1024u) /* a copy of 64 KiB of stack, registers, and room */
#define HW_HEAP_NAME_MAX 64u           /* with the NUL */
#define HW_MAX_HEAPS     256u          /* ids 1..255; 0 = none */
#define HW_HEAP_ID_LIBC  1u            /* libc.malloc: always the first one */
/* Mappings, one heap for each kind. Since version 12, and only if HW_CC_MAPPINGS asks for them:
 * then a program's own heaps have lower ids. They are not announced. */
#define HW_HEAP_ID_ANON   253u
#define HW_HEAP_ID_FILE   254u
#define HW_HEAP_ID_SHARED 255u
#define HW_MAX_COPY_BYTES (64u * 1024u)
#define HW_NAME_MAX_BYTES 1024u /* of each text of a managed frame */

enum hw_rec_type {
    HW_REC_NONE = 0,
    HW_REC_ALLOC = 1,      /* struct hw_rec_alloc; its stack is known or sent before */
    HW_REC_FREE = 2,       /* struct hw_rec_free */
    HW_REC_STACK = 3,      /* struct hw_rec_stack + pc[n], leaf first */
    HW_REC_ALLOC_COPY = 4, /* struct hw_rec_copy + registers + stack bytes: the daemon unwinds */
    HW_REC_HEAP = 5,       /* struct hw_rec_heap: a heap's name and interval, or a new interval */
    HW_REC_MAPS = 6,       /* struct hw_rec_maps: the target saw code that no table covers */
    HW_REC_PAD = 7,        /* a record given up after reserving */
    HW_REC_MINFO = 8,      /* struct hw_rec_minfo: the allocator's own figures */
    HW_REC_EXACT = 9,      /* struct hw_rec_exact: an allocation that stands for itself */
    HW_REC_FAILED = 10,    /* struct hw_rec_failed: an allocation that the allocator refused */
    HW_REC_MIXED = 11,     /* struct hw_rec_stack + entries: some of them are managed frames */
    HW_REC_NAME = 12,      /* struct hw_rec_name + texts: the name of a managed frame */
    HW_REC_SLICES = 13,    /* struct hw_rec_slices + entries: scopes that began or ended */
    HW_REC_UNMAP = 14,     /* struct hw_rec_unmap: a range of addresses is given back */
    HW_REC_FORK = 15,      /* struct hw_rec_fork: a child is about to be made */
    HW_REC_TYPE_COUNT
};

static inline uint64_t hw_rec_head(uint64_t pos, uint32_t size_bytes, enum hw_rec_type type)
{
    return (uint64_t)HW_REC_MARK << 56 | (uint64_t)type << 48 | (uint64_t)(size_bytes / 8) << 32 |
           (uint32_t)(pos / 8);
}

/*
 * A record that is being written: its writer, in place of its head.
 *
 *              63      56 55         42 41           20 19                0
 *             +----------+-------------+---------------+------------------+
 *             | 0xA4     | length / 8  | thread        | of the position  |
 *             +----------+-------------+---------------+------------------+
 */
#define HW_REC_OPEN_MARK 0xA4u
#define HW_TID_BITS      22u /* the kernel's limit for pids */
#define HW_REC_LEN_BITS  14u
_Static_assert(HW_REC_MAX_BYTES / 8 < 1u << HW_REC_LEN_BITS, "a length of any record");

/* What is left of a position here: two laps of one place differ. */
static inline uint32_t hw_rec_open_trace(uint64_t pos)
{
    return (uint32_t)((pos / 8 * 0x9e3779b97f4a7c15u) >> 44);
}

static inline uint64_t hw_rec_open(uint64_t pos, uint32_t size_bytes, uint32_t tid)
{
    return (uint64_t)HW_REC_OPEN_MARK << 56 | (uint64_t)(size_bytes / 8) << 42 |
           (uint64_t)tid << 20 | hw_rec_open_trace(pos);
}

/* Size of the record that is being written at pos, and its writer; 0 = there is none. */
static inline uint32_t hw_rec_open_size(uint64_t word, uint64_t pos, uint32_t *tid)
{
    if (word >> 56 != HW_REC_OPEN_MARK || (word & 0xfffff) != hw_rec_open_trace(pos))
        return 0;
    *tid = (uint32_t)(word >> 20) & ((1u << HW_TID_BITS) - 1);
    return (uint32_t)(word >> 42 & ((1u << HW_REC_LEN_BITS) - 1)) * 8;
}

/* Size of the record at pos, 0 when this head is not that of a finished record at pos. */
static inline uint32_t hw_rec_head_size(uint64_t head, uint64_t pos)
{
    if ((uint32_t)head != (uint32_t)(pos / 8) || head >> 56 != HW_REC_MARK)
        return 0;
    return (uint32_t)(head >> 32 & 0xffff) * 8;
}

/* The whole head but the position: what records of one size share. */
static inline uint32_t hw_rec_head_kind(uint32_t size_bytes, enum hw_rec_type type)
{
    return (uint32_t)(hw_rec_head(0, size_bytes, type) >> 32);
}

static inline uint32_t hw_rec_head_type(uint64_t head)
{
    return (uint32_t)(head >> 48 & 0xff);
}

enum hw_alloc_flags {
    HW_ALLOC_TRUNCATED = 1,   /* deeper than the frame limit, or the walk stopped early */
    HW_ALLOC_REALLOC = 2,     /* by realloc; only for statistics */
    HW_ALLOC_APP_SAMPLED = 4, /* AHeapProfile_reportSample: size stands for itself */
    HW_ALLOC_REMAPPED = 8,    /* by mremap: sample_size is the old address, whose heap it has */
    HW_ALLOC_DOUBLED = 16,    /* likewise, and that one is still there */
    /* What a hook cannot know without a system call that the program did not ask for: */
    HW_ALLOC_SHARED_FILE = 32, /* a shared mapping of a file: memory (memfd, tmpfs), or a disk's? */
    HW_ALLOC_SEGMENT = 64,     /* shmat: sample_size is the segment's number, its size is open */
};

/*
 *     31           16 15          8 7       0
 *    +---------------+-------------+---------+
 *    | what it takes | doublings   | flags   |
 *    +---------------+-------------+---------+
 *
 * Doublings: how often the interval was doubled when this sample was drawn. Threads follow a change
 * one by one, so the heap's newest interval (HW_REC_HEAP) is not always the sample's.
 *
 * What it takes: of blocks of libc.malloc; 0 = not told.
 * HW_CC_CHUNKS: 1 + what glibc's chunk has beyond what its size needs, in 8 bytes (of a mapping of
 * its own the pages from its header to its end); above it, of such a mapping, the power of two that
 * it was aligned to, less 11, if that is more than a page.
 * HW_CC_ALIGNED: that power, and whether whole pages were asked for.
 */
#define HW_ALLOC_DOUBLINGS_SHIFT 8
#define HW_MAX_DOUBLINGS         40u
#define HW_ALLOC_TAKES_SHIFT     16
#define HW_ALLOC_MAX_TAKES       0xffffu
#define HW_ALLOC_BEYOND_BITS     11u
#define HW_ALLOC_MAX_BEYOND      ((1u << HW_ALLOC_BEYOND_BITS) - 1)
#define HW_ALLOC_LEAST_POWER     12u /* a page: told as 1 */
#define HW_ALLOC_WHOLE_PAGES     64u /* pvalloc; above the power */

static inline uint32_t hw_alloc_doublings(uint32_t flags)
{
    uint32_t n = flags >> HW_ALLOC_DOUBLINGS_SHIFT & 0xff;
    return n < HW_MAX_DOUBLINGS ? n : HW_MAX_DOUBLINGS;
}

static inline uint32_t hw_alloc_takes(uint32_t flags)
{
    return flags >> HW_ALLOC_TAKES_SHIFT;
}

/* The limit of doubling. */
static inline uint64_t hw_interval_doubled(uint64_t interval_bytes, uint32_t n)
{
    while (n-- && interval_bytes < UINT64_C(1) << 60)
        interval_bytes *= 2;
    return interval_bytes;
}

/* A sampled allocation. Its sample id is the ring position of this record. */
struct hw_rec_alloc {
    uint64_t head;
    uint64_t address;     /* or alloc_id of a custom heap */
    uint64_t alloc_size;  /* bytes asked for */
    uint64_t sample_size; /* bytes this sample stands for */
    uint64_t stack_id;    /* never 0 */
    uint64_t time_ns;
    uint32_t heap_id;
    uint32_t flags; /* enum hw_alloc_flags, and the doublings of its interval */
};
_Static_assert(sizeof(struct hw_rec_alloc) == 56, "ring layout");

/* A short form, for an allocation that stands for its own size: most of what a small interval
 * records. Both sides wait for memory with each line of the ring. */
struct hw_rec_exact {
    uint64_t head;
    uint64_t stack_id;
    uint64_t time_ns;
    uint64_t size_heap; /* hw_exact_pack() */
};
_Static_assert(sizeof(struct hw_rec_exact) == 32, "ring layout");
#define HW_EXACT_SIZE_LIMIT (UINT64_C(1) << 48)
/* Larger ones are told with their addresses: these say whether a block has a mapping of its own. */
#define HW_EXACT_MAX_SIZE ((UINT64_C(128) << 10) - 16)
#define HW_REC_ALLOC_MIN  32u /* no record of an allocation is shorter */

static inline uint64_t hw_exact_pack(uint64_t size, uint32_t heap_id)
{
    return size | (uint64_t)heap_id << 48;
}

struct hw_rec_free {
    uint64_t head;
    uint64_t sample_id; /* position of the allocation's record */
    uint64_t time_ns;
};
_Static_assert(sizeof(struct hw_rec_free) == 24, "ring layout");

/*
 * Mappings are ranges: a record of an allocation (HW_REC_ALLOC, HW_REC_ALLOC_COPY) in one of their
 * heaps says that [address, address + alloc_size) belongs to its stack from now on, whatever was
 * there before. It comes after the call; the next record comes before it.
 */
#define HW_STACK_ID_NOT_WALKED 2u /* too many per second, or no room: a stack that is never sent */

enum hw_unmap_kind {
    HW_UNMAP_RANGE = 0,   /* munmap, or what mremap moves or cuts off */
    HW_UNMAP_SEGMENT = 1, /* shmdt: the mapping that begins there, whatever its size */
    HW_UNMAP_FAILED = 2,  /* of the last one of this range: it still exists */
    HW_UNMAP_KIND_COUNT
};

struct hw_rec_unmap {
    uint64_t head;
    uint64_t address;
    uint64_t n_bytes; /* 0 with SEGMENT */
    uint64_t time_ns;
    uint32_t kind; /* enum hw_unmap_kind */
    uint32_t reserved;
};
_Static_assert(sizeof(struct hw_rec_unmap) == 40, "ring layout");

/* What is mapped just here the child has, too. It says the token in its hello, if it is recorded. */
struct hw_rec_fork {
    uint64_t head;
    uint64_t token; /* never 0; nobody else can guess it */
    uint64_t time_ns;
};
_Static_assert(sizeof(struct hw_rec_fork) == 24, "ring layout");

/* Frames of a stack id, at its first sight or again; a repeat is identical or a collision. */
struct hw_rec_stack {
    uint64_t head;
    uint64_t stack_id;
    uint32_t n_frames;
    /* enum hw_walk_stop of unwind/walk.h: why the walk ended; above it 16 bits of the generation of
     * the snapshot: whose functions stood at these addresses then */
    uint32_t stop;
    /* CLOCK_MONOTONIC, and not the coarse one, which can be 5 ms late: generated code is younger.
     */
    uint64_t time_ns;
    /* uint64_t pc[n_frames]; leaf first; all but the leaf of a signal are return addresses */
    /* then ceil(n_frames/64) words: bit i set = pc[i] is exact, not a return address */
};
_Static_assert(sizeof(struct hw_rec_stack) == 32, "ring layout");

#define HW_STACK_STOP_BITS 16

/*
 * Managed frames: functions that a runtime in the target knows and no ELF file does. A stack that
 * has some (HW_REC_MIXED) is a struct hw_rec_stack with ids among its pcs, and after the words of
 * the exact ones as many words again: bit i set = entry i is an id, not a pc. An id is the client's
 * own choice, with its kind in the top byte; it means one function and line for a whole session.
 */
enum hw_managed_kind {
    HW_MANAGED_NONE = 0,
    HW_MANAGED_JAVA = 1,
    HW_MANAGED_PYTHON = 2,
    HW_MANAGED_SCOPE = 3, /* the program's own words, include/heapwise/marks.h */
    HW_MANAGED_TYPE = 4,  /* the same, of what was allocated; always the leaf */
    /* Not frames, but sent in the same way: */
    HW_MANAGED_SLICE = 5,  /* a scope as a slice: its function is the name, its file the category */
    HW_MANAGED_THREAD = 6, /* a thread's name; the id is its tid */
    HW_MANAGED_RUBY = 7,   /* a frame */
    HW_MANAGED_PHP = 8,    /* a frame */
    HW_MANAGED_KIND_COUNT
};

static inline uint64_t hw_managed_id(enum hw_managed_kind kind, uint64_t hash)
{
    return (uint64_t)kind << 56 | (hash & (UINT64_MAX >> 8));
}

static inline uint32_t hw_managed_kind_of(uint64_t id)
{
    return (uint32_t)(id >> 56);
}

/* The name of an id, before or after the stacks that use it; the first one stays. */
struct hw_rec_name {
    uint64_t head;
    uint64_t id;
    uint32_t line; /* 0 = unknown */
    uint16_t n_function;
    uint16_t n_file;   /* 0 = unknown */
    uint16_t n_module; /* the mapping's name; 0 = the kind's own name */
    uint16_t reserved0;
    uint32_t reserved1;
    /* function, file, module: bytes without NUL, at most HW_NAME_MAX_BYTES each */
};
_Static_assert(sizeof(struct hw_rec_name) == 32, "ring layout");

/* An allocation whose stack could not be walked in the target. */
struct hw_rec_copy {
    struct hw_rec_alloc alloc; /* stack_id 0 */
    uint64_t sp;               /* address of the first stack byte */
    uint64_t hi;               /* end of the stack as far as known */
    uint32_t n_bytes;          /* stack bytes copied from sp on, a multiple of 8 */
    uint16_t n_regs;
    uint16_t arch;   /* enum hw_arch */
    uint32_t reason; /* enum hw_walk_stop: why it was not walked in the target */
    uint32_t closes; /* dlcloses begun before it (ring.h): mappings read earlier do not count */
    /* uint64_t regs[n_regs]; then n_bytes of stack; then perhaps a struct hw_copy_chain */
};
_Static_assert(sizeof(struct hw_rec_copy) == 88, "ring layout");

/*
 * What an interpreter's evaluations on that stack run, innermost first: the i-th evaluation from the leaf has the ids from
 * ends[i - 1] to ends[i]. An evaluation is a frame in one of the two ranges of code. Recorders that do not know it leave it
 * unread.
 */
struct hw_copy_chain {
    uint64_t eval_lo, eval_bytes, cold_lo, cold_bytes;
    uint32_t n_ids, n_parts; /* at most HW_MAX_FRAMES each */
    uint32_t is_cut;         /* there are more than that */
    uint32_t reserved;
    /* uint64_t ids[n_ids]; uint16_t ends[n_parts], and zeros up to a multiple of 8 */
};
_Static_assert(sizeof(struct hw_copy_chain) == 48, "ring layout");

/* A heap announces itself at the session's start or when it is registered; an empty name means
 * that a known heap only changed its interval (adaptive sampling). */
struct hw_rec_heap {
    uint64_t head;
    uint32_t heap_id;
    uint32_t reserved;
    uint64_t interval_bytes; /* 0 = not profiled */
    char name[HW_HEAP_NAME_MAX];
};
_Static_assert(sizeof(struct hw_rec_heap) == 88, "ring layout");

/* At most 100 a second. The records before it say what the heap held then. */
struct hw_rec_failed {
    uint64_t head;
    uint64_t size; /* bytes asked for */
    uint64_t time_ns;
};
_Static_assert(sizeof(struct hw_rec_failed) == 24, "ring layout");

/* A thread's batch, see wire/slice_batch.h. */
struct hw_rec_slices {
    uint64_t head;
    uint32_t slot, batch, tid;
    uint32_t reserved0;
    uint64_t ticks, time_ns; /* when it began */
    uint64_t end_ticks, end_time_ns;
    /* struct hw_slice_entry, at most HW_SLICE_BATCH */
};
_Static_assert(sizeof(struct hw_rec_slices) == 56, "ring layout");

struct hw_rec_maps {
    uint64_t head;
    uint64_t pc; /* an address without a table, 0 = only "something changed" */
};
_Static_assert(sizeof(struct hw_rec_maps) == 16, "ring layout");

/* mallinfo2 of the target, called there on request. */
struct hw_rec_minfo {
    uint64_t head;
    uint64_t time_ns;
    uint64_t arena_bytes, mmap_bytes, in_use_bytes, free_bytes, releasable_bytes;
    uint64_t took_ns;
};
_Static_assert(sizeof(struct hw_rec_minfo) == 64, "ring layout");

#endif
