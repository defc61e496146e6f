#include "schema/scalar.h"

#include <string.h>

#include "codec/pb.h"

#include "base/banned.h"

static struct hw_scalar of_int(int64_t i)
{
    return (struct hw_scalar){.kind = HW_SCALAR_INT, .i = i};
}

static struct hw_scalar of_double(double d)
{
    return (struct hw_scalar){.kind = HW_SCALAR_DOUBLE, .d = d};
}

static struct hw_scalar of_enum(const struct hw_schema_enum *e, int32_t v)
{
    const struct hw_schema_value *named = hw_schema_value_by_number(e, v);
    return named ? (struct hw_scalar){.kind = HW_SCALAR_NAME, .name = named->name} : of_int(v);
}

struct hw_scalar hw_scalar_of(const struct hw_schema_field *f, uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    double d;
    float single;
    switch ((enum hw_schema_type)f->type) {
    case HW_T_BOOL:
        return (struct hw_scalar){.kind = HW_SCALAR_BOOL, .u = bits != 0};
    case HW_T_INT32:
    case HW_T_INT64:
        return of_int((int64_t)bits);
    case HW_T_SINT32:
    case HW_T_SINT64:
        return of_int(hw_pb_zigzag(bits));
    case HW_T_DOUBLE:
        memcpy(&d, &bits, sizeof d);
        return of_double(d);
    case HW_T_FLOAT:
        memcpy(&single, &low, sizeof single);
        return of_double((double)single);
    case HW_T_ENUM:
        return of_enum(f->enumeration, (int32_t)bits);
    case HW_T_UINT32:
    case HW_T_UINT64:
    case HW_T_FIXED32:
    case HW_T_FIXED64:
    case HW_T_STRING:
    case HW_T_BYTES:
    case HW_T_MESSAGE:
    case HW_T_COUNT:
        break;
    }
    return (struct hw_scalar){.kind = HW_SCALAR_UINT, .u = bits};
}
