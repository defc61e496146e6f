/*
 * wire_v10.h - what a client library of protocol version 10 says and understands; never to change
 *
 * Why:     programs that were started with that library run on beside newer recorders. The tests
 *          speak the version from this copy, so that a change of src/wire that such a program would
 *          not survive fails here, and not there.
 * Shapes:  all of src/wire that a client of version 10 reads or writes, by the names it had then
 *          with v10_ in front. tests/unit/wire/frozen_test.c compares it with what src/wire says
 *          today; tests/targets/confined/client_v10.c is a client made of it alone.
 * Source:  src/wire as of version 10
 */
#ifndef HW_TESTS_FROZEN_WIRE_V10_H
#define HW_TESTS_FROZEN_WIRE_V10_H

#include <stdint.h>

#define V10_VERSION 10u

/* ---- handshake ---- */

#define V10_HELLO_MAGIC   0x316c6c6568777768u
#define V10_WELCOME_MAGIC 0x31636c6577777768u
#define V10_WELCOME_FDS   3 /* control page, ring, tables */

#define V10_HELLO_STARTUP  1u
#define V10_HELLO_BLOCKING 2u
#define V10_HELLO_ATTACHED 4u
#define V10_HELLO_FORKED   8u
#define V10_HELLO_HELD     16u
#define V10_HELLO_BARE     32u

#define V10_ARCH_X86_64 1u
#define V10_ARCH_ARM64  2u
#define V10_ARCH_X86    3u

struct v10_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t arch;
    uint32_t flags;
    uint32_t page_size;
    int32_t pid_inside;
    uint32_t tables_kib;
    uint64_t main_stack_hi;
    uint64_t allocator_base;
};
_Static_assert(sizeof(struct v10_hello) == 48, "frozen");

#define V10_WELCOME_NO      0u
#define V10_WELCOME_WAIT    1u
#define V10_WELCOME_PROFILE 2u

#define V10_CC_BLOCK                 1u
#define V10_CC_DISABLE_FORK_TEARDOWN 2u
#define V10_CC_FOLLOW_FORK           4u
#define V10_CC_STRIP_ENV             8u
#define V10_CC_ALL_HEAPS             16u
#define V10_CC_STREAM                32u
#define V10_CC_MALLOC_INFO           64u
#define V10_CC_ADDRESSES             128u
#define V10_CC_NATIVE_ONLY           256u
#define V10_CC_TYPES                 512u
#define V10_CC_SLICES                1024u

#define V10_STACKS_NATIVE  0u
#define V10_STACKS_THREADS 1u
#define V10_STACKS_PSEUDO  2u
#define V10_STACKS_MIXED   3u

struct v10_heap_choice {
    uint64_t interval_bytes;
    char name[64];
};

struct v10_client_config {
    uint32_t flags;
    uint32_t n_heaps;
    uint64_t default_interval_bytes;
    uint64_t block_timeout_us;
    uint64_t adaptive_threshold_bytes;
    uint64_t adaptive_max_interval_bytes;
    uint64_t seed;
    uint32_t max_frames;
    uint32_t stack_mode;
    uint32_t max_samples_per_second;
    uint32_t reserved;
    struct v10_heap_choice heaps[64];
    char scopes[256];
};

struct v10_welcome {
    uint64_t magic;
    uint32_t version;
    uint32_t status;
    uint32_t generation;
    uint32_t reserved;
    uint64_t now_ns;
    struct v10_client_config config;
};
_Static_assert(sizeof(struct v10_welcome) == 4960, "frozen");

/* ---- control page ---- */

#define V10_CONTROL_MAGIC 0x316c727463777768u
#define V10_CONTROL_BYTES 4096u

#define V10_SANDBOX_NONE   0u
#define V10_SANDBOX_FILTER 1u
#define V10_SANDBOX_STRICT 2u

