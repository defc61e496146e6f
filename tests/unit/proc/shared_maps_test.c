/* shared_maps_test.c - which shared mappings are memory, of this process and of texts */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/shared_maps.h"

#define BYTES 20480u

static void *map_fd(int fd)
{
    assert_return_code(fd, errno);
    assert_return_code(ftruncate(fd, BYTES), errno);
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static enum hw_shared_kind kind_of(const struct hw_shared_maps *m, const void *p)
{
    return hw_shared_maps_kind(m, (uintptr_t)p);
}

static void kinds_are_told(void **state)
{
    char name[] = "/var/tmp/hwsharedXXXXXX";
    struct hw_shared_maps m;
    (void)state;
    hw_autofd int memfd = memfd_create("kind", MFD_CLOEXEC), file = mkstemp(name);
    (void)unlink(name);
    char *memory = map_fd(memfd), *disk = map_fd(file);
    void *anon = mmap(NULL, BYTES, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *own = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    assert_return_code(id, errno);
    char *a = shmat(id, NULL, 0), *b = shmat(id, NULL, 0);
    (void)shmctl(id, IPC_RMID, NULL);
    assert_return_code(munmap(b + 4096, 4096), errno);
    hw_autofd int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(hw_shared_maps_read(dir, &m), 0);
    assert_int_equal(kind_of(&m, memory), HW_SHARED_MEMORY);
    assert_int_equal(kind_of(&m, memory + BYTES - 1), HW_SHARED_MEMORY);
    assert_int_equal(kind_of(&m, anon), HW_SHARED_MEMORY);
    assert_int_equal(kind_of(&m, own), HW_SHARED_UNKNOWN);
    assert_int_equal(kind_of(&m, b + 4096), HW_SHARED_UNKNOWN);
    assert_int_equal(hw_shared_maps_segment(&m, (uint32_t)id), BYTES);
    assert_int_equal(hw_shared_maps_segment(&m, (uint32_t)id + 1), 0);
    hw_autofree char *text = NULL;
    size_t n;
    assert_int_equal(hw_file_read(dir, "mountinfo", 1 << 22, &text, &n, NULL), 0);
    struct stat st;
    assert_return_code(fstat(file, &st), errno);
    bool is_memory = hw_mounts_hold_memory(text, major(st.st_dev), minor(st.st_dev));
    assert_int_equal(kind_of(&m, disk), is_memory ? HW_SHARED_MEMORY : HW_SHARED_FILE);
    hw_shared_maps_done(&m);
    (void)shmdt(a);
    (void)shmdt(b);
    (void)munmap(memory, BYTES);
    (void)munmap(disk, BYTES);
    (void)munmap(anon, BYTES);
    (void)munmap(own, BYTES);
}

/* Mount points and options are anybody's text. */
static void mounts_are_texts(void **state)
{
    static const char text[] =
        "25 1 0:23 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw\n"
        "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
        "40 1 0:31 / /a\\040-\\040tmpfs rw - ext4 0:99 rw\n"
        "41 1 0:41 / /huge rw - hugetlbfs none rw\n"
        "42 1 0:42 / /odd rw -\n"
        "43 1 0:43 / /x rw - tmpfsx none rw";
    (void)state;
    assert_true(hw_mounts_hold_memory(text, 0, 23));
    assert_true(hw_mounts_hold_memory(text, 0, 41));
    assert_false(hw_mounts_hold_memory(text, 98, 0));
    assert_false(hw_mounts_hold_memory(text, 0, 31));
    assert_false(hw_mounts_hold_memory(text, 0, 42));
    assert_false(hw_mounts_hold_memory(text, 0, 43));
    assert_false(hw_mounts_hold_memory(text, 0, 2));
    assert_false(hw_mounts_hold_memory(text, 0, 99));
    assert_false(hw_mounts_hold_memory("", 0, 23));
    assert_false(hw_mounts_hold_memory(NULL, 0, 23));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told),
        cmocka_unit_test(mounts_are_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
