/* The generated tables against what protoc makes of the same files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "codec/pb.h"
#include "schema/fields.h"
#include "schema/schema.h"

static void fields_are_sorted_and_found(void **state)
{
    (void)state;
    for (size_t i = 0; hw_schema_messages[i]; i++) {
        const struct hw_schema_message *m = hw_schema_messages[i];
        assert_ptr_equal(hw_schema_message_find(m->name), m);
        for (size_t k = 0; k < m->n_fields; k++) {
            const struct hw_schema_field *f = &m->fields[k];
            assert_true(k == 0 || m->fields[k - 1].number < f->number);
            assert_ptr_equal(hw_schema_field_by_number(m, f->number), f);
            assert_ptr_equal(hw_schema_field_by_name(m, hw_bytes_str(f->name)), f);
            assert_int_equal(f->type == HW_T_MESSAGE, f->message != NULL);
            assert_int_equal(f->type == HW_T_ENUM, f->enumeration != NULL);
        }
    }
}

static void extensions_have_two_names(void **state)
{
    (void)state;
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    const struct hw_schema_field *f = hw_schema_field_by_number(m, 56);
    assert_string_equal(f->name, "[com.android.art.tracing.ArtHeapGraphTracePacket.heap_graph]");
    assert_ptr_equal(hw_schema_field_by_name(m, hw_bytes_str("heap_graph")), f);
    m = hw_schema_message_find("ProfilePacket.HeapSample");
    assert_int_equal(hw_schema_field_by_name(m, hw_bytes_str("self_idle"))->number,
                     HW_F_ProfilePacket_HeapSample_self_idle);
    assert_null(hw_schema_field_by_name(m, hw_bytes_str("no_such_field")));
    assert_null(hw_schema_message_find("NoSuchMessage"));
    assert_non_null(hw_schema_message_find("pprof.Mapping"));
}

/* ---- protoc's own view of the files: a FileDescriptorSet, read with the numbers it has ---- */

static const int protoc_type[] = {
    [1] = HW_T_DOUBLE, [2] = HW_T_FLOAT,    [3] = HW_T_INT64,   [4] = HW_T_UINT64,
    [5] = HW_T_INT32,  [6] = HW_T_FIXED64,  [7] = HW_T_FIXED32, [8] = HW_T_BOOL,
    [9] = HW_T_STRING, [11] = HW_T_MESSAGE, [12] = HW_T_BYTES,  [13] = HW_T_UINT32,
    [14] = HW_T_ENUM,  [17] = HW_T_SINT32,  [18] = HW_T_SINT64,
};

static size_t n_checked;

static void check_field(const char *message, struct hw_bytes descriptor)
{
    struct hw_pb_reader r = hw_pb_read(descriptor);
    struct hw_pb_field f;
    struct hw_bytes name = {NULL, 0};
    uint64_t number = 0, label = 0, type = 0;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == 1)
            name = f.bytes;
        else if (f.number == 3)
            number = f.value;
        else if (f.number == 4)
            label = f.value;
        else if (f.number == 5)
            type = f.value;
    }
    const struct hw_schema_message *m = hw_schema_message_find(message);
    assert_non_null(m);
    const struct hw_schema_field *mine = hw_schema_field_by_name(m, name);
    if (!mine)
        fail_msg("%s.%.*s is missing", message, (int)name.n, (const char *)name.p);
    assert_int_equal(mine->number, number);
    assert_int_equal(mine->repeated, label == 3);
    assert_int_equal(mine->type, protoc_type[type]);
    n_checked++;
}

static void check_message(const char *scope, struct hw_bytes descriptor)
{
    struct hw_pb_reader r = hw_pb_read(descriptor);
    struct hw_pb_field f;
    char name[200] = "";
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 1)
            (void)snprintf(name, sizeof name, "%s%.*s", scope, (int)f.bytes.n,
                           (const char *)f.bytes.p);
    r = hw_pb_read(descriptor);
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 2)
            check_field(name, f.bytes);
    (void)snprintf(name + strlen(name), sizeof name - strlen(name), ".");
    r = hw_pb_read(descriptor);
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 3)
            check_message(name, f.bytes);
}

static void check_file(struct hw_bytes descriptor)
{
    struct hw_pb_reader r = hw_pb_read(descriptor);
    struct hw_pb_field f;
    const char *scope = "";
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == 2 && hw_bytes_equal(f.bytes, hw_bytes_str("perftools.profiles")))
            scope = "pprof.";
        else if (f.number == 2 && hw_bytes_equal(f.bytes, hw_bytes_str("com.android.art.tracing")))
            return; /* a message without fields around an extension */
        else if (f.number == 4)
            check_message(scope, f.bytes);
    }
}

static void protoc_agrees(void **state)
{
    (void)state;
    FILE *p = popen("cd " PROTO_DIR " && protoc -I. --descriptor_set_out=/dev/stdout *.proto "
                    "2>/dev/null",
                    "r");
    static uint8_t set[1 << 20];
    assert_non_null(p);
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(set, fread(set, 1, sizeof set, p)));
    struct hw_pb_field f;
    if (pclose(p) != 0) {
        print_message("no protoc: the tables are not checked\n");
        return;
    }
    while (hw_pb_next(&r, &f) == 1)
        check_file(f.bytes);
    assert_true(n_checked > 600);
}

HW_TEST_MAIN(cmocka_unit_test(fields_are_sorted_and_found),
             cmocka_unit_test(extensions_have_two_names), cmocka_unit_test(protoc_agrees))