struct v10_control_page {
    _Atomic uint32_t generation;
    _Atomic uint32_t maps_wanted;
    _Atomic uint64_t heartbeat;
    _Atomic uint32_t ended;
    _Atomic uint32_t malloc_info_wanted;
    uint64_t magic;
    uint32_t version;
    _Atomic uint32_t sandbox;
    char socket_path[108];
    _Atomic uint32_t java_end_wanted;
    _Atomic uint64_t java_lo, java_hi;
    char java_library[512];
    struct {
        _Atomic uint64_t eval_lo, eval_hi;
        _Atomic uint64_t cold_lo, cold_hi;
        _Atomic uint64_t runtime;
        _Atomic uint64_t code_type;
        _Atomic uint32_t minor;
        uint32_t reserved;
    } python;
    _Atomic uint32_t doublings;
    uint32_t filters;
    uint8_t pad[4096 - 680 - 64];
};
_Static_assert(sizeof(struct v10_control_page) == V10_CONTROL_BYTES, "frozen");

/* ---- tables: only that there are some; a client may do without ---- */

#define V10_TABLES_MAGIC  0x31726964757768u
#define V10_TABLES_BYTES  (256ull * 1024 * 1024)
#define V10_TABLE_VERSION 1u

struct v10_tables_dir {
    uint64_t magic;
    uint32_t version;
    uint32_t arch;
    _Atomic uint64_t snapshot_off;
    _Atomic uint32_t closes_seen;
    uint32_t reserved;
    _Atomic uint64_t used;
};

struct v10_module {
    uint64_t lo, hi;
    uint64_t bias;
    uint64_t table_off;
    uint32_t flags;
    uint32_t file;
};

struct v10_module_snapshot {
    uint32_t generation;
    uint32_t n_modules;
    struct v10_module modules[];
};

/* ---- ring ---- */

#define V10_RING_MAGIC     0x31676e6972777768u
#define V10_RING_FIRST_POS 4096u
#define V10_RING_WRITERS   32u
#define V10_SLICE_SLOTS    1024u
#define V10_SLICE_BATCH    124u

#define V10_CLIENT_HIT_TIMEOUT          1u
#define V10_CLIENT_INVALID_STACK_BOUNDS 2u
#define V10_CLIENT_RECORDER_GONE        3u
#define V10_CLIENT_NO_MEMORY            4u
#define V10_CLIENT_LOCKED_OUT           5u

struct v10_ring_counters {
    _Atomic uint64_t samples, lost_full, lost_no_slot, lost_nested, lost_free, missed_free;
    _Atomic uint64_t copy_fallback, copy_limited, truncated, blocked_us, blocked;
    _Atomic uint64_t adopted_frames, walked_frames, lost_slices, no_slab, python_unclear;
    _Atomic uint64_t managed_asked, managed_none, managed_not_asked, managed_anchor;
    _Atomic uint64_t managed_collecting, managed_unwalkable, managed_otherwise, managed_copied;
    _Atomic uint64_t managed_unnamed;
};

struct v10_ring_intent {
    _Atomic uint64_t word;
    uint8_t pad[56];
};

struct v10_ring_shm {
    uint64_t magic;
    uint32_t version;
    uint32_t slots_bytes;
    uint64_t data_bytes;
    _Atomic uint32_t client_error;
    _Atomic uint32_t closes_begun;
    _Atomic uint32_t closes_ended;
    uint32_t pad;
    _Atomic uint64_t target_behind_ns;
    uint8_t pad0[16];
    _Atomic uint64_t write_pos;
    uint8_t pad1[56];
    _Atomic uint64_t read_pos;
    uint8_t pad2[56];
    struct v10_ring_counters counters;
    _Alignas(64) struct v10_ring_intent intents[V10_RING_WRITERS];
};

/* Every record begins with mark, type, length in 8 bytes and the low 32 bits of position / 8. */
static inline uint64_t v10_rec_head(uint64_t pos, uint32_t size_bytes, uint32_t type)
{
    return (uint64_t)0xA5 << 56 | (uint64_t)type << 48 | (uint64_t)(size_bytes / 8) << 32 |
           (uint32_t)(pos / 8);
}

/* The same while it is being written, by this thread. */
static inline uint64_t v10_rec_open(uint64_t pos, uint32_t size_bytes, uint32_t tid)
{
    return (uint64_t)0xA4 << 56 | (uint64_t)(size_bytes / 8) << 42 | (uint64_t)tid << 20 |
           (uint32_t)((pos / 8 * 0x9e3779b97f4a7c15u) >> 44);
}

