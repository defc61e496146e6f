/*
 * account_remedies.h - the account's advice: what would give memory back, and how much
 */
#ifndef HW_CLI_ACCOUNT_ACCOUNT_REMEDIES_H
#define HW_CLI_ACCOUNT_ACCOUNT_REMEDIES_H

#include "cli/account/account_rounding.h"
#include "cli/parts/account_pins.h"
#include "views/account/arenas.h"
#include "views/account/remedies.h"

struct hw_account_remedies {
    size_t n;
    struct hw_remedy v[HW_REMEDIES];
    enum hw_block_rule allocator;
    const struct hw_account_pins *pins; /* borrowed, as the other */
    const struct hw_account_rounding *rounding;
    const struct hw_arenas *arenas;
};

void hw_account_remedies_find(const struct hw_memory_parts *m, const struct hw_account_pins *pins,
                              const struct hw_account_rounding *rounding,
                              const struct hw_arenas *arenas, struct hw_account_remedies *out);
void hw_account_remedies_put(const struct hw_account_remedies *a);
/* "remedies": [{"remedy": "malloc_trim", "bytes":, "error_bytes":, "is_most":, "function":, "advice":}, …] */
void hw_account_remedies_json(const struct hw_account_remedies *a, struct hw_json *j);

#endif
