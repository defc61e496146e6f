/* folded, speedscope, json, text on one small profile with names that the formats cannot say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "export/export.h"
#include "views/fill.h"
#include "views/time/series.h"

static char *export_as(const char *format, enum hw_metric m)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 1, "libc.malloc", 1000, 1, 0);
    fill_row(p, a, "main;a\nb;malloc", 2, 200);
    fill_row(p, a, "main;run;malloc", 1, 50);
    fill_row(p, a, "main;run;malloc", -1, -50);
    fill_row(p, a, "main;\"q\"\033", 1, 8);
    assert_int_equal(hw_profile_freeze(p), 0);
    struct hw_series_list list;
    hw_values values = {0};
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_values_at(p, &list.v.v[0], 0, &values), 0);
    struct hw_export_input in = {.profile = p, .values = &values, .metric = m, .interval_bytes = 1};
    const struct hw_exporter *e = hw_exporter_find(format);
    assert_non_null(e);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_int_equal(e->write(&in, f, NULL), 0);
    fclose(f);
    hw_vec_done(&values);
    hw_series_list_done(&list);
    hw_profile_free(p);
    return text;
}

static void folded(void **state)
{
    (void)state;
    char *t = export_as("folded", HW_METRIC_SPACE);
    assert_string_equal(t, "main;a b;malloc 200\nmain;\"q\"  8\n");
    free(t);
    t = export_as("collapsed", HW_METRIC_ALLOC_SPACE);
    assert_string_equal(t, "main;a b;malloc 200\nmain;run;malloc 50\nmain;\"q\"  8\n");
    free(t);
}

static void speedscope(void **state)
{
    (void)state;
    char *t = export_as("speedscope", HW_METRIC_SPACE);
    assert_non_null(strstr(t, "\"samples\":[[0,1,2],[0,4]],\"weights\":[200,8]"));
    assert_non_null(strstr(t, "\"samples\":[[0,1,2],[0,3,2],[0,4]],\"weights\":[200,50,8]"));
    assert_non_null(strstr(t, "\"endValue\":258"));
    assert_non_null(strstr(t, "\\\"q\\\""));
    assert_null(strchr(t, '\033'));
    free(t);
}

static void json(void **state)
{
    (void)state;
    char *t = export_as("json", HW_METRIC_SPACE);
    assert_non_null(strstr(t, "\"stack\":[0,3,2],\"space\":0,\"objects\":0,\"alloc_space\":50,"
                              "\"alloc_objects\":1"));
    free(t);
}

static void text(void **state)
{
    (void)state;
    char *t = export_as("text", HW_METRIC_SPACE);
    assert_string_equal(t, "space 200 objects 2 alloc_space 200 alloc_objects 2\n"
                           "    malloc  (/bin/app)\n"
                           "    a\\x0ab  (/bin/app)\n"
                           "    main  (/bin/app)\n\n"
                           "space 8 objects 1 alloc_space 8 alloc_objects 1\n"
                           "    \"q\"\\x1b  (/bin/app)\n"
                           "    main  (/bin/app)\n\n");
    free(t);
}

static void csv(void **state)
{
    (void)state;
    char *t = export_as("csv", HW_METRIC_SPACE);
    assert_string_equal(
        t, "id,parent,depth,function,module,self_space,self_objects,self_alloc_space,"
           "self_alloc_objects,total_space,total_objects,total_alloc_space,total_alloc_objects,"
           "samples,space_error,objects_error,alloc_space_error,alloc_objects_error\r\n"
           "0,,0,\"all\",\"\",0,0,0,0,208,3,258,4,3,0,0,0,0\r\n"
           "1,0,1,\"main\",\"/bin/app\",0,0,0,0,208,3,258,4,3,0,0,0,0\r\n"
           "2,1,2,\"a\\u{a}b\",\"/bin/app\",0,0,0,0,200,2,200,2,2,0,0,0,0\r\n"
           "3,2,3,\"malloc\",\"/bin/app\",200,2,200,2,200,2,200,2,2,0,0,0,0\r\n"
           "4,1,2,\"run\",\"/bin/app\",0,0,0,0,0,0,50,1,0,0,0,0,0\r\n"
           "5,4,3,\"malloc\",\"/bin/app\",0,0,50,1,0,0,50,1,0,0,0,0,0\r\n"
           "6,1,2,\"\"\"q\"\"\\u{1b}\",\"/bin/app\",8,1,8,1,8,1,8,1,1,0,0,0,0\r\n");
    free(t);
}

static void unknown_format(void **state)
{
    (void)state;
    assert_null(hw_exporter_find("nonsense"));
    assert_ptr_equal(hw_exporter_find("pb"), &hw_export_pprof);
}

HW_TEST_MAIN(cmocka_unit_test(folded), cmocka_unit_test(speedscope), cmocka_unit_test(json),
             cmocka_unit_test(text), cmocka_unit_test(csv), cmocka_unit_test(unknown_format))
