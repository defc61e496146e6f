/*
 * table.h - compact unwind tables: their bytes, and the directory that tells a walker which to use
 *
 * Why:     one representation, compiled from call-frame information once per build id (cfi/), read
 *          by the client inside the target and by the daemon over stack copies.
 * Shapes:  table file, little endian, position independent:
 *            header (128 bytes) | chunk_index u32[n_chunks + 1] | row_lo u16[n_rows] |
 *            row_rule u16[n_rows] | rules 8 bytes [n_rules]
 *          Each 64 KiB chunk of link-time addresses begins with a row at its first byte (a
 *          synthetic one that repeats the rule in force, if needed). Tables memory file of a
 *          target: struct hw_tables_dir, then tables and module snapshots, appended, never moved;
 *          the newest snapshot is published by a release store.
 * Units:   *_va are link-time addresses of the ELF file; pc are the target's; cfa_off and the other
 *          offsets of rules in words of the machine (w below): 4 bytes on i386, else 8.
 * Threads: immutable once published.
 * Errors:  hw_table_check alone validates a table's bytes; everything after it trusts them.
 */
#ifndef HW_UNWIND_TABLE_H
#define HW_UNWIND_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HW_TABLE_MAGIC      0x31626174757768u /* "hwutab1" */
#define HW_TABLE_VERSION    1u
#define HW_TABLE_CHUNK_BITS 16

enum hw_rule_kind {
    HW_RULE_NONE = 0,     /* not covered: frame-pointer step */
    HW_RULE_SP = 1,       /* CFA = sp + w*cfa_off */
    HW_RULE_FP = 2,       /* CFA = fp + w*cfa_off */
    HW_RULE_FP_DEREF = 3, /* CFA = load(fp + w*(i16)cfa_off) */
    HW_RULE_SP_DEREF = 4, /* CFA = load(sp + w*low12) + w*high4 */
    HW_RULE_PLT = 5,      /* CFA = sp + w + ((pc & 15) >= cfa_off ? w : 0) */
    HW_RULE_SIGNAL = 6,   /* registers from the saved context at sp; i386: sp of it at w*cfa_off */
    HW_RULE_END = 7,      /* outermost frame */
    HW_RULE_REG = 8,      /* CFA from another register: copy fallback */
    HW_RULE_UNSUP = 9,    /* not expressible: copy fallback */
    HW_RULE_KIND_COUNT
};

enum hw_rule_fp_kind {
    HW_RULE_FP_SAME = 0,
    HW_RULE_FP_AT_CFA = 1, /* fp = load(CFA + w*fp_off) */
    HW_RULE_FP_AT_FP = 2,  /* fp = load(fp + w*fp_off) */
    HW_RULE_FP_UNSUP = 3,
    HW_RULE_FP_KIND_COUNT
};

struct hw_rule {
    uint8_t kind;    /* enum hw_rule_kind */
    uint8_t fp_kind; /* enum hw_rule_fp_kind */
    int16_t fp_off;
    int16_t ra_off; /* return address at CFA + w*ra_off; x86: -1; arm64: 0 = still in lr */
    uint16_t cfa_off;
};
_Static_assert(sizeof(struct hw_rule) == 8, "table layout");

struct hw_table_header {
    uint64_t magic;
    uint32_t version;
    uint32_t arch; /* enum hw_arch */
    uint32_t flags;
    uint32_t build_id_len; /* 0..32 */
    uint8_t build_id[32];
    uint64_t lo_va, hi_va; /* covered link-time addresses */
    uint32_t first_chunk;  /* lo_va >> 16 */
    uint32_t n_chunks;
    uint32_t n_rows;
    uint32_t n_rules;
    uint32_t chunk_index_off, row_lo_off, row_rule_off,
        rules_off; /* from the header's first byte */
    uint32_t compiler_version;
    uint32_t checksum; /* over everything behind the header */
    uint64_t total_bytes;
    uint64_t reserved;
};
_Static_assert(sizeof(struct hw_table_header) == 128, "table layout");

/* Checks magic, version, bounds and every index of a whole table. HW_OK or HW_EFORMAT. O(rows). */
int hw_table_check(const void *table, size_t n_bytes);
uint32_t hw_table_checksum(const void *p, size_t n);

/* Rule in force at a link-time address; NONE outside. The table passed hw_table_check. O(log rows).
 */
struct hw_rule hw_table_lookup(const struct hw_table_header *t, uint64_t va);

/* ---- directory of one target ---- */

#define HW_TABLES_MAGIC 0x31726964757768u /* "hwudir1" */
#define HW_TABLES_BYTES (256ull * 1024 * 1024)

enum hw_module_flags {
    HW_MODULE_NO_TABLE = 1, /* known code without unwind data: frame pointers */
    HW_MODULE_PENDING = 2   /* table is being compiled: copy fallback, no further notice */
};

struct hw_module {
    uint64_t lo, hi;    /* executable range in the target */
    uint64_t bias;      /* pc - bias = link-time address */
    uint64_t table_off; /* in the tables file; 0 = none */
    uint32_t flags;     /* enum hw_module_flags */
    uint32_t file;      /* the recorder's own: tells the files behind the same addresses apart */
};
_Static_assert(sizeof(struct hw_module) == 40, "directory layout");

struct hw_module_snapshot {
    uint32_t generation; /* grows when code was replaced: cached rules are invalid */
    uint32_t n_modules;
    struct hw_module modules[]; /* sorted by lo, disjoint */
};

struct hw_tables_dir {
    uint64_t magic;
    uint32_t version;
    uint32_t arch;
    _Atomic uint64_t snapshot_off; /* of the newest hw_module_snapshot; 0 = none yet */
    /* The newest snapshot shows what was mapped when so many dlcloses of the target (ring.h)
     * were over and none was running. */
    _Atomic uint32_t closes_seen;
    uint32_t reserved;
    /* End of everything that the newest snapshot names in the part that the target maps, which
     * need not map more; stored before snapshot_off. 0 = from an older recorder, which does not
     * say. */
    _Atomic uint64_t used;
    uint8_t pad[4096 - 40];
};
_Static_assert(sizeof(struct hw_tables_dir) == 4096, "directory layout");

/* The newest snapshot, or NULL. Acquire pairs with the daemon's release after appending it. */
static inline const struct hw_module_snapshot *hw_tables_snapshot(const void *tables)
{
    const struct hw_tables_dir *d = (const struct hw_tables_dir *)tables;
    uint64_t off = atomic_load_explicit(&d->snapshot_off, memory_order_acquire);
    return off ? (const struct hw_module_snapshot *)((const char *)tables + off) : NULL;
}

/* The same if n_bytes are mapped: NULL also if it does not lie in them entirely. */
static inline const struct hw_module_snapshot *hw_tables_snapshot_in(const void *tables,
                                                                     uint64_t n_bytes)
{
    const struct hw_tables_dir *d = (const struct hw_tables_dir *)tables;
    uint64_t off = atomic_load_explicit(&d->snapshot_off, memory_order_acquire);
    if (off == 0 || off >= n_bytes || n_bytes - off < sizeof(struct hw_module_snapshot))
        return NULL;
    const struct hw_module_snapshot *s =
        (const struct hw_module_snapshot *)((const char *)tables + off);
    return s->n_modules <= (n_bytes - off - sizeof *s) / sizeof s->modules[0] ? s : NULL;
}

/* Module that holds pc, or NULL. O(log modules). */
const struct hw_module *hw_module_find(const struct hw_module_snapshot *s, uint64_t pc);

#endif