/* And what it is about to reserve. */
static inline uint64_t v10_intent(uint64_t pos, uint32_t size_bytes, uint32_t tid)
{
    return (uint64_t)(size_bytes / 8) << 50 | (uint64_t)tid << 28 | (pos / 8 & ((1u << 28) - 1));
}

/* ---- records ---- */

#define V10_REC_ALLOC      1u
#define V10_REC_FREE       2u
#define V10_REC_STACK      3u
#define V10_REC_ALLOC_COPY 4u
#define V10_REC_HEAP       5u
#define V10_REC_MAPS       6u
#define V10_REC_PAD        7u
#define V10_REC_MINFO      8u
#define V10_REC_EXACT      9u
#define V10_REC_FAILED     10u
#define V10_REC_MIXED      11u
#define V10_REC_NAME       12u
#define V10_REC_SLICES     13u

#define V10_ALLOC_TRUNCATED       1u
#define V10_ALLOC_REALLOC         2u
#define V10_ALLOC_APP_SAMPLED     4u
#define V10_ALLOC_DOUBLINGS_SHIFT 8

#define V10_HEAP_ID_LIBC 1u

#define V10_MANAGED_JAVA   1u
#define V10_MANAGED_PYTHON 2u
#define V10_MANAGED_SCOPE  3u
#define V10_MANAGED_TYPE   4u
#define V10_MANAGED_SLICE  5u
#define V10_MANAGED_THREAD 6u

struct v10_rec_alloc {
    uint64_t head;
    uint64_t address;
    uint64_t alloc_size;
    uint64_t sample_size;
    uint64_t stack_id;
    uint64_t time_ns;
    uint32_t heap_id;
    uint32_t flags;
};

struct v10_rec_exact {
    uint64_t head;
    uint64_t stack_id;
    uint64_t time_ns;
    uint64_t size_heap; /* size | heap << 48 */
};

struct v10_rec_free {
    uint64_t head;
    uint64_t sample_id; /* position of the allocation's record */
    uint64_t time_ns;
};

/* Then pc[n_frames], leaf first; the bits of the exact ones; in MIXED those of the managed ones. */
struct v10_rec_stack {
    uint64_t head;
    uint64_t stack_id;
    uint32_t n_frames;
    uint32_t stop;
    uint64_t time_ns;
};

struct v10_rec_name {
    uint64_t head;
    uint64_t id;
    uint32_t line;
    uint16_t n_function;
    uint16_t n_file;
    uint16_t n_module;
    uint16_t reserved0;
    uint32_t reserved1;
};

struct v10_rec_copy {
    struct v10_rec_alloc alloc;
    uint64_t sp;
    uint64_t hi;
    uint32_t n_bytes;
    uint16_t n_regs;
    uint16_t arch;
    uint32_t reason;
    uint32_t closes;
};

struct v10_rec_heap {
    uint64_t head;
    uint32_t heap_id;
    uint32_t reserved;
    uint64_t interval_bytes;
    char name[64];
};

struct v10_rec_failed {
    uint64_t head;
    uint64_t size;
    uint64_t time_ns;
};

struct v10_slice_entry {
    _Alignas(8) uint64_t id;
    uint64_t when;
};

struct v10_slice_slot {
    _Atomic uint32_t n;
    _Atomic uint32_t batch;
    uint32_t tid;
    uint32_t reserved0;
    _Alignas(8) uint64_t ticks;
    uint64_t time_ns;
    uint8_t pad[32];
    struct v10_slice_entry entry[V10_SLICE_BATCH];
};

struct v10_rec_slices {
    uint64_t head;
    uint32_t slot, batch, tid;
    uint32_t reserved0;
    uint64_t ticks, time_ns;
    uint64_t end_ticks, end_time_ns;
};

struct v10_rec_maps {
    uint64_t head;
    uint64_t pc;
};

struct v10_rec_minfo {
    uint64_t head;
    uint64_t time_ns;
    uint64_t arena_bytes, mmap_bytes, in_use_bytes, free_bytes, releasable_bytes;
    uint64_t took_ns;
};

#endif
