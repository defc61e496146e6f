/*
 * Names in a root that somebody else arranges: links out of it, "..", pipes, swapped folders. Each
 * case runs twice, the second time where a filter answers openat2 with ENOSYS.
 */
#include "proc/root_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/rights/as_user.h"

#include "../test.h"

#include "base/files/fd.h"

static char top[] = "/tmp/hw-root.XXXXXX"; /* top/root is the root, top/out is outside of it */
static int root = -1;

static void put(const char *name, const char *text)
{
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void link_to(const char *to, const char *name)
{
    assert_int_equal(symlinkat(to, root, name), 0);
}

static int set_up(void **state)
{
    (void)state;
    char out[64];
    assert_non_null(mkdtemp(top));
    assert_int_equal(chmod(top, 0755), 0);
    root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(root, "root", 0755), 0);
    put("out", "outside");
    root = openat(root, "root", O_PATH | O_DIRECTORY | O_CLOEXEC); /* the test ends soon */
    assert_true(root >= 0);
    assert_int_equal(mkdirat(root, "a", 0755), 0);
    assert_int_equal(mkdirat(root, "a/b", 0755), 0);
    put("a/b/file", "inside");
    put("out", "the root's own");
    (void)snprintf(out, sizeof out, "%s/out", top);
    link_to(out, "absolute");
    link_to("../out", "dots");
    link_to("../../../../../../../../../../etc/passwd", "many");
    link_to("a/b/file", "relative");
    link_to("/a/b", "folder");
    link_to("loop", "loop");
    link_to("/proc/self/root/etc/passwd", "magic");
    assert_int_equal(mknodat(root, "pipe", S_IFIFO | 0666, 0), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command) != 0;
}

/* NULL: not found, or nothing that may be read. */
static const char *text_of(const char *path, enum hw_root_links links)
{
    static char text[64];
    struct stat st;
    hw_autofd int found = hw_root_find(root, path, links);
    hw_autofd int fd = found < 0 ? -1 : hw_root_read(found, &st);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return n < 0 ? NULL : text;
}

static const struct {
    const char *path;
    enum hw_root_links links;
    const char *text; /* NULL: no file */
    int error;        /* then */
} cases[] = {
    {"/a/b/file", HW_ROOT_NO_LINKS, "inside", 0},
    {"a//b/./file", HW_ROOT_NO_LINKS, "inside", 0},
    {"a/b/../../../../../a/b/file", HW_ROOT_NO_LINKS, "inside", 0},
    {"../out", HW_ROOT_NO_LINKS, "the root's own", 0},
    {"/relative", HW_ROOT_LINKS, "inside", 0},
    {"/relative", HW_ROOT_LAST_NONE, NULL, ELOOP},
    {"/relative", HW_ROOT_NO_LINKS, NULL, ELOOP},
    {"/folder/file", HW_ROOT_LINKS, "inside", 0},
    {"/folder/file", HW_ROOT_LAST_NONE, "inside", 0},
    {"/folder/file", HW_ROOT_NO_LINKS, NULL, ELOOP},
    {"/folder/../b/file", HW_ROOT_LINKS, "inside", 0},
    {"/absolute", HW_ROOT_LINKS, NULL, ENOENT}, /* there is no such folder in that root */
    {"/dots", HW_ROOT_LINKS, "the root's own", 0},
    {"/many", HW_ROOT_LINKS, NULL, ENOENT},
    {"/loop", HW_ROOT_LINKS, NULL, ELOOP},
    {"/a/none", HW_ROOT_LINKS, NULL, ENOENT},
    {"/a/b/file/x", HW_ROOT_LINKS, NULL, ENOTDIR},
    {"/pipe", HW_ROOT_LINKS, NULL, ESTALE},
    {"/a", HW_ROOT_LINKS, NULL, ESTALE},
    {"/", HW_ROOT_NO_LINKS, NULL, ESTALE},
};

static void resolve(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = 0;
        const char *text = text_of(cases[i].path, cases[i].links);
        if (!text != !cases[i].text || (text && strcmp(text, cases[i].text) != 0) ||
            (!text && errno != cases[i].error))
            fail_msg("%s, links %d: %s, %s", cases[i].path, (int)cases[i].links,
                     text ? text : "nothing", strerror(errno));
    }
}

