/* Breakpad files and name maps. */
#include <stdio.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "codec/pb.h"
#include "enrich/proguard.h"
#include "enrich/symbols/breakpad.h"
#include "schema/fields.h"

static const char breakpad_text[] =
    "MODULE Linux x86_64 0102030405 lib.so\r\n"
    "INFO CODE_ID 01\nFILE 0 /src/a.cc\nFILE 1 /src/with blank.h\n"
    "FUNC 1000 40 0 app::work(int, char)\n1000 10 12 0\n1010 30 7 1\n"
    "FUNC m 1100 10 0 folded()\nPUBLIC 2000 0 exported\nPUBLIC m 2100 0 last\n"
    "STACK CFI INIT 1000 40 .cfa: $rsp 8 +\n";

static void breakpad_addresses(void **state)
{
    (void)state;
    struct hw_breakpad *b;
    struct hw_line line;
    assert_int_equal(hw_breakpad_parse(hw_bytes_str(breakpad_text), &b, NULL), 0);
    const struct {
        uint64_t va;
        const char *function, *file;
        uint32_t line;
    } cases[] = {
        {0xfff, NULL, NULL, 0},
        {0x1000, "app::work(int, char)", "/src/a.cc", 12},
        {0x103f, "app::work(int, char)", "/src/with blank.h", 7},
        {0x1040, NULL, NULL, 0},
        {0x110f, "folded()", NULL, 0},
        {0x1110, NULL, NULL, 0},
        {0x20ff, "exported", NULL, 0},
        {0x2100, "last", NULL, 0},
        {0x120ff, "last", NULL, 0},
        {0x12100, NULL, NULL, 0},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        bool found = hw_breakpad_at(b, cases[i].va, &line);
        if (found != (cases[i].function != NULL))
            fail_msg("%#llx: %s", (unsigned long long)cases[i].va, found ? line.function : "none");
        if (!found)
            continue;
        assert_string_equal(line.function, cases[i].function);
        assert_string_equal(line.file ? line.file : "", cases[i].file ? cases[i].file : "");
        assert_int_equal(line.line, cases[i].line);
    }
    hw_breakpad_free(b);
}

static void breakpad_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t line;
    } cases[] = {{"", 1},
                 {"FUNC 1 2 3 f\n", 1},
                 {"MODULE a b c d\n10 1 1 1\n", 2},
                 {"MODULE a b c d\nFUNC x 1 0 f\n", 2},
                 {"MODULE a b c d\nFUNC 1 1 0 f\nnonsense\n", 3}};
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_breakpad *b;
        struct hw_error err = {0};
        assert_int_equal(hw_breakpad_parse(hw_bytes_str(cases[i].text), &b, &err), HW_EFORMAT);
        assert_int_equal(err.offset, cases[i].line);
    }
}

/* The name that a member without lines has in the packets. */
static void name_in(struct hw_bytes trace, const char *class, const char *method, char *out,
                    size_t size)
{
    struct hw_pb_reader r[5] = {hw_pb_read(trace)};
    struct hw_pb_field f[5];
    out[0] = 0;
    while (hw_pb_next(&r[0], &f[0]) == 1)
        for (r[1] = hw_pb_read(f[0].bytes); hw_pb_next(&r[1], &f[1]) == 1;)
            for (r[2] = hw_pb_read(f[1].bytes); hw_pb_next(&r[2], &f[2]) == 1;) {
                bool wanted = false;
                if (f[2].number != HW_F_DeobfuscationMapping_obfuscated_classes)
                    continue;
                for (r[3] = hw_pb_read(f[2].bytes); hw_pb_next(&r[3], &f[3]) == 1;) {
                    if (f[3].number == HW_F_ObfuscatedClass_obfuscated_name)
                        wanted = hw_bytes_equal(f[3].bytes, hw_bytes_str(class));
                    if (!wanted || f[3].number < HW_F_ObfuscatedClass_obfuscated_members)
                        continue;
                    struct hw_bytes names[3] = {{0}};
                    bool lines = false;
                    for (r[4] = hw_pb_read(f[3].bytes); hw_pb_next(&r[4], &f[4]) == 1;)
                        if (f[4].number < 3)
                            names[f[4].number] = f[4].bytes;
                        else
                            lines = true;
                    if (!lines && hw_bytes_equal(names[1], hw_bytes_str(method)))
                        snprintf(out, size, "%.*s", (int)names[2].n, names[2].p);
                }
            }
}

static const char map_text[] = "# compiler: R8\n"
                               "com.example.Cache -> a.b:\n"
                               "    # {\"id\":\"sourceFile\",\"fileName\":\"Cache.java\"}\n"
                               "    int size -> c\r\n"
                               "    com.example.Entry[] entries -> d\n"
                               "    1:3:void insert(int):17:19 -> e\n"
                               "    4:4:void com.example.Other.find(int,long):30:30 -> i\n"
                               "    4:4:void lookup():22 -> i\n"
                               "    void <init>() -> <init>\n"
                               "    java.lang.String put(long) -> f\n"
                               "    java.lang.String get(int[]) -> f\n"
                               "    void same(int) -> g\n    void same(long) -> g\n"
                               "\ncom.example.Other -> a.c:\n"
                               "    10:12:boolean check() -> a\n";

static void map_names(void **state)
{
    (void)state;
    struct hw_proguard *m;
    struct hw_pb out = {0};
    char name[256];
    assert_int_equal(hw_proguard_parse(hw_bytes_str(map_text), &m, NULL), 0);
    assert_int_equal(hw_proguard_write(m, hw_bytes_str("com.example"), &out), 0);
    static const struct {
        const char *class, *method, *original;
    } cases[] = {
        {"a.b", "c", "size"},        {"a.b", "d", "entries"},
        {"a.b", "e", "insert"},      {"a.b", "i", "lookup"}, /* the outermost of an inline chain */
        {"a.b", "<init>", "<init>"}, {"a.b", "f", "com.example.Cache.get | com.example.Cache.put"},
        {"a.b", "g", "same"}, /* overloads of one name */
        {"a.c", "a", "check"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        name_in(hw_pb_view(&out), cases[i].class, cases[i].method, name, sizeof name);
        assert_string_equal(name, cases[i].original);
    }
    hw_pb_done(&out);
    hw_proguard_free(m);
}

static void map_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t line;
    } cases[] = {{"    int a -> b\n", 1},
                 {"x.Y -> a:\nx.Z -> a:\n", 2},
                 {"x.Y -> a:\n\n    int a\n", 3},
                 {"x.Y -> a:\n    1:void f() -> b\n", 2},
                 {"x.Y -> a:\n    void f(int -> b\n", 2},
                 {"x.Y a\n", 1},
                 {"x.Y -> a\n", 1}};
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_proguard *m;
        struct hw_error err = {0};
        assert_int_equal(hw_proguard_parse(hw_bytes_str(cases[i].text), &m, &err), HW_EFORMAT);
        assert_int_equal(err.offset, cases[i].line);
    }
    struct hw_pb out = {0};
    struct hw_error err = {0};
    assert_int_equal(hw_proguard_parse(hw_bytes_str("x.Y -> a:\n int b -> c\n int d -> c\n"),
                                       &(struct hw_proguard *){NULL}, &err),
                     HW_EFORMAT);
    assert_int_equal(hw_proguard_write_all("com.example.pkg", &out, &err), HW_EINVAL);
    hw_pb_done(&out);
}

HW_TEST_MAIN(cmocka_unit_test(breakpad_addresses), cmocka_unit_test(breakpad_errors),
             cmocka_unit_test(map_names), cmocka_unit_test(map_errors))
