#include "views/account/rounding.h"

#include <math.h>
#include <stdbool.h>

#include "model/profile.h"
#include "views/time/values.h"

#include "base/banned.h"

#define PAGE      4096.0
#define OWN_PAGES (128.0 * 1024)
#define SLACK     0.01 /* precision of a mean size when all blocks have the same */

static double glibc_block(double size)
{
    if (size >= OWN_PAGES)
        return ceil((size + 16) / PAGE) * PAGE;
    double block = ceil((size + 8) / 16) * 16;
    return block < 32 ? 32 : block;
}

static double class_step(double size)
{
    return size <= 128 ? 16 : exp2(ceil(log2(size)) - 3);
}

static bool is_one_size(double size)
{
    return fabs(size - floor(size + 0.5)) < SLACK;
}

double hw_rounding_of(enum hw_rounding r, double size)
{
    double whole = floor(size + 0.5);
    bool one_size = is_one_size(size);
    if (!(size > 0))
        return 0;
    if (r == HW_ROUNDING_GLIBC && (one_size || size >= OWN_PAGES))
        return glibc_block(whole) - whole;
    if (r == HW_ROUNDING_GLIBC)
        return size < 24 ? 32 - size : 8 + 7.5; /* blocks end anywhere in a step of 16 */
    double step = class_step(size);
    return one_size ? (whole <= 8 ? 8 : ceil(whole / step) * step) - whole : step / 2;
}

double hw_rounding_least(enum hw_rounding r, double size)
{
    if (r == HW_ROUNDING_CLASSES || !(size > 0)) /* the classes are an estimate, too */
        return 0;
    return is_one_size(size) || size < 24 || size >= OWN_PAGES ? hw_rounding_of(r, size) : 8;
}

bool hw_rounding_is_recorded(const struct hw_profile *p, hw_upid upid)
{
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, upid);
    for (size_t i = 0; i < dumps.n; i++)
        if (p->dumps.v[dumps.v[i]].flags & HW_DUMP_KNOWS_ROUNDING)
            return true;
    return false;
}

double hw_rounding_error(const struct hw_value *v, uint64_t interval_bytes)
{
    double x = (double)v->rounding;
    if (x <= 0 || (interval_bytes <= 1 && v->choice <= 0))
        return 0;
    return 2 * sqrt((double)v->variance_rounding + (double)v->choice * x * x);
}
