/* The pprof writer read back field by field, and by `go tool pprof` where Go is installed. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "export/export.h"
#include "export/pprof/pprof_dir.h"
#include "views/fill.h"

static struct hw_profile *profile(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 4211, "libc.malloc", 1000, 1, 0);
    fill_row(p, a, "main;load;malloc@/lib/libc.so.6", 2, 200);
    fill_row(p, a, "main;run;@0x44;malloc@/lib/libc.so.6", 3, 300);
    uint32_t b = fill_dump(p, 4211, "libc.malloc", 2000, 1, 0);
    fill_row(p, b, "main;load;malloc@/lib/libc.so.6", -2, -200);
    fill_row(p, b, "main;_ZN5Cache6insertEi;malloc@/lib/libc.so.6", 5, 5000);
    uint32_t c = fill_dump(p, 4211, "arena/../x", 2000, 1, 0);
    fill_row(p, c, "main;take", 1, 64);
    uint32_t d = fill_dump(p, 99, "libc.malloc", 1500, 1, 0);
    fill_row(p, d, "main;other", 1, 7);
    hw_profile_stat_add(p, "heapprofd_buffer_overran", 4211, HW_STAT_DATA_LOSS, 1);
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static struct hw_strbuf read_all(const char *dir, const char *name)
{
    char path[512];
    char *text;
    size_t n;
    struct hw_strbuf out = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(hw_file_read(-100, path, 1 << 20, &text, &n, NULL), 0);
    if (hw_gzip_is(hw_bytes_of(text, n)))
        assert_int_equal(hw_inflate(hw_bytes_of(text, n), 1 << 20, &out, NULL), 0);
    else
        hw_strbuf_add(&out, text, n);
    free(text);
    return out;
}

/* ---- a small decoder: enough to print a profile as text ---- */

struct decoded {
    struct hw_bytes strings[64];
    size_t n_strings;
    uint64_t location_function[64], function_name[64], function_system[64], location_mapping[64];
    uint64_t mapping_file[64], mapping_build_id[64];
};

static struct hw_bytes str_at(const struct decoded *d, uint64_t i)
{
    assert_true(i < d->n_strings);
    return d->strings[i];
}

static void decode_location(struct decoded *d, struct hw_bytes m)
{
    struct hw_pb_reader r = hw_pb_read(m);
    struct hw_pb_field f;
    uint64_t id = 0, mapping = 0, function = 0;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == 1)
            id = f.value;
        if (f.number == 2)
            mapping = f.value;
        if (f.number == 4) {
            struct hw_pb_reader lr = hw_pb_read(f.bytes);
            struct hw_pb_field lf;
            while (hw_pb_next(&lr, &lf) == 1)
                if (lf.number == 1)
                    function = lf.value;
        }
    }
    assert_true(id > 0 && id < 64);
    d->location_function[id] = function;
    d->location_mapping[id] = mapping;
}

static void decode_ids(struct hw_bytes m, uint64_t *two, uint64_t *three, uint32_t a, uint32_t b)
{
    struct hw_pb_reader r = hw_pb_read(m);
    struct hw_pb_field f;
    uint64_t id = 0, x = 0, y = 0;
    while (hw_pb_next(&r, &f) == 1) {
        id = f.number == 1 ? f.value : id;
        x = f.number == a ? f.value : x;
        y = f.number == b ? f.value : y;
    }
    assert_true(id > 0 && id < 64);
    two[id] = x;
    three[id] = y;
}

static void decode_tables(struct decoded *d, struct hw_bytes all)
{
    struct hw_pb_reader r = hw_pb_read(all);
    struct hw_pb_field f;
    memset(d, 0, sizeof *d);
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == 6)
            d->strings[d->n_strings++] = f.bytes;
        if (f.number == 4)
            decode_location(d, f.bytes);
        if (f.number == 5)
            decode_ids(f.bytes, d->function_name, d->function_system, 2, 3);
        if (f.number == 3)
            decode_ids(f.bytes, d->mapping_file, d->mapping_build_id, 5, 6);
    }
}

static void print_sample(const struct decoded *d, struct hw_bytes m, struct hw_strbuf *out)
{
    struct hw_pb_reader r = hw_pb_read(m);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        uint64_t v;
        while (hw_pb_next_packed(&f.bytes, &v) == 1) {
            if (f.number == 1) {
                struct hw_bytes s = str_at(d, d->function_name[d->location_function[v]]);
                hw_strbuf_add(out, s.p, s.n);
                hw_strbuf_addc(out, ' ');
            } else {
                hw_strbuf_addf(out, "%lld ", (long long)v);
            }
        }
    }
    hw_strbuf_addc(out, '\n');
}

static void print_profile(struct hw_bytes all, struct hw_strbuf *out)
{
    struct decoded d;
    decode_tables(&d, all);
    struct hw_pb_reader r = hw_pb_read(all);
    struct hw_pb_field f;
    assert_int_equal(d.strings[0].n, 0);
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == 1) {
            struct hw_pb_reader tr = hw_pb_read(f.bytes);
            struct hw_pb_field tf;
            while (hw_pb_next(&tr, &tf) == 1) {
                struct hw_bytes s = str_at(&d, tf.value);
                hw_strbuf_add(out, s.p, s.n);
                hw_strbuf_addc(out, tf.number == 1 ? '/' : ' ');
            }
        }
        if (f.number == 2)
            print_sample(&d, f.bytes, out);
        assert_true(f.number <= 6); /* no time, no period, no comment */
    }
    hw_strbuf_addf(out, "%.*s", (int)str_at(&d, d.mapping_build_id[1]).n,
                   str_at(&d, d.mapping_build_id[1]).p);
}

