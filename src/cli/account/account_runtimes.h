/* account_runtimes.h - what runtimes say of their heaps: lines below the account's managed heaps */
#ifndef HW_CLI_ACCOUNT_ACCOUNT_RUNTIMES_H
#define HW_CLI_ACCOUNT_ACCOUNT_RUNTIMES_H

#include <stddef.h>

#include "model/profile.h"
#include "views/account/memory_parts.h"

struct hw_json;

struct hw_account_runtimes {
    const struct hw_profile *p;
    hw_upid upid;
    const struct hw_memory_parts *parts; /* of the reading that it is about */
};

/* Each line behind so many spaces. */
void hw_account_runtimes_put(const struct hw_account_runtimes *r, size_t indent);
/* "managed": [{"name":, "used_bytes":, "committed_bytes":, "max_bytes":}, …], "managed_unknown": */
void hw_account_runtimes_json(const struct hw_account_runtimes *r, struct hw_json *j);

#endif
