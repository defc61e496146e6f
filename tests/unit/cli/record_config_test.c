/* Options that have a field: the field is in the schema, and reaches the configuration. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/cli.h"
#include "config/config.h"
#include "record/build_config.h"
#include "record/record_options.h"
#include "schema/schema.h"

#include "test.h"

/* Which types of fields an option's value may go to. A word of TEXT may stand for a number. */
static bool may_set(const struct hw_option *def, const struct hw_schema_field *f)
{
    bool is_number = f->type == HW_T_UINT32 || f->type == HW_T_UINT64;
    switch (def->kind) {
    case HW_OK_FLAG:
        return f->type == HW_T_BOOL || is_number; /* --exact: 1 byte */
    case HW_OK_UINT:
    case HW_OK_SIZE:
    case HW_OK_TIME:
        return is_number;
    case HW_OK_TEXT:
        return is_number || f->type == HW_T_STRING;
    case HW_OK_LIST:
    case HW_OK_REPEAT:
        return f->repeated;
    case HW_OK_COUNT:
        break;
    }
    return false;
}

static void test_fields_exist(void **state)
{
    (void)state;
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!def->field || i == HW_OPT_ADD_ATTRIBUTE) /* a list of messages */
            continue;
        const struct hw_schema_field *f = hw_config_field(def->field);
        if (!f)
            fail_msg("--%s: no field '%s'", def->name, def->field);
        if (!may_set(def, f))
            fail_msg("--%s cannot set '%s'", def->name, def->field);
    }
    assert_null(hw_config_field("heapprofd_config.none"));
    assert_null(hw_config_field("heapprofd_config.pid.none"));
    assert_null(hw_config_field(""));
}

/* The text of what `record` with these words would record. */
static void config_text(char **words, int n, struct hw_strbuf *out)
{
    const struct hw_command *cmd = hw_command_find("record");
    char *argv[4] = {(char *)"record"};
    struct hw_opts o;
    struct hw_error err = {0};
    struct hw_strbuf binary = {0};
    for (int i = 0; i < n; i++)
        argv[i + 1] = words[i];
    assert_int_equal(hw_opts_init(&o, cmd, &err), 0);
    int rc = hw_opts_parse(&o, cmd, n + 1, argv, &err);
    struct hw_record_words w = {.opts = &o, .all = hw_opt_flag(&o, HW_OPT_RECORD_ALL)};
    if (rc == 0)
        rc = hw_record_config(&w, &binary, &err);
    if (rc == 0)
        rc = hw_config_binary_to_text(hw_bytes_of(binary.p, binary.n), out, &err);
    if (rc < 0)
        fail_msg("%s: %s", n ? words[0] : "record", err.text);
    hw_strbuf_done(&binary);
    hw_opts_done(&o);
}

static const char *value_of(int id)
{
    switch (hw_options[id].kind) {
    case HW_OK_UINT:
        return "7";
    case HW_OK_SIZE:
        return "65536";
    case HW_OK_TIME:
        return "7s";
    case HW_OK_TEXT:
        return "mixed";
    case HW_OK_LIST:
        return "some";
    case HW_OK_REPEAT:
        return "rss>1M";
    case HW_OK_FLAG:
    case HW_OK_COUNT:
        break;
    }
    return NULL;
}

static void test_options_reach_the_configuration(void **state)
{
    (void)state;
    struct hw_strbuf plain = {0};
    config_text(NULL, 0, &plain);
    assert_non_null(strstr(plain.p, "block_client: true"));
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        struct hw_strbuf name = {0}, text = {0};
        char *value = (char *)value_of(i);
        if (!def->field || !(def->commands & 1ull << HW_CMD_RECORD) ||
            i == HW_OPT_BLOCK_CLIENT) /* the default */
            continue;
        hw_strbuf_addf(&name, "--%s", def->name);
        char *words[] = {name.p, value};
        config_text(words, value ? 2 : 1, &text);
        if (strcmp(text.p, plain.p) == 0)
            fail_msg("%s changes nothing", name.p);
        const char *last = strrchr(def->field, '.');
        bool is_there = strstr(text.p, last ? last + 1 : def->field) != NULL;
        assert_int_equal(is_there, !(def->flags & HW_OF_UNSETS));
        hw_strbuf_done(&name);
        hw_strbuf_done(&text);
    }
    hw_strbuf_done(&plain);
}

static void test_wrong_values(void **state)
{
    (void)state;
    static const uint64_t two[] = {1, 2};
    struct hw_strbuf out = {0};
    struct hw_error err = {0};
    struct hw_config_values v = {0};
    hw_config_set(&v, "heapprofd_config.none", 1);
    assert_int_equal(hw_build_config(&v, &out, &err), HW_ENOTFOUND);
    assert_string_equal(err.text, "no field 'heapprofd_config.none' in TraceConfig");
    hw_config_unset(&v, "heapprofd_config.none");
    hw_config_set_text(&v, "heapprofd_config.pid", "1");
    assert_int_equal(hw_build_config(&v, &out, &err), HW_EINVAL);
    hw_config_set(&v, "heapprofd_config.heaps", 1);
    assert_int_equal(hw_build_config(&v, &out, &err), HW_EINVAL);
    hw_config_unset(&v, "heapprofd_config.heaps");
    hw_config_set_numbers(&v, "heapprofd_config.pid", two, 2);
    assert_int_equal(hw_build_config(&v, &out, &err), 0);
    hw_config_set_numbers(&v, "heapprofd_config.shmem_size_bytes", two, 2);
    assert_int_equal(hw_build_config(&v, &out, &err), HW_EINVAL);
    hw_config_values_done(&v);
    hw_strbuf_done(&out);
}

HW_TEST_MAIN(cmocka_unit_test(test_fields_exist),
             cmocka_unit_test(test_options_reach_the_configuration),
             cmocka_unit_test(test_wrong_values))
