/*
 * diagnose_test.c - what an empty recording of running processes is told to be
 */
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "config/command/explain.h"
#include "inject/inject.h"
#include "proc/pid.h"
#include "record/diagnosis.h"
#include "record/recording.h"

static const char *code_of(const struct hw_recording *r, const char *says)
{
    static struct hw_finding f;
    hw_diagnose_recording(r, /* program = */ NULL, &f);
    if (!strstr(f.text, says))
        fail_msg("'%s' does not say '%s'", f.text, says);
    return f.code;
}

/* It connected shortly before the end: that says nothing about the program. */
static void test_profiled_briefly(void)
{
    struct hw_seen_target seen = {
        .pid = 7, .called = true, .connected = true, .called_ns = 1, .connected_ns = 1};
    struct hw_recording r = {.is_ended = true, .stopped_ns = 200000000};
    r.targets.v = &seen;
    r.targets.n = 1;
    seen.name = (char[]){"late"};
    assert_string_equal(code_of(&r, "'late') was profiled only for the last 199 ms"), "not-ready");
    r.stopped_ns = 2000000000;
    assert_string_equal(code_of(&r, "allocations of 'late' (7) was sampled"), "never-allocated");
    seen.called = false; /* a program of ours, from its start */
    r.stopped_ns = 200000000;
    assert_string_equal(code_of(&r, "allocations of 'late' (7) was sampled"), "never-allocated");
}

/* The best reason counts: refused, then ready and nothing came, then nothing known. */
static void test_reasons(void **state)
{
    (void)state;
    struct hw_recording r = {.is_ended = true};
    assert_string_equal(code_of(&r, "no process of that name"), "no-process");
    r.lacked_descriptors = true;
    assert_string_equal(code_of(&r, "no more descriptors"), "no-descriptors");
    r.lacked_descriptors = false;
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    struct hw_seen_target seen[] = {{.pid = gone, .state = HW_TARGET_CALLED, .called = true},
                                    {.pid = 7, .state = HW_TARGET_REJECTED, .reason = "held"}};
    r.targets.v = seen;
    r.targets.n = 1;
    assert_string_equal(code_of(&r, "ended without another allocation"), "never-allocated");
    seen[0].pid = getpid();
    assert_string_equal(code_of(&r, "but allocated nothing"), "never-allocated");
    seen[0].called_ns = hw_now_monotonic_ns();
    assert_string_equal(code_of(&r, "did not answer in them: nothing could be recorded"),
                        "not-ready");
    /* The recording's end counts, not when somebody asks. */
    seen[0].called_ns = 1;
    r.stopped_ns = 200000000;
    assert_string_equal(code_of(&r, "only for the last 199 ms of"), "not-ready");
    r.stopped_ns = 0;
    seen[0].called_ns = hw_now_monotonic_ns();
    r.targets.n = 2;
    assert_string_equal(code_of(&r, "process 7: held"), "rejected");
    test_profiled_briefly();
    /* A session that was taken over: its processes came before. */
    r = (struct hw_recording){.is_ended = true, .is_adopted = true};
    assert_string_equal(code_of(&r, "no process was profiled"), "no-process");
    r.ended.n_targets = 2;
    assert_string_equal(code_of(&r, "allocations was sampled"), "never-allocated");
    r.ended.n_samples = 5;
    assert_false(hw_recording_is_empty(&r, NULL));
}

/* One that nothing is wrong with was not ready in time. */
static void test_not_ready(void **state)
{
    (void)state;
    int ready[2];
    uint64_t pid = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t middle = fork();
    if (middle == 0) { /* its child is not ours: what we start ourselves are workers */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid = (uint64_t)fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        (void)!write(ready[1], &pid, sizeof pid);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &pid, sizeof pid), sizeof pid);
    struct hw_finding f;
    struct hw_pid p;
    assert_int_equal(hw_pid_open((int32_t)pid, &p, NULL), 0);
    bool possible = hw_inject_check(&p, NULL) == 0; /* not with a sanitizer inside */
    hw_pid_done(&p);
    hw_diagnose_wanted(&pid, 1, NULL, 0, /* no_running = */ false, &f);
    assert_string_equal(f.code, possible ? "not-ready" : "asan");
    if (possible)
        assert_non_null(hw_explain_remedy(f.code));
    kill(middle, SIGKILL);
    waitpid(middle, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

HW_TEST_MAIN(cmocka_unit_test(test_reasons), cmocka_unit_test(test_not_ready))
