/* maps_test.c - lines as the kernel writes them, and lines it would never write */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/allocator.h"
#include "proc/file.h"
#include "proc/maps.h"
#include "proc/pid.h"
#include "proc/smaps.h"

static struct hw_maps parse(const char *text)
{
    struct hw_maps m;
    assert_int_equal(hw_maps_parse(strdup(text), strlen(text), &m), HW_OK);
    return m;
}

static void test_allocators(void **state)
{
    (void)state;
    static const struct {
        const char *paths[3], *name;
    } cases[] = {
        {{"/usr/lib/x86_64-linux-gnu/libc.so.6", "/bin/cat"}, "glibc"},
        {{"/lib/libc-2.31.so"}, "glibc"},
        {{"/lib/libc.so.6", "/opt/libjemalloc.so.2"}, "jemalloc"},
        {{"/usr/lib/libtcmalloc_minimal.so.4", "/lib/libc.so.6"}, "tcmalloc"},
        {{"/lib/libc.so.6", "/x/libmimalloc.so.2.1"}, "mimalloc"},
        {{"/lib/ld-musl-x86_64.so.1"}, "musl"},
        {{"/system/lib64/libc.so"}, "bionic"},
        {{"/bin/static", "/lib/libcurl.so.4", "[heap]"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512] = "";
        for (size_t k = 0; k < 3 && cases[i].paths[k]; k++)
            (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                           "%zx-%zx r-xp 00000000 fe:01 7 %s\n", (k + 1) << 12, (k + 2) << 12,
                           cases[i].paths[k]);
        struct hw_maps m = parse(text);
        const char *name = hw_allocator_name(&m);
        assert_string_equal(name ? name : "none", cases[i].name ? cases[i].name : "none");
        hw_maps_done(&m);
    }
}

static void test_lines(void **state)
{
    (void)state;
    struct hw_maps m = parse("1000-3000 r-xp 00002000 fe:01 42    /usr/bin/a b\n"
                             "3000-4000 rw-p 00000000 00:00 0 \n"
                             "5000-6000 r--s 00001000 fe:01 7 /tmp/x (deleted)\n"
                             "7000-8000 rw-p 00000000 00:00 0          [heap]\n"
                             "8000-9000 rw-p 0 00:00 0 /a\\012b");
    assert_int_equal(m.maps.n, 5);
    assert_int_equal(m.n_bad, 0);
    assert_string_equal(m.maps.v[0].path, "/usr/bin/a b");
    assert_int_equal(m.maps.v[0].offset, 0x2000);
    assert_int_equal(m.maps.v[0].inode, 42);
    assert_int_equal(m.maps.v[0].flags, HW_MAP_READ | HW_MAP_EXEC);
    assert_string_equal(m.maps.v[1].path, "");
    assert_string_equal(m.maps.v[2].path, "/tmp/x");
    assert_int_equal(m.maps.v[2].flags, HW_MAP_READ | HW_MAP_SHARED | HW_MAP_DELETED);
    assert_string_equal(m.maps.v[3].path, "[heap]");
    assert_string_equal(m.maps.v[4].path, "/a\nb");
    assert_ptr_equal(hw_maps_find(&m, 0x2fff), &m.maps.v[0]);
    assert_null(hw_maps_find(&m, 0x4000));
    assert_null(hw_maps_find(&m, 0xfff));
    assert_null(hw_maps_find(&m, UINT64_MAX));
    hw_maps_done(&m);
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "\n\n\n",
                                      "zz-1 r",
                                      "1000-",
                                      "1000-2000",
                                      "1000-2000 r-xp",
                                      "2000-1000 r-xp 0 0:0 0 x\n",
                                      "11111111111111111111111111-2 r-xp 0 0:0 0 x",
                                      "1000-2000 r-xp 0 0:0 ",
                                      "1000-2000 r-xp 0 0 0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hw_maps m = parse(bad[i]);
        assert_int_equal(m.maps.n, 0);
        hw_maps_done(&m);
    }
    struct hw_maps m =
        parse("1000-3000 r-xp 0 0:0 0\n2000-4000 r-xp 0 0:0 0\n4000-5000 r--p 0 0:0 0\n");
    assert_int_equal(m.maps.n, 2); /* the overlapping one is dropped */
    assert_int_equal(m.n_bad, 1);
    hw_maps_done(&m);
    /* Every prefix and every single-byte change of a good text must neither crash nor overlap. */
    static const char good[] =
        "1000-3000 r-xp 00002000 fe:01 42 /a (deleted)\n3000-4000 rw-p 0 0:0 0\n";
    for (size_t i = 0; i < sizeof good - 1; i++) {
        for (int c = 0; c < 256; c += 3) {
            char *t = strdup(good);
            t[i] = (char)c;
            struct hw_maps x;
            assert_int_equal(hw_maps_parse(t, sizeof good - 1, &x), HW_OK);
            for (size_t k = 1; k < x.maps.n; k++)
                assert_true(x.maps.v[k - 1].end <= x.maps.v[k].start);
            hw_maps_done(&x);
        }
    }
}

