/*
 * check_ids.h - definitions of ids and references to them
 *
 * Shapes:  a table per kind of id. Definitions and references may come in any order; at the end
 *          undefined ids are reported, in the order of first reference.
 */
#ifndef HW_TRACE_CHECK_CHECK_IDS_H
#define HW_TRACE_CHECK_CHECK_IDS_H

#include "trace/check/checker.h"

void hw_check_table_done(struct hw_check_table *t);
/* NULL = neither defined nor referred to. */
struct hw_check_entry *hw_check_table_find(const struct hw_check_table *t, uint64_t id);
/* *out: the entry, NULL if it was defined before. Another meaning (another hash) is reported and
 * ignored. */
int hw_check_define(struct hw_checker *c, struct hw_check_table *t, const char *what, uint64_t id,
                    uint64_t hash, struct hw_check_entry **out);
int hw_check_refer(struct hw_checker *c, struct hw_check_table *t, uint64_t id);
/* Adds to the ids of the entry that was defined last. */
int hw_check_entry_id(struct hw_check_table *t, struct hw_check_entry *e, uint64_t id);
void hw_check_table_end(struct hw_checker *c, const struct hw_check_table *t,
                        enum hw_check_rule rule, const char *what, uint64_t sequence);

/* An entry's id (field 1), and a hash of its other fields; 0 = none. */
uint64_t hw_check_entry_hash(struct hw_bytes message, uint64_t *id);

/* ---- interned data ---- */

const char *hw_check_kind_name(enum hw_check_kind kind);
/* Entries of an InternedData message. */
int hw_check_intern(struct hw_checker *c, struct hw_check_interned *in, struct hw_bytes message);
/* One of its entries. */
int hw_check_intern_entry(struct hw_checker *c, struct hw_check_interned *in,
                          enum hw_check_kind kind, struct hw_bytes message);
/* A reference in the current packet; iid 0 = none. */
int hw_check_refer_interned(struct hw_checker *c, struct hw_check_sequence *s,
                            enum hw_check_kind kind, uint64_t iid);
/* Reports undefined ids. */
void hw_check_interned_end(struct hw_checker *c, const struct hw_check_interned *in,
                           uint64_t sequence);
void hw_check_interned_free(struct hw_check_interned *in);
/* A hash of what other readers identify a callstack by; 0 = undefined. */
uint64_t hw_check_callstack_identity(struct hw_check_interned *in, uint64_t iid);

#endif
