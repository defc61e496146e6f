#include "record/tracked/tracked_options.h"

#include "base/error.h"
#include "config/command/options.h"
#include "record/record_options.h"
#include "wire/handshake.h"

#include "base/banned.h"

static int read_stacks(const struct hw_opts *o, enum hw_option_id id, uint32_t *out,
                       struct hw_error *err)
{
    *out = hw_stack_mode_of(hw_opt_text(o, id));
    if (*out < HW_STACKS_COUNT)
        return HW_OK;
    return hw_fail(err, HW_EINVAL, 0,
                   "--%s '%s' is not known; native, native-with-thread-names, pseudo or mixed",
                   hw_options[id].name, hw_opt_text(o, id));
}

int hw_tracked_options(const struct hw_opts *o, struct hw_tracked_options *out,
                       struct hw_error *err)
{
    const struct hw_optval *older = &o->v[HW_OPT_ENABLE_HEAP_PROFILING];
    const struct hw_optval *mode = &o->v[HW_OPT_MEMLOG];
    bool by_older = older->set && !o->v[HW_OPT_MEMLOG_STACKS].set;
    *out = (struct hw_tracked_options){.how.rate_bytes = hw_opt_num(o, HW_OPT_MEMLOG_RATE)};
    if (mode->set)
        out->mode = mode->text;
    else if (older->set)
        out->mode = "all";
    return read_stacks(o, by_older ? HW_OPT_ENABLE_HEAP_PROFILING : HW_OPT_MEMLOG_STACKS,
                       &out->how.stack_mode, err);
}