static void refuse_links_of_proc(void **state)
{
    (void)state;
    hw_autofd int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    static const char *const names[] = {"exe", "cwd/.", "root/etc/passwd", "fd/0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(hw_root_find(proc, names[i], HW_ROOT_LINKS), -1);
        assert_int_equal(errno, ELOOP);
    }
}

static atomic_bool done;

/* Swaps a folder for a link out of the root, without end. */
static void *swap(void *arg)
{
    (void)arg;
    while (!atomic_load(&done))
        (void)syscall(SYS_renameat2, root, "swapped", root, "away", 2 /* RENAME_EXCHANGE */);
    return NULL;
}

static void keep_to_the_root_in_a_race(void **state)
{
    (void)state;
    pthread_t t;
    assert_int_equal(mkdirat(root, "swapped", 0755), 0);
    put("swapped/out", "the root's own");
    link_to(top, "away");
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&t, NULL, swap, NULL), 0);
    unsigned n_found = 0;
    for (int i = 0; i < 20000; i++) {
        const char *text = text_of("/swapped/out", i & 1 ? HW_ROOT_NO_LINKS : HW_ROOT_LINKS);
        n_found += text != NULL;
        if (text && strcmp(text, "outside") == 0)
            fail_msg("it was led out of the root");
    }
    atomic_store(&done, true);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(n_found > 0);
    char command[96];
    (void)snprintf(command, sizeof command, "rm -rf %s/root/swapped %s/root/away", top, top);
    assert_int_equal(system(command), 0);
}

/* From here on openat2 is as under a service manager's filter. Never taken back. */
static int forbid_openat2(void **state)
{
    (void)state;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return 1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0;
}

static size_t count_descriptors(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void leave_nothing_open(void **state)
{
    size_t before = count_descriptors();
    resolve(state);
    assert_int_equal(count_descriptors(), before);
}

static void refuse_a_shared_tmp_without_sticky_bit(void **state)
{
    (void)state;
    hw_autofd int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int dir = hw_root_tmp(proc, geteuid());
    assert_true(dir >= 0); /* this machine's */
    if (geteuid() != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC); /* the child's */
        if (chroot(top) < 0 || mkdir("/tmp", 0) < 0)
            _exit(2);
        static const struct {
            uint32_t mode, owner;
            bool good;
        } folders[] = {{01777, 0, true},    {0777, 0, false},     {0700, 1234, true},
                       {01777, 1234, true}, {01777, 4321, false}, {0755, 4321, false},
                       {0770, 1234, false}, {0755, 0, true}};
        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
            if (chown("/tmp", folders[i].owner, 0) < 0 || chmod("/tmp", folders[i].mode) < 0 ||
                (hw_root_tmp(self, 1234) >= 0) != folders[i].good)
                _exit(10 + (int)i);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void work_as_a_user(void **state)
{
    (void)state;
    struct hw_as_user a;
    struct stat st;
    if (geteuid() != 0)
        skip();
    assert_int_equal(hw_as_user_begin(&a, 1234, 1234), 0);
    assert_int_equal(openat(root, "as-user", O_WRONLY | O_CREAT | O_CLOEXEC, 0600), -1);
    assert_int_equal(errno, EACCES); /* the folder is root's */
    assert_int_equal(unlinkat(root, "out", 0), -1);
    assert_int_equal(errno, EACCES);
    hw_as_user_end(&a);
    hw_autofd int fd = openat(root, "as-root", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == 0);
    assert_int_equal(fchmodat(root, ".", 0777, 0), 0);
    assert_int_equal(hw_as_user_begin(&a, 1234, 1234), 0);
    hw_autofd int theirs = openat(root, "as-user", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    hw_as_user_end(&a);
    assert_int_equal(fchmodat(root, ".", 0755, 0), 0);
    assert_true(theirs >= 0 && fstat(theirs, &st) == 0 && st.st_uid == 1234 && st.st_gid == 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolve),
        cmocka_unit_test(refuse_links_of_proc),
        cmocka_unit_test(keep_to_the_root_in_a_race),
        cmocka_unit_test(leave_nothing_open),
        cmocka_unit_test(refuse_a_shared_tmp_without_sticky_bit),
        cmocka_unit_test(work_as_a_user),
        cmocka_unit_test_setup(resolve, forbid_openat2),
        cmocka_unit_test(refuse_links_of_proc),
        cmocka_unit_test(keep_to_the_root_in_a_race),
        cmocka_unit_test(leave_nothing_open),
    };
    return cmocka_run_group_tests_name("root_path", tests, set_up, tear_down);
}
