/*
 * scalar.h - the value of a numeric field's bits, by the field's type
 *
 * Shapes: bits as codec/pb.h gives them. A float becomes a double; an enumeration's value gives its
 *         name, or an INT if the schema has no name. Strings, bytes and messages are not scalars;
 *         their bits become a UINT.
 */
#ifndef HW_SCHEMA_SCALAR_H
#define HW_SCHEMA_SCALAR_H

#include <stdint.h>

#include "schema/schema.h"

enum hw_scalar_kind {
    HW_SCALAR_BOOL,
    HW_SCALAR_INT,
    HW_SCALAR_UINT,
    HW_SCALAR_DOUBLE,
    HW_SCALAR_NAME,
    HW_SCALAR_COUNT
};

struct hw_scalar {
    enum hw_scalar_kind kind;
    union {
        int64_t i;
        uint64_t u; /* BOOL, too */
        double d;
        const char *name; /* of the schema */
    };
};

struct hw_scalar hw_scalar_of(const struct hw_schema_field *f, uint64_t bits);

#endif
