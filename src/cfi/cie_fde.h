/*
 * cie_fde.h - CIEs and FDEs of one .eh_frame or .debug_frame
 *
 * Why:     pass 1 of the table compiler: which record covers which addresses; runs no instructions.
 * Shapes:  sections are bytes in memory with the link-time address of their first byte. FDEs come
 *          out in file order; offsets are into the section.
 * Owns:    the lists; section bytes are borrowed and must outlive them.
 * Errors:  HW_EFORMAT when a length leaves the section (nothing in such a section is trusted),
 *          HW_ELIMIT, HW_ENOMEM.
 * Threads: one owner at a time.
 * Source:  DWARF 5, 6.4; LSB, "Exception Frames"
 */
#ifndef HW_CFI_CIE_FDE_H
#define HW_CFI_CIE_FDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"

struct hw_error;
struct hw_image;

struct hw_cfi_section {
    struct hw_bytes bytes;
    uint64_t va;                 /* of bytes.p[0]; meaningless for .debug_frame */
    bool is_eh;                  /* .eh_frame's dialect */
    bool ends_at_zero;           /* its length is only an upper bound: a zero length ends it */
    const struct hw_image *code; /* whose executable segments FDEs must lie in */
};

/* How a register of the caller is found; only CFA, fp and return address are kept. */
enum hw_cfi_how {
    HW_CFI_SAME = 0, /* not mentioned, or same value */
    HW_CFI_UNDEFINED,
    HW_CFI_AT_CFA, /* at CFA + off */
    HW_CFI_EXPR,   /* address by expression */
    HW_CFI_OTHER   /* value expressions, other registers */
};

struct hw_cfi_reg {
    uint32_t expr, n_expr; /* HW_CFI_EXPR: offset in the section */
    int64_t off;
    enum hw_cfi_how how;
    bool mentioned;
};

struct hw_cfi_state {
    uint64_t cfa_reg;
    int64_t cfa_off;
    uint32_t cfa_expr, n_cfa_expr; /* n > 0: CFA by expression */
    struct hw_cfi_reg fp, ra;
};

struct hw_cfi_cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_reg;
    uint32_t insns, n_insns;
    uint8_t fde_encoding;
    bool has_aug_data, is_signal;
    bool usable;
    struct hw_cfi_state initial;
};

struct hw_cfi_fde {
    uint64_t start, end; /* end: after sorting, cut at the next one's start */
    uint32_t insns, n_insns;
    uint32_t cie;
    uint16_t source; /* which section: index given to hw_cfi_records_add */
    uint16_t reserved;
};

struct hw_cfi_records {
    HW_VEC(struct hw_cfi_cie) cies;
    HW_VEC(struct hw_cfi_fde) fdes;
    uint64_t n_fdes, n_dropped;
    uint32_t machine;
};

/* Appends the section's records; those of other sections stay. */
int hw_cfi_records_add(struct hw_cfi_records *r, const struct hw_cfi_section *s, uint16_t source,
                       struct hw_error *err);
void hw_cfi_records_done(struct hw_cfi_records *r);

/* A cursor that never leaves its bytes: after a failed read `bad` is set and reads give 0. */
struct hw_cfi_cursor {
    const uint8_t *base; /* the section */
    size_t at, end;
    bool bad;
};

static inline uint8_t hw_cfi_u8(struct hw_cfi_cursor *c)
{
    if (c->at >= c->end) {
        c->bad = true;
        return 0;
    }
    return c->base[c->at++];
}

uint64_t hw_cfi_fixed(struct hw_cfi_cursor *c, size_t n); /* little endian, n = 1, 2, 4, 8 */
uint64_t hw_cfi_uleb(struct hw_cfi_cursor *c);
int64_t hw_cfi_sleb(struct hw_cfi_cursor *c);
/* A pointer in a DW_EH_PE encoding; section_va is that of the cursor's base. */
uint64_t hw_cfi_pointer(struct hw_cfi_cursor *c, uint8_t encoding, uint64_t section_va);

#endif
