/*
 * python_objects_test.c - taking our functions out of CPython's table while a thread puts them there
 */
#include "test.h"

#include <stdlib.h>

#include "client/client.h"
#include "client/hooks/heaps.h"
#include "client/hooks/python_objects.h"
#include "client/hooks/sample_due.h"
#include "client/hooks/slow_path.h"
#include "client/sample/capture.h"
#include "client/sample/heap_table.h"
#include "client/sample/live_set.h"
#include "client/thread/thread_id.h"

/* What the hooks call; none is called here. */
_Atomic uint8_t hw_live_set_counters[HW_LIVE_COUNTERS];
_Atomic uint32_t hw_python_heap;

uint32_t hw_heaps_make(const char *name, void (*enabled)(uint64_t), void (*disabled)(void))
{
    (void)name;
    (void)enabled;
    (void)disabled;
    abort();
}

bool hw_heaps_wants_python(const struct hw_client_session *s)
{
    (void)s;
    abort();
}

uint64_t hw_sampler_take(uint64_t n, uint64_t sp)
{
    (void)n;
    (void)sp;
    abort();
}

struct hw_held hw_hold(uint32_t heap_id, const void *p)
{
    (void)heap_id;
    (void)p;
    abort();
}

void hw_let_go(const struct hw_held *h, uint32_t heap_id, uint64_t id, bool failed)
{
    (void)h;
    (void)heap_id;
    (void)id;
    (void)failed;
    abort();
}

bool hw_record_alloc(const struct hw_event *e)
{
    (void)e;
    abort();
}

void hw_report_free(uint32_t heap_id, uint64_t id)
{
    (void)heap_id;
    (void)id;
    abort();
}

void hw_push_skip_abandoned(struct hw_client_session *s)
{
    (void)s;
    abort();
}

uint32_t hw_thread_query_id(struct hw_tls *t)
{
    (void)t;
    abort();
}

/* It was stopped at any place, perhaps by the very detach that wants the table back: waiting would last forever, and
 * going on would leave what that thread writes afterwards. */
static void test_remove_while_placing(void **state)
{
    (void)state;
    atomic_store(&hw_process_page.objects_lock, 1);
    assert_false(hw_python_objects_remove());
    assert_int_equal(atomic_load(&hw_process_page.objects_lock), 1);
    atomic_store(&hw_process_page.objects_lock, 0);
    assert_true(hw_python_objects_remove());
    assert_int_equal(atomic_load(&hw_process_page.objects_lock), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_remove_while_placing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
