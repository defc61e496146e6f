/*
 * visit_test.c - visits that never come to their end: threads that exit, handlers that jump
 */
#include "test.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/thread/client_guard.h"
#include "client/thread/slabs.h"
#include "client/thread/stack_bounds.h"
#include "client/thread/thread_id.h"

static struct hw_client_session session;

void hw_push_skip_abandoned(struct hw_client_session *s)
{
    (void)s; /* no session here */
}

uint32_t hw_thread_query_id(struct hw_tls *t)
{
    return t->tid = (uint32_t)gettid() & ((1u << HW_TID_BITS) - 1);
}

static void thread_ends(void *slab) /* no scopes here */
{
    if (!hw_slab_is_kept(slab))
        hw_slab_leave(slab);
}

static void start(void)
{
    memset(&hw_here, 0, sizeof hw_here);
    session.generation = 1;
    atomic_store(&hw_process_page.session, &session);
    hw_stacks_init();
}

static void *exits_inside(void *arg)
{
    struct hw_client_guard v;
    (void)arg;
    assert_non_null(hw_slab_get());
    hw_enter(&v);
    pthread_exit(NULL);
}

static void test_thread_ends_inside(void **state)
{
    (void)state;
    start();
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, exits_inside, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(hw_slabs_idle());
}

static sigjmp_buf back;

static void jumps(int sig)
{
    siglongjmp(back, sig);
}

__attribute__((noipa)) static void enter_and_jump(void)
{
    struct hw_client_guard v;
    hw_enter(&v);
    assert_false(v.nested);
    raise(SIGUSR1); /* never comes back */
    hw_leave(&v);
}

/* Deeper than the visit that was left; its frames lie where that one was. */
__attribute__((noipa)) static bool nested_below(int depth)
{
    volatile char frame[200];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (char)depth;
    if (depth > 0) {
        bool nested = nested_below(depth - 1);
        frame[0] = 1;
        return nested;
    }
    struct hw_client_guard v;
    hw_enter(&v);
    bool nested = v.nested;
    hw_leave(&v);
    return nested;
}

static bool nested_in_handler;

static void visits(int sig)
{
    (void)sig;
    nested_in_handler = nested_below(3);
}

static void with_slab(bool slab)
{
    start();
    if (slab)
        assert_non_null(hw_slab_get());
    (void)signal(SIGUSR1, jumps);
    if (sigsetjmp(back, 1) == 0)
        enter_and_jump();
    assert_false(hw_slabs_idle());
    assert_false(nested_below(20));
    assert_true(hw_slabs_idle());
    /* A handler that comes back is inside the visit, on this stack and on another. */
    stack_t ss = {.ss_size = 65536};
    ss.ss_sp = mmap(NULL, ss.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(sigaltstack(&ss, NULL), 0);
    for (int on = 0; on < 2; on++) {
        struct sigaction a = {.sa_handler = visits, .sa_flags = on ? SA_ONSTACK : 0};
        assert_int_equal(sigaction(SIGUSR1, &a, NULL), 0);
        struct hw_client_guard v;
        hw_enter(&v);
        raise(SIGUSR1);
        assert_true(nested_in_handler);
        assert_false(hw_slabs_idle());
        hw_leave(&v);
        assert_true(hw_slabs_idle());
    }
}

static void test_handler_jumps_out(void **state)
{
    (void)state;
    with_slab(false);
    with_slab(true);
}

/* A call just above the lowest known page: what lies below it is looked at once. */
static void test_room_is_kept(void **state)
{
    char frame[16384];
    (void)state;
    start();
    uint64_t page = ((uint64_t)(uintptr_t)frame + 12288) & ~4095ull;
    hw_main_stack.lo = page;
    assert_true(hw_stack_has_room(page + 100));
    assert_true(hw_main_stack.lo <= page + 100 - HW_STACK_NEEDED);
    assert_true(hw_main_stack.lo + 4096 > page + 100 - HW_STACK_NEEDED);
}

/* ---- a program with so many keys that ours would cost memory in each thread ---- */

static _Thread_local bool watched;
static _Atomic int n_allocated;
extern void *__libc_calloc(size_t n, size_t size);

void *calloc(size_t n, size_t size)
{
    if (watched)
        n_allocated++;
    return __libc_calloc(n, size);
}

static _Atomic uint32_t most;
static pthread_barrier_t all_here;

static void *takes_slab(void *wait)
{
    struct hw_client_guard v;
    watched = true;
    struct hw_slab *s = hw_slab_get();
    hw_enter(&v);
    watched = false;
    assert_non_null(s);
    assert_int_equal(v.slab_before, 0);
    if (s->index > most)
        most = s->index;
    if (wait)
        pthread_barrier_wait(&all_here);
    hw_leave(&v);
    return s;
}

static void test_slabs_come_back(void **state)
{
    (void)state;
    start();
    atomic_store(&hw_process_page.pid, getpid());
    pthread_t t;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(pthread_create(&t, NULL, takes_slab, NULL), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
    }
    assert_int_equal(n_allocated, 0);
    assert_in_range(most, 0, 47);
}

static void test_living_threads_keep_theirs(void **state)
{
    enum { THREADS = 60 };
    pthread_t t[THREADS];
    void *slab[THREADS];
    (void)state;
    start();
    atomic_store(&hw_process_page.pid, getpid());
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, takes_slab, t), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(t[i], &slab[i]), 0);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(slab[i], slab[k]);
}

static int with_many_keys(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slabs_come_back),
                                       cmocka_unit_test(test_living_threads_keep_theirs)};
    pthread_key_t key;
    for (int i = 0; i < 40; i++)
        assert_int_equal(pthread_key_create(&key, NULL), 0);
    assert_int_equal(hw_slabs_init(thread_ends), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "keys") == 0)
        return with_many_keys();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_thread_ends_inside),
                                       cmocka_unit_test(test_handler_jumps_out),
                                       cmocka_unit_test(test_room_is_kept)};
    assert_int_equal(hw_slabs_init(thread_ends), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
