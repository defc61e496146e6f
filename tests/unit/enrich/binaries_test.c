/* Files for traces of others: what somebody put below a root of the server's leads to none outside.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/elf.h"
#include "enrich/binaries.h"

static char top[64];

static const char *in(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", top, name);
    return path[turn];
}

/* This program, below its own name: it has a build id. */
static void copy_self(const char *to)
{
    hw_autofree char *bytes = NULL;
    size_t n;
    assert_int_equal(hw_file_read(AT_FDCWD, "/proc/self/exe", 256 << 20, &bytes, &n, NULL), 0);
    hw_autofd int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(hw_fd_write_all(fd, bytes, n), 0);
}

static int content(void *ctx, int fd, const char *path)
{
    (void)fd;
    (void)snprintf(ctx, 256, "%s", path);
    return 1;
}

static int ask(enum hw_binaries_mode mode, bool no_paths, const char *path, char found[256])
{
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n = 0;
    uint64_t bias;
    struct hw_binaries *b;
    const struct hw_binaries_where where = {
        .roots = in("root"), .mode = mode, .no_paths = no_paths};
    hw_autofd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_elf_read_identity(self, id, &n, &bias, NULL), 0);
    assert_true(n > 0);
    assert_int_equal(hw_binaries_new(&where, &b), 0);
    found[0] = '\0';
    int rc = hw_binaries_offer(b, path, hw_bytes_of(id, n), content, found, NULL);
    hw_binaries_free(b);
    return rc;
}

static void links_that_lead_out(void **state)
{
    (void)state;
    char found[256];
    (void)snprintf(top, sizeof top, "/tmp/hw-binaries-XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(mkdir(in("root"), 0700) | mkdir(in("rootless"), 0700), 0);
    copy_self(in("rootless/secret"));
    assert_int_equal(symlink(in("rootless"), in("root/dir")), 0);
    assert_int_equal(symlink(in("rootless/secret"), in("root/file")), 0);
    for (int mode = HW_BINARIES_FIND; mode <= HW_BINARIES_INDEX; mode++) {
        assert_int_equal(ask(mode, /* no_paths = */ true, "dir/secret", found), 0);
        assert_int_equal(ask(mode, /* no_paths = */ true, "file", found), 0);
        assert_int_equal(ask(mode, /* no_paths = */ false, "dir/secret", found), 1);
    }
    /* What lies in there is found, also by a link. */
    assert_int_equal(mkdir(in("root/true"), 0700), 0);
    assert_int_equal(rename(in("rootless/secret"), in("root/true/secret")), 0);
    assert_int_equal(unlink(in("root/file")) | symlink("true/secret", in("root/file")), 0);
    assert_int_equal(ask(HW_BINARIES_FIND, /* no_paths = */ true, "file", found), 1);
    assert_string_equal(found, in("root/file"));
    assert_int_equal(ask(HW_BINARIES_INDEX, /* no_paths = */ true, "any", found), 1);
    assert_string_equal(found, in("root/true/secret"));
    (void)unlink(in("root/true/secret"));
    (void)unlink(in("root/file"));
    (void)unlink(in("root/dir"));
    (void)rmdir(in("root/true"));
    (void)rmdir(in("rootless"));
    (void)rmdir(in("root"));
    (void)rmdir(top);
}

HW_TEST_MAIN(cmocka_unit_test(links_that_lead_out))
