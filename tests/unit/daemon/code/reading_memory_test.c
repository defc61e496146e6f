/*
 * reading_memory_test.c - a process that ends, or holds up the reader, while its heaps are read: its mappings are known
 *
 * Linked with a reader of arenas that lets it happen at that moment.
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/code/blocking_reader.h"
#include "proc/pid.h"

int __real_hw_glibc_arenas_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t heap_start,
                                struct hw_glibc_arenas *out);
int __wrap_hw_glibc_arenas_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t heap_start,
                                struct hw_glibc_arenas *out);

enum { NOTHING, END, NO_ANSWER };
static _Atomic int happens; /* a reader that was left behind looks at it, too */
static _Atomic pid_t child;
static int never[2]; /* a pipe without a writer's word */

int __wrap_hw_glibc_arenas_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t heap_start,
                                struct hw_glibc_arenas *out)
{
    char c;
    if (happens == END) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    } else if (happens == NO_ANSWER) {
        (void)!read(never[0], &c, 1);
    }
    return __real_hw_glibc_arenas_read(s, mem, pagemap, heap_start, out);
}

/* A small program, which is read within milliseconds on a busy machine, too: a copy of this one is not, if
 * a sanitizer is in it. It has allocated when it echoes. */
static struct hw_reading_who start(struct hw_pid *pid)
{
    int in[2], out[2];
    char c = 'x';
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)fcntl(in[1], F_SETFD, 0); /* its own: it waits until it is killed */
        (void)execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(write(in[1], &c, 1), 1);
    (void)close(out[1]);
    assert_int_equal(read(out[0], &c, 1), 1);
    (void)close(in[0]), (void)close(in[1]), (void)close(out[0]);
    assert_int_equal(hw_pid_open(child, pid, NULL), HW_OK);
    return hw_reading_at(pid, getuid());
}

static int read_child(struct hw_blocking_reader *l, struct hw_reading_who who,
                      struct hw_reading_memory *out)
{
    struct hw_owner_ranges own = {.n = 0};
    int rc = hw_reading_memory(l, who, HW_OWNER_GLIBC, &own, /* wants_heaps = */ true, out);
    if (rc == HW_OK)
        hw_reading_heaps(l, who, HW_OWNER_GLIBC, out);
    return rc;
}

static void the_mappings_stay_known(void **state)
{
    struct hw_blocking_reader *l;
    struct hw_reading_memory m;
    struct hw_pid pid;
    (void)state;
    assert_int_equal(pipe(never), 0);
    assert_int_equal(hw_blocking_reader_new(&l), HW_OK);
    for (int what = NOTHING; what <= NO_ANSWER; what++) {
        happens = what;
        struct hw_reading_who who = start(&pid);
        assert_int_equal(read_child(l, who, &m), HW_OK);
        assert_true(m.smaps.entries.n > 0 && m.maps.n > 0 && m.status.vm_rss_kb > 0);
        assert_int_equal(m.heaps_ns != 0, what == NOTHING);
        assert_int_equal(m.arenas.v.n != 0, what == NOTHING);
        hw_reading_memory_done(&m);
        if (what == NO_ANSWER) /* and it is asked for nothing more */
            assert_int_equal(read_child(l, who, &m), HW_ETIMEOUT);
        if (what != END) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, NULL, 0);
        }
        hw_pid_done(&pid);
    }
    happens = NOTHING; /* others are read as before */
    struct hw_reading_who who = start(&pid);
    who.uid++;
    assert_int_equal(read_child(l, who, &m), HW_OK);
    assert_true(m.heaps_ns != 0);
    hw_reading_memory_done(&m);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    hw_pid_done(&pid);
    hw_blocking_reader_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mappings_stay_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
