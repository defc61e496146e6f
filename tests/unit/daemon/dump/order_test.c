/*
 * order_test.c - whose dump waits for whose
 *
 * Images of one process, and processes of one number, of which only what decides is filled in.
 */
#include "test.h"

#include "daemon/core.h"
#include "daemon/dump/dump_job.h"

enum { SHELL, PROGRAM, OTHER_PROCESS, OTHER_SESSION, N };

struct world {
    struct hw_recorder rec;
    struct hw_session sessions[2];
    struct hw_target targets[N];
    struct hw_snapshot empty, full;
};

/* A shell that executes a program, and others that are none of their business. */
static void make(struct world *w)
{
    *w = (struct world){.full = {.n_samples = 1}};
    for (uint32_t i = 0; i < N; i++) {
        struct hw_target *t = &w->targets[i];
        t->rec = &w->rec;
        t->session = &w->sessions[i == OTHER_SESSION];
        t->key = i + 1;
        t->pid = (struct hw_pid){.pid = i == OTHER_PROCESS ? 8 : 7, .start_ticks = 1};
        t->phase = i == PROGRAM ? HW_PHASE_RUNNING : HW_PHASE_FINISHING;
        t->dump.snap = &w->full;
        assert_int_equal(hw_vec_push(&w->rec.targets, t), 0);
    }
    w->targets[SHELL].launcher = true;
    w->targets[SHELL].end = HW_END_EXECED;
}

static void done(struct world *w)
{
    hw_vec_done(&w->rec.targets);
}

/* Its dumps in between were written, and its last one takes them back. */
static void test_an_image_that_is_not_shown(void **state)
{
    struct world w;
    make(&w);
    (void)state;
    assert_false(hw_dump_is_worth(&w.targets[SHELL]));
    assert_ptr_equal(hw_dump_image_before(&w.targets[PROGRAM]), &w.targets[SHELL]);
    w.targets[SHELL].phase = HW_PHASE_DONE;
    assert_null(hw_dump_image_before(&w.targets[PROGRAM]));
    assert_null(hw_dump_image_before(&w.targets[SHELL]));
    done(&w);
}

static void test_what_is_shown(void **state)
{
    struct world w;
    make(&w);
    (void)state;
    assert_true(hw_dump_is_worth(&w.targets[PROGRAM]));
    w.targets[PROGRAM].end = HW_END_EXECED;
    assert_true(hw_dump_is_worth(&w.targets[PROGRAM]));
    w.targets[PROGRAM].dump.snap = &w.empty; /* it only started another */
    assert_false(hw_dump_is_worth(&w.targets[PROGRAM]));
    w.targets[PROGRAM].end = HW_END_EXITED;
    assert_true(hw_dump_is_worth(&w.targets[PROGRAM]));
    done(&w);
}

static void test_a_number_that_is_used_again(void **state)
{
    struct world w;
    make(&w);
    (void)state;
    w.targets[PROGRAM].pid.start_ticks = 2;
    assert_ptr_equal(hw_dump_number_before(&w.targets[PROGRAM]), &w.targets[SHELL]);
    assert_ptr_equal(hw_dump_image_before(&w.targets[PROGRAM]), &w.targets[SHELL]);
    done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_image_that_is_not_shown),
        cmocka_unit_test(test_what_is_shown),
        cmocka_unit_test(test_a_number_that_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
