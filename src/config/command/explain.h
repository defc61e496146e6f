/*
 * explain.h - the codes in brackets behind messages: what each means, and what to do
 *
 * Source:  explain.def, one row a code; a page is a file of doc/guide, perhaps with an anchor.
 */
#ifndef HW_CONFIG_COMMAND_EXPLAIN_H
#define HW_CONFIG_COMMAND_EXPLAIN_H

enum {
#define X(code, meaning, remedy, page) +1
    HW_EXPLAINED_COUNT = 0
#include "config/command/explain.def"
#undef X
};

struct hw_explained {
    const char *code, *meaning, *remedy, *page;
};
extern const struct hw_explained hw_explained[HW_EXPLAINED_COUNT];

/* NULL: no such code. */
const char *hw_explain_remedy(const char *code);
const char *hw_explain_page(const char *code);

#endif
