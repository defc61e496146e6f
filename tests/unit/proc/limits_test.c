/*
 * limits_test.c - limits of a process that does not exist, in files of our own; and of ourselves
 */
#include "test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/memory_limits.h"

#define MIB (UINT64_C(1) << 20)

struct fix {
    char dir[64], cgroup[96], meminfo[96];
    int proc;
};

static void put(const struct fix *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Directories on the way are made. */
static void put(const struct fix *f, const char *path, const char *fmt, ...)
{
    char whole[256], text[4096];
    va_list ap;
    (void)snprintf(whole, sizeof whole, "%s/%s", f->dir, path);
    for (char *p = whole + strlen(f->dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(whole, 0700);
        *p = '/';
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void set_up(struct fix *f)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/hw-limits-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->cgroup, sizeof f->cgroup, "%s/cgroup", f->dir);
    (void)snprintf(f->meminfo, sizeof f->meminfo, "%s/meminfo", f->dir);
    put(f, "proc/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n");
    put(f, "proc/status", "Name:\tx\nVmSize:\t  900000 kB\nVmData:\t  100000 kB\n");
    put(f, "proc/cgroup", "0::/\n");
    put(f, "meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nSwapTotal: 0 kB\n");
    char path[96];
    (void)snprintf(path, sizeof path, "%s/proc", f->dir);
    f->proc = open(path, O_PATH | O_DIRECTORY);
    assert_true(f->proc >= 0);
}

static void tear_down(struct fix *f)
{
    char command[128];
    close(f->proc);
    (void)snprintf(command, sizeof command, "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
}

static struct hw_limit_state look(const struct fix *f)
{
    struct hw_limits_roots roots = {f->cgroup, f->meminfo};
    struct hw_limits l;
    hw_limits_init(&l, f->proc, &roots);
    struct hw_limit_state s = hw_limits_nearest(&l, f->proc, &roots);
    hw_limits_done(&l);
    return s;
}

static void expect(const struct fix *f, const char *what, uint64_t limit, uint64_t used)
{
    struct hw_limit_state s = look(f);
    assert_string_equal(s.what ? s.what : "", what);
    assert_int_equal(s.limit, limit);
    assert_int_equal(s.used, used);
}

/* What a copy of the process may take: the least of all groups above it and of the machine. */
static void test_room(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f);
    struct hw_limits_roots roots = {f.cgroup, f.meminfo};
    static const struct {
        unsigned inner, inner_used, outer, outer_used; /* MiB */
        uint64_t room;
        const char *what;
    } rows[] = {{1000000, 0, 1000000, 0, 900000 * 1024ull, "machine"},
                {100, 40, 1000000, 0, 60 * MIB, "memory group"},
                {100, 40, 200, 190, 10 * MIB, "memory group"},
                {100, 140, 200, 190, 0, "memory group"},
                {100, 90, 1000000, 0, 50 * MIB, "memory group"}}; /* of it 40 in files */
    put(&f, "proc/cgroup", "0::/a/b\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hw_limits l;
        const char *what = "";
        put(&f, "cgroup/a/b/memory.max", "%llu\n", rows[i].inner * (unsigned long long)MIB);
        put(&f, "cgroup/a/b/memory.current", "%llu\n",
            rows[i].inner_used * (unsigned long long)MIB);
        put(&f, "cgroup/a/memory.max", "%llu\n", rows[i].outer * (unsigned long long)MIB);
        put(&f, "cgroup/a/memory.current", "%llu\n", rows[i].outer_used * (unsigned long long)MIB);
        if (i == 4)
            put(&f, "cgroup/a/b/memory.stat", "inactive_file %llu\nactive_file %llu\n", 10ull * MIB,
                30ull * MIB);
        hw_limits_init(&l, f.proc, &roots);
        assert_int_equal(hw_limits_room(&l, &roots, &what), rows[i].room);
        assert_string_equal(what, rows[i].what);
        hw_limits_done(&l);
    }
    tear_down(&f);
}

static void test_machine(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f);
    expect(&f, "machine", 1000000 * 1024ull, 100000 * 1024ull);
    put(&f, "meminfo",
        "MemTotal: 1000 kB\nMemAvailable: 10 kB\nSwapTotal: 1000 kB\nSwapFree: 400 kB\n");
    expect(&f, "machine", 2000 * 1024, 1590 * 1024);
    put(&f, "meminfo", "MemTotal: 9\nMemAvail");
    expect(&f, "", 0, 0);
    tear_down(&f);
}

static void test_rlimits(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f);
    put(&f, "proc/limits", "Max address space         1000000000 unlimited bytes\n");
    expect(&f, "address space", 1000000000, 900000 * 1024);
    put(&f, "proc/limits",
        "Max address space  5000000000 x\nMax data size  105000000 unlimited bytes\n");
    expect(&f, "data", 105000000, 100000 * 1024);
    tear_down(&f);
}

