#include "cli/parts/account_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/saturate.h"
#include "base/text/strbuf.h"
#include "config/command/units.h"
#include "views/account/memory_parts.h"

#include "base/banned.h"

void hw_account_line(const struct hw_memory_parts *m, const char *at, size_t width,
                     struct hw_strbuf *out)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0, begin = out->n;
    double scale = 1024;
    while (m->total.rss >= 1024 * scale && unit + 1 < sizeof units / sizeof *units) {
        scale *= 1024;
        unit++;
    }
    hw_strbuf_addf(out, "RSS %.1f %s%s%s =", m->total.rss / scale, units[unit], at ? " at " : "",
                   at ? at : "");
    for (int p = 0, n = 0; p < HW_PART_COUNT; p++) {
        char word[96];
        double v = m->parts[p].rss / scale;
        bool last = p == HW_PART_UNEXPLAINED;
        if (!last && fabs(v) < 0.05)
            continue;
        bool beside = p == HW_PART_LIVE && m->has_objects;
        const char *sign = last ? "(" : v < 0 ? "- " : n ? "+ " : "";
        (void)snprintf(word, sizeof word, "%s%s%s %.1f%s", sign,
                       hw_memory_part_name((enum hw_memory_part)p), beside ? " in malloc" : "",
                       last ? v : fabs(v), last ? ")" : "");
        n++;
        if (out->n - begin + strlen(word) + 1 > width) {
            hw_strbuf_adds(out, "\n   ");
            begin = out->n - 3;
        }
        hw_strbuf_addf(out, " %s", word);
    }
    hw_strbuf_addc(out, '\n');
}

void hw_account_put_what(const struct hw_memory_parts *m, enum hw_memory_part p)
{
    char age[HW_UNIT_MAX];
    bool either = p == HW_PART_OLDER && m->older_or_free;
    printf(": %s", either ? "or free inside the allocator: record from the start, or with "
                            "--malloc-info"
                          : hw_memory_part_what(p));
    int64_t ns = hw_sat_sub(m->ts_ns, m->older_ts_ns);
    if (p == HW_PART_OLDER && m->older_ts_ns && ns >= HW_ACCOUNT_AGE_SHOWN_NS)
        printf(" (malloc_info of %s before)", hw_fmt_clock(age, ns));
}