static const char *shown(void *ctx, hw_str_id raw)
{
    const struct hw_profile *p = ctx;
    const char *s = hw_strings_cstr(hw_callsites_strings(p->callsites), raw);
    return strcmp(s, "_ZN5Cache6insertEi") == 0 ? "Cache::insert(int)" : NULL;
}

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/pprof_test.XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void remove_dir(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)))
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    (void)rmdir(dir);
}

static void files_of_all_dumps(void **state)
{
    (void)state;
    struct hw_profile *p = profile();
    struct hw_namer namer = {shown, p};
    make_dir();
    char *warned = NULL;
    size_t warned_n = 0, n_files = 0;
    FILE *w = open_memstream(&warned, &warned_n);
    struct hw_pprof_dir o = {.dir = dir, .pid = -1, .gzip = true, .namer = &namer, .warnings = w};
    assert_int_equal(hw_pprof_dir_write(p, &o, &n_files, NULL), 0);
    fclose(w);
    assert_int_equal(n_files, 4);
    assert_non_null(strstr(warned, "WARNING: The profile for 4211 ended early due to a buffer "
                                   "overrun."));
    free(warned);
    struct hw_strbuf text = {0};
    struct hw_strbuf f = read_all(dir, "heap_dump.1.4211.pb.gz");
    print_profile(hw_bytes_of(f.p, f.n), &text);
    assert_string_equal(text.p, "alloc_objects/count alloc_space/bytes objects/count space/bytes "
                                "malloc load main 2 200 2 200 \n"
                                "malloc app+0x44 run main 3 300 3 300 \n"
                                "ab08017f");
    hw_strbuf_done(&f);
    hw_strbuf_clear(&text);
    f = read_all(dir, "heap_dump.4.4211.arena_.._x.pb.gz");
    assert_true(f.n > 0);
    hw_strbuf_done(&f);
    f = read_all(dir, "heap_dump.2.99.pb.gz");
    hw_strbuf_done(&f);
    f = read_all(dir, "heap_dump.3.4211.pb.gz");
    print_profile(hw_bytes_of(f.p, f.n), &text);
    assert_string_equal(text.p, "alloc_objects/count alloc_space/bytes objects/count space/bytes "
                                "malloc load main 2 200 0 0 \n"
                                "malloc app+0x44 run main 3 300 3 300 \n"
                                "malloc Cache::insert(int) main 5 5000 5 5000 \n"
                                "ab08017f");
    hw_strbuf_done(&f);
    hw_strbuf_done(&text);
    remove_dir();
    hw_profile_free(p);
}

static void one_process_one_time_new_names(void **state)
{
    (void)state;
    struct hw_profile *p = profile();
    int64_t when = 2000;
    make_dir();
    struct hw_pprof_dir o = {
        .dir = dir, .pid = 4211, .timestamps_ns = &when, .n_timestamps = 1, .new_names = true};
    size_t n_files = 0;
    assert_int_equal(hw_pprof_dir_write(p, &o, &n_files, NULL), 0);
    assert_int_equal(n_files, 2);
    struct hw_strbuf text = {0}, f = read_all(dir, "heap_dump.1.4211.pb");
    print_profile(hw_bytes_of(f.p, f.n), &text);
    assert_non_null(strstr(text.p, "Total malloc count/count Total malloc size/bytes Unreleased "
                                   "malloc count/count Unreleased malloc size/bytes "));
    assert_non_null(strstr(text.p, "_ZN5Cache6insertEi"));
    hw_strbuf_done(&f);
    hw_strbuf_done(&text);
    remove_dir();
    hw_profile_free(p);
}

static void run(const char *command, struct hw_strbuf *out)
{
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        hw_strbuf_add(out, buf, n);
    assert_int_equal(pclose(f), 0);
}

static void go_pprof_agrees(void **state)
{
    (void)state;
    if (system("command -v go >/dev/null 2>&1") != 0)
        skip();
    struct hw_profile *p = profile();
    struct hw_namer namer = {shown, p};
    make_dir();
    size_t n_files = 0;
    struct hw_pprof_dir o = {.dir = dir, .pid = -1, .gzip = true, .namer = &namer};
    assert_int_equal(hw_pprof_dir_write(p, &o, &n_files, NULL), 0);
    char command[512];
    struct hw_strbuf out = {0};
    snprintf(
        command, sizeof command,
        "PPROF_TMPDIR=%s PPROF_BINARY_PATH=%s go tool pprof -sample_index=space -top -nodecount=99 "
        "%s/heap_dump.3.4211.pb.gz 2>/dev/null",
        dir, dir, dir);
    run(command, &out);
    assert_non_null(strstr(out.p, "Type: space"));
    assert_non_null(strstr(out.p, "Showing nodes accounting for 5300B, 100% of 5300B total"));
    assert_non_null(strstr(out.p, "Cache::insert"));
    assert_non_null(strstr(out.p, "malloc"));
    hw_strbuf_clear(&out);
    snprintf(command, sizeof command,
             "PPROF_TMPDIR=%s PPROF_BINARY_PATH=%s go tool pprof -raw %s/heap_dump.3.4211.pb.gz "
             "2>/dev/null",
             dir, dir, dir);
    run(command, &out);
    assert_non_null(
        strstr(out.p, "alloc_objects/count alloc_space/bytes objects/count space/bytes"));
    assert_non_null(strstr(out.p, "/lib/libc.so.6"));
    assert_non_null(strstr(out.p, "ab08017f"));
    hw_strbuf_done(&out);
    remove_dir();
    hw_profile_free(p);
}

HW_TEST_MAIN(cmocka_unit_test(files_of_all_dumps), cmocka_unit_test(one_process_one_time_new_names),
             cmocka_unit_test(go_pprof_agrees))
