/*
 * Events of phase B, E and X: what threads did. An event without a time, a thread or (unless it is
 * an E) a name is counted and skipped.
 */
#include <string.h>

#include "base/error.h"
#include "import/memory_infra/memory_infra_parts.h"

#include "base/banned.h"

static bool nanoseconds(const json_t *us, int64_t *out)
{
    double d = json_number_value(us);
    if (!json_is_number(us) || !(d > -9e15 && d < 9e15))
        return false;
    if (json_is_integer(us)) /* a double has too few digits for some clocks */
        *out = json_integer_value(us) * 1000;
    else
        *out = (int64_t)(d * 1000 + (d < 0 ? -0.5 : 0.5));
    return true;
}

static int text_of(struct hw_infra *in, const json_t *event, const char *member, hw_str_id *out)
{
    const json_t *text = json_object_get(event, member);
    *out = (hw_str_id){0};
    return json_is_string(text) ? hw_infra_str(in, text, out) : HW_OK;
}

int hw_infra_slice(struct hw_infra *in, const json_t *event, hw_upid upid, char ph)
{
    const json_t *tid = json_object_get(event, "tid"), *dur = json_object_get(event, "dur");
    struct hw_slice_event e = {.kind = ph == 'B'   ? HW_SLICE_BEGIN
                                       : ph == 'E' ? HW_SLICE_END
                                                   : HW_SLICE_WHOLE};
    uint32_t thread;
    bool ok = nanoseconds(json_object_get(event, "ts"), &e.ts_ns) && json_is_integer(tid) &&
              json_integer_value(tid) >= 0 && json_integer_value(tid) <= INT32_MAX &&
              (ph == 'E' || json_is_string(json_object_get(event, "name"))) &&
              (ph != 'X' || !dur || nanoseconds(dur, &e.dur_ns));
    if (!ok)
        return hw_infra_bad(in, "memory_infra_bad_event");
    int rc = text_of(in, event, "name", &e.name);
    if (rc == HW_OK)
        rc = text_of(in, event, "cat", &e.category);
    if (rc == HW_OK)
        rc = hw_profile_thread(in->p, upid, json_integer_value(tid), (hw_str_id){0}, &thread);
    if (rc == HW_OK)
        rc = hw_slices_thread_track(&in->p->slices, thread, &e.track);
    if (rc == HW_OK)
        rc = hw_slices_add(&in->p->slices, &e);
    hw_infra_time(in, e.ts_ns);
    if (e.dur_ns > 0)
        hw_infra_time(in, e.ts_ns + e.dur_ns);
    return rc;
}
