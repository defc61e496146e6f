#include "schema/schema.h"

#include <string.h>

#include "base/memory/lower_bound.h"
#include "codec/pb.h"

#include "base/banned.h"

const struct hw_schema_message *hw_schema_message_find(const char *name)
{
    for (size_t i = 0; hw_schema_messages[i]; i++)
        if (strcmp(hw_schema_messages[i]->name, name) == 0)
            return hw_schema_messages[i];
    return NULL;
}

const struct hw_schema_field *hw_schema_field_by_number(const struct hw_schema_message *m,
                                                        uint32_t number)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, m->n_fields, m->fields[mid].number < number);
    return lo < m->n_fields && m->fields[lo].number == number ? &m->fields[lo] : NULL;
}

/* "[a.b.c]" -> "c"; other names as they are. */
static struct hw_bytes plain_name(const char *name)
{
    struct hw_bytes n = hw_bytes_str(name);
    if (n.n == 0 || n.p[0] != '[')
        return n;
    size_t start = n.n - 1;
    while (start > 1 && n.p[start - 1] != '.')
        start--;
    return hw_bytes_of(n.p + start, n.n - 1 - start);
}

const struct hw_schema_field *hw_schema_field_by_name(const struct hw_schema_message *m,
                                                      struct hw_bytes name)
{
    for (size_t i = 0; i < m->n_fields; i++)
        if (hw_bytes_equal(hw_bytes_str(m->fields[i].name), name))
            return &m->fields[i];
    for (size_t i = 0; i < m->n_fields; i++)
        if (hw_bytes_equal(plain_name(m->fields[i].name), name))
            return &m->fields[i];
    return NULL;
}

const struct hw_schema_value *hw_schema_value_by_number(const struct hw_schema_enum *e, int32_t n)
{
    for (size_t i = 0; i < e->n_values; i++)
        if (e->values[i].number == n)
            return &e->values[i];
    return NULL;
}

const struct hw_schema_value *hw_schema_value_by_name(const struct hw_schema_enum *e,
                                                      struct hw_bytes name)
{
    for (size_t i = 0; i < e->n_values; i++)
        if (hw_bytes_equal(hw_bytes_str(e->values[i].name), name))
            return &e->values[i];
    return NULL;
}

uint32_t hw_schema_wire(const struct hw_schema_field *f)
{
    switch ((enum hw_schema_type)f->type) {
    case HW_T_DOUBLE:
    case HW_T_FIXED64:
        return HW_PB_FIXED64;
    case HW_T_FLOAT:
    case HW_T_FIXED32:
        return HW_PB_FIXED32;
    case HW_T_STRING:
    case HW_T_BYTES:
    case HW_T_MESSAGE:
        return HW_PB_BYTES;
    case HW_T_BOOL:
    case HW_T_INT32:
    case HW_T_INT64:
    case HW_T_UINT32:
    case HW_T_UINT64:
    case HW_T_SINT32:
    case HW_T_SINT64:
    case HW_T_ENUM:
    case HW_T_COUNT:
        break;
    }
    return HW_PB_VARINT;
}
