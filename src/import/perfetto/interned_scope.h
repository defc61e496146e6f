/*
 * interned_scope.h - shared by the two files that read interned entries
 *
 * Source:  import/perfetto/interned.h
 */
#ifndef HW_IMPORT_PERFETTO_INTERNED_SCOPE_H
#define HW_IMPORT_PERFETTO_INTERNED_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "import/perfetto/interned.h"

struct hw_pb_field;

#define HW_INTERNED_UNRESOLVABLE UINT32_MAX /* of an entry's `resolved` */

struct hw_interned_scope hw_interned_scope_of(const struct hw_interned *in, uint64_t sequence,
                                              uint32_t generation);
/* NULL = undefined. */
struct hw_interned_entry *hw_interned_lookup(const struct hw_interned_scope *s,
                                             enum hw_interned_kind kind, uint64_t iid);
uint64_t hw_interned_iid(struct hw_bytes message); /* 0 = it has none */
/* Is this field of a ProfilePacket an entry of its own tables? */
bool hw_interned_is_legacy(const struct hw_pb_field *f);
int hw_interned_count(struct hw_interned *in, const char *stat); /* of errors */

#endif
