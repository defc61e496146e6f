/*
 * entry.h - a unit of data to be sent, which can be stored in a file meanwhile
 *
 * Why:     what cannot be sent today is sent tomorrow, by another process: an entry has everything
 *          needed except the store's address and credentials, which are never written to disk.
 * Shapes:  ClickHouse: rows of samples and of the callstacks they refer to. Others: the body of one
 *          POST, its path and type. The id is a hash of the content: the same profile makes the
 *          same entries. A file is HW_ENTRY_MAGIC and a gzip'ed protobuf message, so damage is
 *          detected.
 * Owns:    its texts and bytes.
 * Errors:  HW_ENOMEM, HW_EFORMAT (not an entry), HW_ELIMIT.
 */
#ifndef HW_FLEET_PUSH_ENTRY_H
#define HW_FLEET_PUSH_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "fleet/store/store.h"

struct hw_error;

#define HW_ENTRY_MAGIC     "hwpush1\n"
#define HW_ENTRY_MAX_BYTES (256u * 1024 * 1024) /* unpacked */

struct hw_entry {
    enum hw_store_form form;
    uint64_t id;
    uint64_t n_rows;             /* samples, or profiles: for messages */
    struct hw_strbuf body;       /* ClickHouse: samples */
    struct hw_strbuf stacks;     /* ClickHouse only */
    size_t n_columns;            /* of samples, the first ones; ClickHouse only */
    struct hw_strbuf path, type; /* the others: "/ingest?…", "application/json" */
};

void hw_entry_done(struct hw_entry *e);
void hw_entry_seal(struct hw_entry *e); /* sets the id */
int hw_entry_pack(const struct hw_entry *e, struct hw_strbuf *out, struct hw_error *err);
/* *e is filled on success only. */
int hw_entry_unpack(struct hw_bytes file, struct hw_entry *e, struct hw_error *err);

#endif
