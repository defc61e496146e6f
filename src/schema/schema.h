/*
 * schema.h - names, numbers and types of the messages we read or write
 *
 * Why:     field numbers are defined only in proto/. A generator (tools/gen-proto) turns its files
 *          into the tables declared here and into "schema/fields.h" (#define
 *          HW_F_<Message>_<field> N, HW_V_<Enum>_<VALUE> N, dots as '_'); the text parser and
 *          all printers use the tables, readers and writers use the numbers.
 * Shapes:  messages by full name without the package ("TraceConfig", "ProfilePacket.HeapSample";
 *          pprof's with the prefix "pprof."); fields sorted by number. An extension field is named
 *          "[package.field]" and also found by its plain last name.
 * Threads: constant data.
 */
#ifndef HW_SCHEMA_SCHEMA_H
#define HW_SCHEMA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum hw_schema_type {
    HW_T_BOOL,
    HW_T_INT32,
    HW_T_INT64,
    HW_T_UINT32,
    HW_T_UINT64,
    HW_T_SINT32,
    HW_T_SINT64,
    HW_T_FIXED32,
    HW_T_FIXED64,
    HW_T_FLOAT,
    HW_T_DOUBLE,
    HW_T_STRING,
    HW_T_BYTES,
    HW_T_ENUM,
    HW_T_MESSAGE,
    HW_T_COUNT
};

struct hw_schema_value {
    const char *name;
    int32_t number;
};

struct hw_schema_enum {
    const char *name;
    const struct hw_schema_value *values;
    size_t n_values;
};

struct hw_schema_message;

struct hw_schema_field {
    const char *name; /* extensions: the full name in brackets, "[com.android.….heap_graph]" */
    uint32_t number;
    uint8_t type; /* enum hw_schema_type */
    bool repeated, packed;
    const struct hw_schema_message *message;  /* HW_T_MESSAGE */
    const struct hw_schema_enum *enumeration; /* HW_T_ENUM */
};

struct hw_schema_message {
    const char *name;
    const struct hw_schema_field *fields;
    size_t n_fields;
};

extern const struct hw_schema_message *const hw_schema_messages[]; /* NULL-terminated */

const struct hw_schema_message *hw_schema_message_find(const char *name);
const struct hw_schema_field *hw_schema_field_by_number(const struct hw_schema_message *m,
                                                        uint32_t number);
const struct hw_schema_field *hw_schema_field_by_name(const struct hw_schema_message *m,
                                                      struct hw_bytes name);
const struct hw_schema_value *hw_schema_value_by_number(const struct hw_schema_enum *e, int32_t n);
const struct hw_schema_value *hw_schema_value_by_name(const struct hw_schema_enum *e,
                                                      struct hw_bytes name);

/* How one value of the field is written: enum hw_pb_wire. Packed ones are in HW_PB_BYTES. */
uint32_t hw_schema_wire(const struct hw_schema_field *f);

#endif