static void test_v2(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f);
    put(&f, "proc/cgroup", "0::/system.slice/x.service\n");
    put(&f, "cgroup/system.slice/x.service/memory.max", "max\n");
    put(&f, "cgroup/system.slice/x.service/memory.current", "%llu\n", 90ull * MIB);
    expect(&f, "machine", 1000000 * 1024ull, 100000 * 1024ull);
    /* The limit of a group above counts as well; file pages in it do not. */
    put(&f, "cgroup/system.slice/memory.max", "%llu\n", 100ull * MIB);
    put(&f, "cgroup/system.slice/memory.current", "%llu\n", 95ull * MIB);
    expect(&f, "memory group", 100 * MIB, 95 * MIB);
    put(&f, "cgroup/system.slice/memory.stat", "anon 5\ninactive_file %llu\nslab 1\n", 30ull * MIB);
    expect(&f, "memory group", 100 * MIB, 65 * MIB);
    /* The nearer of two. */
    put(&f, "cgroup/system.slice/x.service/memory.max", "%llu\n", 100ull * MIB);
    expect(&f, "memory group", 100 * MIB, 90 * MIB);
    tear_down(&f);
}

static void test_v1(void **state)
{
    (void)state;
    struct fix f;
    set_up(&f);
    put(&f, "proc/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/a/b\n0::/\n");
    put(&f, "cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(&f, "cgroup/memory/a/b/memory.limit_in_bytes", "%llu\n", 64ull * MIB);
    put(&f, "cgroup/memory/a/b/memory.usage_in_bytes", "%llu\n", 60ull * MIB);
    put(&f, "cgroup/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file %llu\n",
        4ull * MIB);
    expect(&f, "memory group", 64 * MIB, 56 * MIB);
    tear_down(&f);
}

/* Nothing of it leads out of the root, or further than to "no limit". */
static void test_hostile(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "0::/../../etc\n",     "0:",     "0::\n",         ":::::\n", "4:memory:\n",
        "4:memory:/a/../..\n", "\n\n\n", "0::relative\n", "9"};
    struct fix f;
    set_up(&f);
    put(&f, "memory.max", "1\n"); /* above the root */
    put(&f, "memory.current", "1\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put(&f, "proc/cgroup", "%s", lines[i]);
        expect(&f, "machine", 1000000 * 1024ull, 100000 * 1024ull);
    }
    char deep[3500];
    memset(deep, 'a', sizeof deep);
    deep[0] = '/';
    for (size_t i = 2; i < sizeof deep; i += 2)
        deep[i] = '/';
    deep[sizeof deep - 1] = '\0';
    put(&f, "proc/cgroup", "0::%s\n", deep);
    expect(&f, "machine", 1000000 * 1024ull, 100000 * 1024ull);
    tear_down(&f);
}

static void test_ourselves(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* it maps far more already, and its allocator nothing further then */
#endif
    pid_t child = fork();
    if (child == 0) {
        struct rlimit r = {1ull << 30, 1ull << 30};
        struct hw_limits l;
        int dir = open("/proc/self", O_PATH | O_DIRECTORY);
        if (setrlimit(RLIMIT_AS, &r) < 0)
            _exit(0);
        hw_limits_init(&l, dir, &hw_limits_usual);
        _exit(l.address_space == 1ull << 30 && hw_limits_nearest(&l, dir, &hw_limits_usual).what
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),   cmocka_unit_test(test_room),
        cmocka_unit_test(test_rlimits),   cmocka_unit_test(test_v2),
        cmocka_unit_test(test_v1),        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_ourselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
