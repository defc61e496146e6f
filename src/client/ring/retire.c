/*
 * retire.c - unpublishes a session
 *
 * On any thread, also inside a visit. Threads that are inside may finish; what the session owns is
 * unmapped later, by a thread that holds the session's lock (session/session_end.c).
 */
#include "client/ring/retire.h"
#include "client/client.h"

static _Atomic(struct hw_client_session *) retired; /* not collected yet, newest first */

/* Unless the next session has begun already. */
static void stop_marks(const struct hw_client_session *s)
{
    uint32_t generation = s->generation & HW_MARKS_GENERATION;
    (void)__atomic_compare_exchange_n(&hw_marks_shown.on, &generation, 0, /* weak = */ false,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

bool hw_client_session_retire(struct hw_client_session *s)
{
    struct hw_client_session *expected = s;
    if (!atomic_compare_exchange_strong(&hw_process_page.session, &expected, NULL))
        return false;
    stop_marks(s);
    struct hw_client_session *head = atomic_load(&retired);
    do
        s->next = head;
    while (!atomic_compare_exchange_weak(&retired, &head, s));
    return true;
}

struct hw_client_session *hw_client_session_collect(void)
{
    return atomic_exchange(&retired, NULL);
}

void hw_client_session_give_up(struct hw_client_session *s, enum hw_client_error why)
{
    uint32_t none = HW_CLIENT_OK;
    (void)atomic_compare_exchange_strong(&s->ring.shm->client_error, &none, (uint32_t)why);
    atomic_store(&hw_process_page.settled, s->generation);
    (void)hw_client_session_retire(s);
}
