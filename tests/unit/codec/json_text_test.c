/* JSON read in place, against jansson: both accept the same texts and find the same in them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "codec/json_text.h"

/* As jansson would have made it. */
static json_t *object_of(const struct hw_json_value *v)
{
    struct hw_strbuf scratch = {0};
    struct hw_json_cursor c = hw_json_enter(v);
    struct hw_json_value x;
    struct hw_bytes name, text;
    json_t *out = NULL;
    switch (v->type) {
    case HW_JSON_NONE:
        break;
    case HW_JSON_OBJECT:
        out = json_object();
        while (hw_json_next_member(&c, &name, &x)) {
            const struct hw_json_value key = {.type = HW_JSON_STRING, .text = name};
            char key_text[64];
            text = hw_json_value_string(&key, &scratch);
            (void)snprintf(key_text, sizeof key_text, "%.*s", (int)text.n, (const char *)text.p);
            assert_int_equal(json_object_set_new(out, key_text, object_of(&x)), 0);
        }
        break;
    case HW_JSON_LIST:
        out = json_array();
        while (hw_json_next(&c, &x))
            assert_int_equal(json_array_append_new(out, object_of(&x)), 0);
        break;
    case HW_JSON_STRING:
        text = hw_json_value_string(v, &scratch);
        out = json_stringn((const char *)text.p, text.n);
        break;
    case HW_JSON_INTEGER:
        out = json_integer(v->integer);
        break;
    case HW_JSON_REAL:
        out = json_real(hw_json_value_real(v));
        break;
    case HW_JSON_TRUE:
    case HW_JSON_FALSE:
        out = json_boolean(v->type == HW_JSON_TRUE);
        break;
    case HW_JSON_NULL:
        out = json_null();
        break;
    }
    hw_strbuf_done(&scratch);
    return out;
}

/* Every note is the member that it says. */
static void check_notes(const struct hw_json_text *t, uint32_t object, const json_t *want)
{
    struct hw_strbuf scratch = {0};
    for (uint32_t i = t->notes.v[object].first; i; i = t->notes.v[i].next) {
        const struct hw_json_value key = {.type = HW_JSON_STRING, .text = hw_json_text_name(t, i)};
        struct hw_bytes text = hw_json_value_string(&key, &scratch);
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)text.n, (const char *)text.p);
        bool ascii = true;
        for (size_t k = 0; k < text.n; k++)
            ascii &= text.p[k] < 0x80;
        if (!ascii)
            continue; /* names that are asked for are ours */
        uint32_t found = hw_json_text_find(t, object, name);
        struct hw_json_value v = hw_json_text_get(t, found);
        json_t *got = object_of(&v);
        assert_true(json_equal(got, json_object_get(want, name)));
        if (json_is_object(got))
            check_notes(t, found, json_object_get(want, name));
        json_decref(got);
    }
    hw_strbuf_done(&scratch);
}

static bool compare(const char *text, size_t n)
{
    struct hw_json_text t = {0};
    char *exact = malloc(n + !n); /* so that a byte too far is seen */
    memcpy(exact, text, n);
    json_t *want = json_loadb(exact, n, JSON_ALLOW_NUL, NULL);
    int rc = hw_json_text_read(&t, hw_bytes_of(exact, n), 4);
    if (!want != (rc < 0))
        fail_msg("'%.*s': jansson %s it, we %s", (int)n, text, want ? "takes" : "refuses",
                 rc < 0 ? "refuse" : "take");
    if (want) {
        struct hw_json_value v = hw_json_text_get(&t, 0);
        json_t *got = object_of(&v);
        if (!json_equal(got, want))
            fail_msg("'%.*s': not what jansson finds", (int)n, text);
        check_notes(&t, 0, want);
        json_decref(got);
    }
    bool taken = want != NULL;
    json_decref(want);
    hw_json_text_done(&t);
    free(exact);
    return taken;
}

