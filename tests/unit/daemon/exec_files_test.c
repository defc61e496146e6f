/*
 * exec_files_test.c - files of starting programs: what is remembered is that file's, as it was; and
 * a reader that does not come back costs its user his, and nobody's time
 */
#include "test.h"

#include "daemon/execwatch/exec_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "proc/number.h"
#include "proc/pid.h"

#define SECOND UINT64_C(1000000000)

static struct hw_exec_files files;
static struct hw_exec_file_readers readers;

/* The answer, whenever it comes. */
static int get(int32_t tid, int fd, struct hw_exec_file *out)
{
    uint64_t until = hw_now_monotonic_ns() + 60 * SECOND;
    int rc = hw_exec_file_get(&readers, &files, tid, fd, out);
    while ((rc == HW_EBUSY || rc == HW_ETIMEOUT) && hw_now_monotonic_ns() < until) {
        struct pollfd p[HW_EXEC_FILE_READERS];
        hw_exec_file_readers_poll(&readers, p);
        (void)poll(p, HW_EXEC_FILE_READERS, 1000);
        hw_exec_file_readers_read(&readers, &files);
        rc = hw_exec_file_get(&readers, &files, tid, fd, out);
    }
    return rc;
}

static enum hw_start_verdict verdict(const char *path)
{
    struct hw_exec_file f = {0};
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(get(getpid(), fd, &f), HW_OK);
    return f.start.verdict;
}

static void put(const char *path, const void *bytes, size_t n, int flags)
{
    hw_autofd int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0700);
    assert_true(fd >= 0);
    assert_int_equal(hw_fd_write_all(fd, bytes, n), HW_OK);
}

/* Another one of its name, and what was written over it, are read again. */
static void test_file_changes(void **state)
{
    (void)state;
    static const struct timespec tick = {.tv_nsec = 20000000}; /* files' times are no finer */
    char dir[] = "/tmp/hw.files.XXXXXX", path[64], other[64], *program;
    size_t n;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/program", dir);
    (void)snprintf(other, sizeof other, "%s/other", dir);
    assert_int_equal(hw_file_read(AT_FDCWD, "/bin/true", 64u << 20, &program, &n, NULL), HW_OK);
    put(path, program, n, O_CREAT);
    for (int i = 0; i < 2; i++)
        assert_int_equal(verdict(path), HW_START_FITS);
    put(other, "no program", 10, O_CREAT);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(verdict(path), HW_START_NO_ELF);
    put(other, program, n, O_CREAT);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(verdict(path), HW_START_FITS);
    (void)nanosleep(&tick, NULL);
    put(path, "none", 4, 0); /* the same size */
    assert_int_equal(verdict(path), HW_START_NO_ELF);
    (void)nanosleep(&tick, NULL);
    put(path, program, n, 0);
    assert_int_equal(verdict(path), HW_START_FITS);
    free(program);
    (void)unlink(path);
    (void)rmdir(dir);
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        uint32_t kind;
        const char *interpreter;
    } rows[] = {{"#!/usr/bin/python3 -u\nimport sys\n", HW_EXEC_FILE_SCRIPT, "/usr/bin/python3"},
                {"#! \t/bin/sh", HW_EXEC_FILE_SCRIPT, "/bin/sh"},
                {"#!", HW_EXEC_FILE_OTHER, ""},
                {"", HW_EXEC_FILE_OTHER, ""},
                {"\177ELF", HW_EXEC_FILE_OTHER, ""}};
    char text[HW_EXEC_LINE], head[4096];
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        assert_int_equal(hw_exec_file_kind_of(rows[i].head, strlen(rows[i].head), text),
                         rows[i].kind);
        assert_string_equal(text, rows[i].interpreter);
    }
    (void)memset(head, 'x', sizeof head); /* no end of the line */
    memcpy(head, "#!", 2);
    assert_int_equal(hw_exec_file_kind_of(head, sizeof head, text), HW_EXEC_FILE_SCRIPT);
    assert_int_equal(strlen(text), HW_EXEC_LINE - 3);
}

/* What the answerer reads while the finder writes, or has died over it. */
static void test_half_written(void **state)
{
    (void)state;
    struct hw_exec_file f = {.id = {1, 2, 3, 4, 5}, .kind = HW_EXEC_FILE_SCRIPT}, out;
    hw_exec_file_keep(&files, &f);
    assert_true(hw_exec_file_find(&files, &f.id, &out));
    for (size_t i = 0; i < HW_EXEC_FILES; i++)
        if (files.v[i].file.id.ino == 2)
            files.v[i].version++;
    assert_false(hw_exec_file_find(&files, &f.id, &out));
    hw_exec_file_keep(&files, &f);
    assert_true(hw_exec_file_find(&files, &f.id, &out));
    f.id.changed_ns++;
    assert_false(hw_exec_file_find(&files, &f.id, &out));
}

