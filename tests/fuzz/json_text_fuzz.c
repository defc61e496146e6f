/* Any bytes as a JSON text: taken exactly when jansson takes it, and then walked to its last value.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/text/strbuf.h"
#include "codec/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* By members and by items alike; the deepest of 2048 levels is reached by going down each time. */
static size_t walk(const struct hw_json_value *v, struct hw_strbuf *scratch, unsigned depth)
{
    static const char *const names[] = {"id", "name_sid"};
    struct hw_json_cursor c = hw_json_enter(v);
    struct hw_json_value x, found[2];
    struct hw_bytes name;
    size_t seen = 1 + hw_json_value_string(v, scratch).n + (hw_json_value_real(v) > 0);
    hw_json_members(v, names, 2, found);
    if (depth == 0)
        return seen;
    if (v->type == HW_JSON_OBJECT)
        while (hw_json_next_member(&c, &name, &x))
            seen += name.n + walk(&x, scratch, depth - 1);
    else
        while (hw_json_next(&c, &x))
            seen += walk(&x, scratch, depth - 1);
    return seen;
}

/* Numbers that are too long are refused by us only, and jansson passes over a NUL behind a number.
 */
static bool may_differ(const uint8_t *data, size_t n)
{
    size_t run = 0;
    for (size_t i = 0; i < n; i++) {
        run = data[i] >= '0' && data[i] <= '9' ? run + 1 : 0;
        if (run > 400 || data[i] == 0)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_json_text t = {0};
    struct hw_strbuf scratch = {0};
    int rc = hw_json_text_read(&t, hw_bytes_of(data, n), 6);
    json_t *twin = json_loadb((const char *)data, n, JSON_ALLOW_NUL, NULL);
    if (!twin != (rc < 0) && !may_differ(data, n))
        abort();
    if (rc == 0) {
        struct hw_json_value v = hw_json_text_get(&t, 0);
        (void)walk(&v, &scratch, 20);
        for (uint32_t i = 1; i < t.notes.n; i++) {
            struct hw_json_value x = hw_json_text_get(&t, i);
            (void)hw_json_value_string(&x, &scratch);
            (void)hw_json_text_find(&t, i, "maps");
        }
    }
    json_decref(twin);
    hw_strbuf_done(&scratch);
    hw_json_text_done(&t);
    return 0;
}