static void test_self(void **state)
{
    (void)state;
    struct hw_pid p;
    assert_int_equal(hw_pid_open(getpid(), &p, NULL), HW_OK);
    assert_true(hw_pid_alive(&p));
    struct hw_maps m;
    assert_int_equal(hw_maps_read(p.dir, &m, NULL), HW_OK);
    assert_int_equal(m.n_bad, 0);
    const struct hw_map *e = hw_maps_find(&m, (uint64_t)(uintptr_t)&test_self);
    assert_non_null(e);
    assert_true(e->flags & HW_MAP_EXEC);
    int fd = -1;
    struct hw_error err;
    assert_int_equal(hw_proc_open_mapping(p.dir, getuid(), e, &fd, &err), HW_OK);
    char magic[4];
    assert_int_equal(read(fd, magic, 4), 4);
    assert_memory_equal(magic, "\177ELF", 4);
    close(fd);
    assert_int_equal(hw_proc_open_written(p.dir, getuid(), "/dev/null", &fd, &err), HW_ENOTFOUND);
    assert_int_equal(hw_proc_open_written(p.dir, getuid(), "/proc/self/exe", &fd, &err),
                     HW_ENOTFOUND);
    struct hw_proc_status st;
    assert_int_equal(hw_proc_status(p.dir, &st), HW_OK);
    assert_int_equal(st.tgid, getpid());
    assert_int_equal(st.uid, getuid());
    assert_true(st.vm_rss_kb > 0);
    struct hw_proc_stat stat;
    assert_int_equal(hw_proc_stat(p.dir, &stat), HW_OK);
    assert_int_equal(stat.ppid, getppid());
    struct hw_smaps s;
    assert_int_equal(hw_smaps_read(p.dir, /* rollup = */ 1, &s), HW_OK);
    assert_int_equal(s.entries.n, 1);
    assert_true(s.entries.v[0].rss_kb > 0);
    hw_smaps_done(&s);
    assert_int_equal(hw_smaps_read(p.dir, 0, &s), HW_OK);
    assert_true(s.entries.n >= m.maps.n - 2);
    hw_smaps_done(&s);
    hw_maps_done(&m);
    hw_pid_done(&p);
    assert_int_equal(hw_pid_open(0, &p, NULL), HW_EINVAL);
    assert_int_equal(hw_pid_open(0x7ffffff0, &p, NULL), HW_EGONE);
}

static void test_status_hostile(void **state)
{
    (void)state;
    struct hw_proc_status st;
    hw_proc_status_parse("", &st);
    assert_int_equal(st.tgid, 0);
    hw_proc_status_parse(
        "Name:\tTgid:\t7\nTgid:\t9\nUid:\t1\t2\t3\t4\nNSpid:\t9\t3\nRssAnon:\t 12 kB", &st);
    assert_int_equal(st.tgid, 9);
    assert_int_equal(st.euid, 2);
    assert_int_equal(st.nspid, 3);
    assert_int_equal(st.rss_anon_kb, 12);
}

/* What people know of argv[0], also where a server has written a title over it. */
static void test_shown_name(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"/usr/bin/redis-server", "redis-server"},
        {"redis-server *:6379", "redis-server *:6379"},
        {"nginx: worker process", "nginx: worker process"},
        {"nginx: master process /usr/sbin/nginx -g x",
         "nginx: master process /usr/sbin/nginx -g x"},
        {"/opt/a b/postgres: walwriter /x", "postgres: walwriter /x"},
        {"puma 6.4 (tcp://127.0.0.1:8923) [ruby]", "puma 6.4 (tcp://127.0.0.1:8923) [ruby]"},
        {"bin/puma 6.4 (tcp://127.0.0.1:8923)", "puma 6.4 (tcp://127.0.0.1:8923)"},
        {"[kworker/0:0]", "[kworker/0:0]"},
        {"-bash", "-bash"},
        {"/", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(hw_proc_shown_name(rows[i][0]), rows[i][1]);
}

/* The target says it wrote that file; a link or a mount made it root's. */
static void test_closed_to_the_user(void **state)
{
    char path[] = "/tmp/hw-written-XXXXXX";
    struct hw_pid p;
    struct hw_error err;
    int fd = -1;
    (void)state;
    if (geteuid() != 0)
        skip();
    int own = mkstemp(path);
    assert_true(own >= 0);
    assert_int_equal(hw_pid_open(getpid(), &p, &err), HW_OK);
    assert_int_equal(hw_proc_open_written(p.dir, 64001, path, &fd, &err), HW_EPERM);
    assert_int_equal(fd, -1);
    struct stat st;
    assert_int_equal(fstat(own, &st), 0);
    struct hw_map map = {.start = 0x1000, .end = 0x2000, .path = path, .inode = st.st_ino};
    assert_int_equal(hw_proc_open_written_mapping(p.dir, 64001, &map, &fd, &err), HW_EPERM);
    map.inode++; /* mounted over the one that is mapped */
    assert_int_equal(hw_proc_open_written_mapping(p.dir, 64001, &map, &fd, &err), HW_EPERM);
    assert_int_equal(fd, -1);
    assert_int_equal(fchmod(own, 0644), 0);
    assert_int_equal(hw_proc_open_written(p.dir, 64001, path, &fd, &err), HW_OK);
    close(fd);
    assert_int_equal(hw_proc_open_written_mapping(p.dir, 64001, &map, &fd, &err), HW_OK);
    close(fd);
    assert_int_equal(fchown(own, 64001, 64001), 0);
    assert_int_equal(fchmod(own, 0600), 0);
    assert_int_equal(hw_proc_open_written(p.dir, 64001, path, &fd, &err), HW_OK);
    close(fd);
    close(own);
    unlink(path);
    hw_pid_done(&p);
}

HW_TEST_MAIN(cmocka_unit_test(test_shown_name), cmocka_unit_test(test_lines),
             cmocka_unit_test(test_allocators), cmocka_unit_test(test_hostile),
             cmocka_unit_test(test_self), cmocka_unit_test(test_status_hostile),
             cmocka_unit_test(test_closed_to_the_user))
