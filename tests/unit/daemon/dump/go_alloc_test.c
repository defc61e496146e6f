/* go_alloc_test.c - readings of a Go program that pretends */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/blocking_reader.h"
#include "daemon/core.h"
#include "daemon/dump/go_alloc.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

struct written {
    struct hw_session s;
    struct hw_go_alloc *g;
    uint64_t heaps_ns;
};

/* n stacks of one function each, whose names begin with a number. True: it is in the trace. */
static bool write_one(struct written *w, unsigned first, unsigned n, uint64_t allocated)
{
    struct hw_reading_go from = {.state = HW_GO_PROFILE_KNOWN, .rate = 1};
    struct hw_reading_memory m = {.go_alloc = &from, .heaps_ns = ++w->heaps_ns};
    struct hw_error err;
    uint64_t before = w->s.n_samples;
    assert_int_equal(hw_strings_new(&from.strings), 0);
    for (unsigned i = 0; i < n; i++) {
        char name[1024];
        struct hw_reading_go_frame f = {.line = 1};
        (void)snprintf(name, sizeof name, "%u%01000d", first + i, 0);
        assert_int_equal(hw_strings_intern(from.strings, hw_bytes_str(name), &f.function), 0);
        assert_int_equal(hw_vec_push(&from.frames, f), 0);
        assert_int_equal(hw_vec_push(&from.stack, i), 0);
        assert_int_equal(
            hw_vec_push(&from.sites, ((struct hw_reading_go_site){8, allocated, 0, i, 1})), 0);
    }
    assert_int_equal(hw_go_alloc_write(&w->s, &w->g, 1, &m, &err), HW_OK);
    hw_strings_free(from.strings);
    hw_vec_done(&from.frames);
    hw_vec_done(&from.stack);
    hw_vec_done(&from.sites);
    return w->s.n_samples > before;
}

static void begin(struct written *w, int fd)
{
    *w = (struct written){.heaps_ns = hw_now_boottime_ns()};
    assert_int_equal(hw_trace_writer_new(fd, &w->s.writer, NULL), 0);
}

static void end(struct written *w)
{
    hw_go_alloc_free(&w->s, w->g);
    hw_profile_writer_free(w->s.go_writer);
    hw_trace_writer_free(w->s.writer);
}

static void nothing_goes_down(void **state)
{
    (void)state;
    struct written w;
    hw_autofd int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    begin(&w, fd);
    assert_true(write_one(&w, 0, 3, 10));
    assert_false(write_one(&w, 0, 4, 9));  /* less of some */
    assert_false(write_one(&w, 1, 9, 11)); /* one has gone */
    w.heaps_ns -= 9;
    assert_false(write_one(&w, 0, 9, 20)); /* of an earlier time */
    w.heaps_ns += 9;
    assert_true(write_one(&w, 0, 4, 11));
    end(&w);
}

static void stacks_are_bounded(void **state)
{
    (void)state;
    struct written w;
    unsigned n = 0;
    hw_autofd int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    begin(&w, fd);
    for (bool is_in = true; is_in && n < 20; n += is_in)
        is_in = write_one(&w, 0, 5000 * (n + 1), n + 1);
    assert_in_range(n, 2, 14); /* times 5 MB, at least */
    assert_true(hw_go_alloc_is_known(w.g));
    assert_false(write_one(&w, 0, 5000, 100)); /* no more */
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_goes_down),
                                       cmocka_unit_test(stacks_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
