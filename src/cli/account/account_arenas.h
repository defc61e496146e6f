/* account_arenas.h - the account's table of malloc's arenas: what each has in use, free and cached */
#ifndef HW_CLI_ACCOUNT_ACCOUNT_ARENAS_H
#define HW_CLI_ACCOUNT_ACCOUNT_ARENAS_H

#include <stddef.h>

#include "views/account/arenas.h"

struct hw_json;

/* The ones with the most that is not in use first; top 0: all. at_text: when they were read. Nothing, if there are none,
 * or only one that is nearly full. */
void hw_account_arenas_put(const struct hw_arenas *a, const char *at_text, size_t top);
/* "arenas_at_ns":, "arenas": [{"arena":, "main":, "threads":, "system_bytes":, …, "unknown":}, …] */
void hw_account_arenas_json(const struct hw_arenas *a, int64_t at_ns, struct hw_json *j);

#endif
