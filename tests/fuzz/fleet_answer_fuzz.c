/*
 * Any bytes as a store's answers: the first two bytes say how long the answer on times is, the next
 * two the sums, the rest are callstacks. A fifth byte chooses the question.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "fleet/query/fleet_result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int ask(void *ctx, const char *sql, struct hw_strbuf *reply, struct hw_error *err)
{
    struct hw_bytes *parts = ctx;
    const struct hw_bytes *p = strstr(sql, "hash IN")   ? &parts[2]
                               : strstr(sql, "any(ts)") ? &parts[0]
                                                        : &parts[1];
    (void)err;
    hw_strbuf_add(reply, p->p, p->n);
    return reply->failed ? HW_ENOMEM : HW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 5)
        return 0;
    size_t first = hw_load_u16(data), second = hw_load_u16(data + 2), left = n - 5;
    first = first < left ? first : left;
    second = second < left - first ? second : left - first;
    struct hw_bytes parts[3] = {hw_bytes_of(data + 5, first), hw_bytes_of(data + 5 + first, second),
                                hw_bytes_of(data + 5 + first + second, left - first - second)};
    struct hw_fleet_source from = {ask, parts, "store"};
    struct hw_fleet_where w = {.since_s = 1000, .until_s = 5000};
    struct hw_fleet_result a = {0};
    struct hw_fleet_hosts h;
    struct hw_fleet_words words;
    switch (data[4] % 5) {
    case 0:
        (void)hw_fleet_get(&from, &w, HW_METRIC_SPACE, &a, NULL); /* any answer is one */
        break;
    case 1:
        (void)hw_fleet_get(&from, &w, HW_METRIC_ALLOC_SPACE, &a, NULL);
        break;
    case 2:
        (void)hw_fleet_get_steps(&from, &w, 100, &a, NULL);
        break;
    case 3:
        if (hw_fleet_get_hosts(&from, &w, HW_METRIC_OBJECTS, &h, NULL) == HW_OK)
            hw_fleet_hosts_done(&h);
        break;
    default:
        if (hw_fleet_get_label_values(&from, &w, "pod", &words, NULL) == HW_OK)
            hw_fleet_words_done(&words);
    }
    hw_fleet_result_done(&a);
    return 0;
}
