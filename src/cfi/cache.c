/*
 * cache.c - compiled tables in a directory, one file per key
 *
 * Written under a temporary name and renamed, so a reader sees a whole table or none; not synced,
 * as a lost table is compiled again. What is read back is checked like any other input.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cfi/cfi.h"
#include "elf/image.h"
#include "unwind/table.h"

#include "base/banned.h"

enum {
    MAX_TABLE = 256 << 20,
    RULES_VERSION = 2 /* of what compile.c makes of the same file */
};

/*
 * A build id is what its file says. A user could put the table of their own file in the place of
 * the C library's, so tables are shared only between files of one owner. A file system that a user
 * serves (FUSE) says what it likes about owners.
 */
static uint32_t owner_of(int elf_fd, const struct stat *st)
{
    struct statfs fs;
    bool said_by_user = fstatfs(elf_fd, &fs) < 0 || fs.f_type == FUSE_SUPER_MAGIC;
    return said_by_user || (st->st_mode & S_IWOTH) ? UINT32_MAX : st->st_uid;
}

int hw_cfi_cache_key(int elf_fd, char key[HW_CFI_KEY_MAX], struct hw_error *err)
{
    struct hw_image img;
    int rc = hw_image_open(&img, elf_fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0)
        return rc;
    uint8_t id[32];
    uint32_t n = hw_image_build_id(&img, id, sizeof id);
    uint64_t hash = img.headers_hash;
    uint32_t machine = img.machine;
    hw_image_close(&img);
    struct stat st;
    if (fstat(elf_fd, &st) < 0)
        return hw_fail_sys(err, "cannot stat ELF file");
    if (n >= 8) { /* shorter ones are written by hand and repeat */
        char hex[2 * sizeof id + 1];
        for (uint32_t i = 0; i < n; i++)
            (void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
        (void)snprintf(key, HW_CFI_KEY_MAX, "%s-%u-%x-v%u-%u", hex, machine, owner_of(elf_fd, &st),
                       HW_TABLE_VERSION, RULES_VERSION);
        return HW_OK;
    }
    uint64_t mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    (void)snprintf(key, HW_CFI_KEY_MAX, "f%llx-%llx-%llx-%llx-%llx-%u-v%u-%u",
                   (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
                   (unsigned long long)st.st_size, (unsigned long long)mtime_ns,
                   (unsigned long long)hash, machine, HW_TABLE_VERSION, RULES_VERSION);
    return HW_OK;
}

static bool key_is_plain(const char *key)
{
    size_t n = strspn(key, "0123456789abcdefv-");
    return n > 0 && key[n] == 0 && n < HW_CFI_KEY_MAX;
}

int hw_cfi_cache_get(int dir_fd, const char *key, void **out, size_t *n_bytes)
{
    if (!key_is_plain(key))
        return HW_EINVAL;
    hw_autofd int fd = openat(dir_fd, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return errno == ENOENT ? HW_ENOTFOUND : HW_ESYS;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return HW_EPERM;
    if (st.st_size <= 0 || st.st_size > MAX_TABLE)
        return HW_EFORMAT;
    void *t = malloc((size_t)st.st_size);
    if (!t)
        return HW_ENOMEM;
    int rc = hw_fd_pread_all(fd, t, (size_t)st.st_size, 0);
    if (rc == HW_OK)
        rc = hw_table_check(t, (size_t)st.st_size);
    if (rc < 0) {
        free(t);
        return rc;
    }
    *out = t;
    *n_bytes = (size_t)st.st_size;
    return HW_OK;
}

int hw_cfi_cache_put(int dir_fd, const char *key, const void *table, size_t n_bytes)
{
    if (!key_is_plain(key))
        return HW_EINVAL;
    char temp[HW_CFI_KEY_MAX + 32];
    (void)snprintf(temp, sizeof temp, ".%s.%ld", key, (long)getpid());
    hw_autofd int fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                              S_IRUSR | S_IWUSR);
    if (fd < 0)
        return HW_ESYS;
    int rc = hw_fd_write_all(fd, table, n_bytes);
    if (rc == HW_OK && renameat(dir_fd, temp, dir_fd, key) < 0)
        rc = HW_ESYS;
    if (rc < 0)
        (void)unlinkat(dir_fd, temp, 0); /* half a file is worth nothing */
    return rc;
}