static const char *const texts[] = {
    "{}",
    "[]",
    " [ ] ",
    "{\"a\":1}",
    "[1,2,3]",
    "[1,2,]",
    "[,1]",
    "{\"a\":1,}",
    "{\"a\"}",
    "{a:1}",
    "",
    "1",
    "\"a\"",
    "[01]",
    "[-0]",
    "[-]",
    "[1.]",
    "[.5]",
    "[1.5]",
    "[1e5]",
    "[1E+5]",
    "[1e]",
    "[1e400]",
    "[1e-400]",
    "[0.1e1]",
    "[9223372036854775807]",
    "[9223372036854775808]",
    "[-9223372036854775808]",
    "[-9223372036854775809]",
    "[99999999999999999999]",
    "[123456789012345678]",
    "[1234567890123456789]",
    "[true,false,null]",
    "[tru]",
    "[truefalse]",
    "[nullx]",
    "[NaN]",
    "[true1]",
    "[1 2]",
    "[1]]",
    "[1] x",
    "[[[[[[1]]]]]]",
    "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":[1,{\"f\":2}]}}}}}",
    "{\"a\":[{\"b\":1},{\"b\":[]}],\"c\":{\"d\":{}},\"e\":{}}",
    "[\"\\n\\t\\\\\\/\\\"\\b\\f\\r\"]",
    "[\"\\x\"]",
    "[\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"]",
    "[\"\\ud83d\"]",
    "[\"\\ude00\"]",
    "[\"\\ud83d\\u0041\"]",
    "[\"\\u00\"]",
    "[\"\\u0000\"]",
    "{\"a\\u0000b\":1}",
    "{\"\\u0061\":1,\"a\":2}",
    "{\"a\":1,\"a\":{\"b\":2},\"a\":{\"b\":3,\"b\":4}}",
    "{\"a\":{\"x\":1},\"a\":5}",
    "[\"\x01\"]",
    "[\"\n\"]",
    "[\"\xc3\xa9\"]",
    "[\"\xc3\"]",
    "[\"\xff\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xf4\x90\x80\x80\"]",
    "[\"\xc0\x80\"]",
    "\xef\xbb\xbf[]",
    "[\"",
    "[\"\\",
    "[\"\\u12",
    "{\"",
    "{\"a\":",
    "{\"a\":1",
    "[",
    "{",
    "[1",
    "{\"a\" : 1 , \"b\"\t:\n[ 1 , 2 ]\r}",
    "{\"a\":\"}\",\"b\":[\"]\",\"\\\"\"]}",
    "[\"\x7f\"]",
    "[1,-2,3.25,-4e2]",
};

static void reads_what_jansson_reads(void **state)
{
    (void)state;
    for (size_t i = 0; i < HW_ARRAY_LEN(texts); i++)
        (void)compare(texts[i], strlen(texts[i]));
    assert_false(compare("[\0]", 3));
}

/* Texts with bytes taken out, put in and changed: most are no JSON any more, many still are. */
static void reads_mutations_as_jansson_does(void **state)
{
    static const char bytes[] = "{}[]\",:\\u0 1-+.eE\xc3\xa9\x01tfna/";
    (void)state;
    uint64_t r = 1;
    unsigned n_taken = 0;
    for (unsigned round = 0; round < 200000; round++) {
        char text[256];
        r = hw_hash_u64(r + round);
        const char *from = texts[r % HW_ARRAY_LEN(texts)];
        size_t n = strlen(from);
        memcpy(text, from, n);
        for (unsigned k = 0; k < 1 + (r >> 40) % 3 && n > 1 && n < 200; k++) {
            uint64_t x = hw_hash_u64(r + k);
            size_t at = x % n;
            char c = bytes[(x >> 32) % (sizeof bytes - 1)];
            if (x >> 20 & 1) {
                text[at] = c;
            } else if (x >> 21 & 1) {
                memmove(text + at, text + at + 1, --n - at);
            } else {
                memmove(text + at + 1, text + at, n++ - at);
                text[at] = c;
            }
        }
        n_taken += compare(text, n);
    }
    assert_true(n_taken > 1000);
}

static void depth_has_an_end(void **state)
{
    (void)state;
    for (size_t depth = 2046; depth <= 2050; depth++) {
        for (int full = 0; full < 2; full++) {
            char text[5000];
            size_t n = 0;
            for (size_t i = 0; i < depth; i++)
                text[n++] = '[';
            if (full)
                text[n++] = '1';
            for (size_t i = 0; i < depth; i++)
                text[n++] = ']';
            (void)compare(text, n);
        }
    }
}

HW_TEST_MAIN(cmocka_unit_test(reads_what_jansson_reads),
             cmocka_unit_test(reads_mutations_as_jansson_does), cmocka_unit_test(depth_has_an_end))
