/*
 * rows.h - call-frame instructions -> rows of compact rules
 *
 * Why:     pass 2 of the table compiler: runs an FDE's instructions and projects each state to
 *          one struct hw_rule. Registers other than CFA, fp and return address are ignored.
 * Shapes:  a rule is handled as its 8 raw bytes; rows come in ascending order of address.
 * Errors:  an unknown instruction or a broken operand makes the rest of the FDE UNSUP; only the
 *          sink's error (out of memory) is passed on.
 * Threads: any, no shared state.
 */
#ifndef HW_CFI_ROWS_H
#define HW_CFI_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/table.h"

struct hw_cfi_section;
struct hw_cfi_cie;
struct hw_cfi_fde;

static inline uint64_t hw_rule_bits(struct hw_rule r)
{
    union {
        struct hw_rule r;
        uint64_t bits;
    } u = {.r = r};
    return u.bits;
}

static inline struct hw_rule hw_rule_of_bits(uint64_t bits)
{
    union {
        uint64_t bits;
        struct hw_rule r;
    } u = {.bits = bits};
    return u.r;
}

/* Takes rows in order; the rule is in force from va on. HW_OK or HW_ENOMEM. */
typedef int hw_cfi_sink(void *arg, uint64_t va, uint64_t rule_bits);

/* Runs the CIE's own instructions once and keeps the state in it. false: not usable. */
bool hw_cfi_run_initial(const struct hw_cfi_section *s, uint32_t machine, struct hw_cfi_cie *cie);

int hw_cfi_run_fde(const struct hw_cfi_section *s, uint32_t machine, const struct hw_cfi_cie *cie,
                   const struct hw_cfi_fde *fde, hw_cfi_sink *sink, void *arg);

#endif
