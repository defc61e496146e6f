#include "import/system/mark_events.h"

#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "trace/process_writer.h"

#include "base/banned.h"

int hw_import_mark(struct hw_profile *p, struct hw_bytes event, int64_t ts_ns)
{
    static const char category[] = HW_MARK_CATEGORY;
    struct hw_pb_reader r = hw_pb_read(event);
    struct hw_mark_row row = {.ts_ns = ts_ns};
    struct hw_bytes name = {NULL, 0};
    struct hw_pb_field f;
    bool is_mark = false, is_instant = false;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TrackEvent_type)
            is_instant = f.value == HW_V_TrackEvent_Type_TYPE_INSTANT;
        else if (f.number == HW_F_TrackEvent_categories && f.wire == HW_PB_BYTES)
            is_mark |=
                f.bytes.n == sizeof category - 1 && memcmp(f.bytes.p, category, f.bytes.n) == 0;
        else if (f.number == HW_F_TrackEvent_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
    }
    if (!is_mark || !is_instant || !name.n)
        return HW_OK;
    int rc = hw_profile_str(p, name, &row.name);
    return rc == HW_OK && hw_vec_push(&p->marks, row) < 0 ? HW_ENOMEM : rc;
}
