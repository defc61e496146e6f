/*
 * tables_test.c - of the tables' file only what is in use is mapped, and more when more is
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arch.h"
#include "client/client.h"
#include "client/kernel/kernel.h"
#include "client/ring/mapped_tables.h"
#include "test.h"

#define ROOM (16ull << 20)

/* What tables.c takes from the rest of the client. */
union hw_control_block hw_control_block;
union hw_process_page_block hw_process_page_block;
_Atomic uint32_t hw_sandbox_filters, hw_sandbox_stricts;

static struct file {
    int fd;
    struct hw_tables_dir *dir;
} file;

static int make(void **state)
{
    (void)state;
    file.fd = memfd_create("tables", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file.fd, (off_t)HW_TABLES_BYTES), 0);
    file.dir = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    assert_ptr_not_equal(file.dir, MAP_FAILED);
    file.dir->magic = HW_TABLES_MAGIC;
    file.dir->version = HW_TABLE_VERSION;
    file.dir->arch = HW_ARCH_HERE;
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    (void)munmap(file.dir, ROOM);
    return close(file.fd);
}

static uint64_t seen(struct hw_client_session *s, uint64_t used)
{
    ((uint8_t *)file.dir)[used - 1] = 7;
    atomic_store(&file.dir->used, used);
    const struct hw_tables_view *v = hw_tables_view(s);
    if (used <= v->n_bytes)
        assert_int_equal(((const uint8_t *)v->at)[used - 1], 7);
    assert_true(v->n_bytes <= ROOM);
    return v->n_bytes;
}

static void test_grows(void **state)
{
    (void)state;
    struct hw_client_session *s = calloc(1, sizeof *s);
    atomic_store(&file.dir->used, 8192);
    assert_true(hw_tables_map(s, file.fd, ROOM));
    const void *first = s->views[0].at;
    uint64_t before = seen(s, 8192);
    assert_true(before <= 128 << 10);
    assert_int_equal(seen(s, before), before); /* it reaches */
    for (uint64_t used = before + 1; used <= ROOM; used = used * 5 / 4 + 1) {
        uint64_t now = seen(s, used);
        assert_true(now >= used && now >= before);
        assert_true(now <= used + used / 2 + (64 << 10) || now == before);
        before = now;
    }
    assert_int_equal(seen(s, ROOM), ROOM);
    assert_ptr_equal(s->tables, first); /* who is in there may go on */
    assert_int_equal(((const struct hw_tables_dir *)first)->magic, HW_TABLES_MAGIC);
    hw_tables_unmap(s);
    free(s);
}

/* A recorder that does not say how much is in use. */
static void test_older_recorder(void **state)
{
    (void)state;
    struct hw_client_session *s = calloc(1, sizeof *s);
    atomic_store(&file.dir->used, 0);
    assert_true(hw_tables_map(s, file.fd, ROOM));
    assert_int_equal(hw_tables_view(s)->n_bytes, ROOM);
    hw_tables_unmap(s);
    file.dir->magic++;
    assert_false(hw_tables_map(s, file.fd, ROOM));
    file.dir->magic--;
    free(s);
}

static void test_sandbox(void **state)
{
    (void)state;
    struct hw_client_session *s = calloc(1, sizeof *s);
    atomic_store(&file.dir->used, 8192);
    assert_true(hw_tables_map(s, file.fd, ROOM));
    atomic_store(&hw_sandbox_filters, 1);
    uint64_t before = hw_tables_view(s)->n_bytes;
    assert_int_equal(seen(s, 1 << 20), before);
    atomic_store(&hw_sandbox_filters, 0);
    assert_true(seen(s, 1 << 20) >= 1 << 20);
    hw_tables_unmap(s);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_grows, make, unmake),
        cmocka_unit_test_setup_teardown(test_older_recorder, make, unmake),
        cmocka_unit_test_setup_teardown(test_sandbox, make, unmake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