static void test_sight(void **state)
{
    (void)state;
    enum hw_start_sight sight;
    hw_autofd int dir = hw_proc_open_dir(getpid());
    uint64_t until = hw_now_monotonic_ns() + 60 * SECOND;
    assert_int_equal(hw_exec_sight_find(&readers, dir, geteuid(), &sight), HW_EBUSY);
    while (hw_exec_sight_get(&readers, getpid(), dir, geteuid(), "@nobody", "/bin/sh", &sight) !=
           HW_OK) {
        assert_true(hw_now_monotonic_ns() < until);
        (void)poll(NULL, 0, 1);
        hw_exec_file_readers_read(&readers, &files);
    }
    assert_int_equal(sight, HW_START_SEES);
    assert_int_equal(hw_exec_sight_find(&readers, dir, geteuid(), &sight), HW_OK);
    struct hw_exec_file f = {0};
    hw_autofd int shell = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_exec_file_id_of(shell, "", &f.id), 0);
    assert_true(hw_exec_file_find(&files, &f.id, &f));
    assert_int_equal(f.start.verdict, HW_START_FITS);
}

/* A file of FUSE whose pages never come: its server answers all but READ. */
static void serve(int fd)
{
    static struct {
        struct fuse_in_header h;
        char rest[1 << 17];
    } q;
    while (read(fd, &q, sizeof q) > 0) {
        struct {
            struct fuse_out_header h;
            union {
                struct fuse_init_out init;
                struct fuse_entry_out entry;
                struct fuse_attr_out attr;
                struct fuse_open_out open;
            } u;
        } a = {.h = {.unique = q.h.unique, .error = -ENOSYS}};
        struct fuse_attr file = {.ino = 2, .size = 65536, .mode = S_IFREG | 0755, .nlink = 1};
        size_t n = 0;
        static uint64_t names;
        switch (q.h.opcode) {
        case FUSE_INIT:
            a.u.init = (struct fuse_init_out){
                .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
            n = sizeof a.u.init;
            break;
        case FUSE_LOOKUP: /* each name is another file */
            file.ino = 2 + ++names;
            a.u.entry = (struct fuse_entry_out){
                .nodeid = file.ino, .attr = file, .attr_valid = 60, .entry_valid = 60};
            n = sizeof a.u.entry;
            break;
        case FUSE_GETATTR:
            file.ino = q.h.nodeid;
            file.mode = q.h.nodeid == 1 ? S_IFDIR | 0755 : S_IFREG | 0755;
            a.u.attr = (struct fuse_attr_out){.attr = file, .attr_valid = 60};
            n = sizeof a.u.attr;
            break;
        case FUSE_OPEN:
            a.u.open = (struct fuse_open_out){.fh = 1};
            n = sizeof a.u.open;
            break;
        case FUSE_READ:
            continue;
        default:
            break;
        }
        a.h.error = n ? 0 : -ENOSYS;
        a.h.len = (uint32_t)(sizeof a.h + n);
        (void)!write(fd, &a, a.h.len);
    }
    _exit(0);
}

/* Two of its readers are all that a user loses; the next ones are refused at once, and the files of
 * others are read. */
static void test_file_that_does_not_answer(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw.files.XXXXXX", options[128], path[64];
    struct hw_exec_file f;
    int rc = HW_EBUSY, fds[4];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    assert_non_null(mkdtemp(dir));
    if (fuse < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("hw", dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        (void)rmdir(dir);
        skip();
    }
    pid_t server = fork();
    if (server == 0)
        serve(fuse);
    (void)close(fuse);
    int is_user[2];
    char byte = 0;
    assert_int_equal(pipe2(is_user, O_CLOEXEC), 0);
    pid_t user = fork();
    if (user == 0) {
        (void)!setuid(65534);
        (void)!write(is_user[1], "1", 1);
        (void)pause();
        _exit(0);
    }
    (void)close(is_user[1]);
    assert_int_equal(read(is_user[0], &byte, 1), 1); /* until then its files are root's */
    (void)close(is_user[0]);
    for (size_t i = 0; i < HW_ARRAY_LEN(fds); i++) {
        (void)snprintf(path, sizeof path, "%s/%zu", dir, i);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fds[i] >= 0);
    }
    uint64_t began = hw_now_monotonic_ns(), now = began;
    for (; rc == HW_EBUSY && now < began + 60 * SECOND; now = hw_now_monotonic_ns()) {
        for (size_t i = 0; i < HW_ARRAY_LEN(fds);
             i++) /* the last one is refused when all are late */
            rc = hw_exec_file_get(&readers, &files, user, fds[i], &f);
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(rc, HW_ETIMEOUT);
    size_t busy = 0;
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++)
        busy += readers.v[i].fd >= 0 && readers.v[i].since_ns != 0;
    assert_int_equal(busy, 2);
    hw_autofd int other = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    assert_int_equal(get(getpid(), other, &f), HW_OK);
    assert_int_equal(f.start.verdict, HW_START_FITS);
    (void)kill(server, SIGKILL); /* reads fail now, and the two come back */
    assert_int_equal(waitpid(server, NULL, 0), server);
    assert_int_equal(get(user, fds[0], &f), HW_OK);
    assert_int_equal(f.start.verdict, HW_START_UNREADABLE);
    assert_int_equal(get(user, fds[3], &f), HW_OK);
    (void)kill(user, SIGKILL);
    (void)waitpid(user, NULL, 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    (void)umount2(dir, MNT_DETACH);
    (void)rmdir(dir);
}

static int begin(void **state)
{
    (void)state;
    hw_exec_file_readers_init(&readers, "/bin/true");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_changes), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_half_written), cmocka_unit_test(test_sight),
        cmocka_unit_test(test_file_that_does_not_answer)};
    return cmocka_run_group_tests(tests, begin, NULL);
}
