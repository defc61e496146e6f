#include "base/error.h"
#include "export/export.h"

#include "base/banned.h"

struct hw_value hw_export_value(const struct hw_export_input *in, const struct hw_value *v)
{
    struct hw_value r = *v;
    if (in->raw_counts) {
        r.objects = v->samples;
        r.alloc_objects = v->alloc_samples;
    }
    return r;
}

int hw_export_finish(FILE *out, struct hw_error *err)
{
    if (fflush(out) != 0 || ferror(out))
        return hw_fail_sys(err, "cannot write the output");
    return HW_OK;
}
