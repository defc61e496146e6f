/*
 * fork.c - a child of fork
 *
 * The live page is wiped by the kernel, so every kind of child is silent before anything runs. What
 * is done here is tidying, for children of libc's fork: the token is the parent's, and so is the
 * memory of its session. Raw clones keep both, harmlessly.
 *
 * What is mapped at a fork the child has, too. The parent's ring says when that is, so that the
 * recorder knows what it was.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "client/client.h"
#include "client/ring/mapped_tables.h"
#include "client/ring/push.h"
#include "client/sample/armed.h"
#include "client/session/client_session.h"
#include "client/session/end_token.h"
#include "client/session/exchange.h"
#include "client/start/env.h"
#include "client/start/start.h"

static void before(void)
{
    hw_forked_token = hw_push_fork(); /* two threads at once: their children have mapped the same */
}

static void in_child(void)
{
    if (atomic_load(&hw_process_page.started) != 0) /* not wiped: an old kernel */
        memset(&hw_process_page_block, 0, sizeof hw_process_page_block);
    hw_here.tid = 0;
    hw_token_drop();
    hw_armed_forked();
    if (hw_client_session_strips_children())
        hw_env_strip(); /* nobody has asked for what the child executes */
    struct hw_client_session *s = hw_client_session_last;
    hw_client_session_last = NULL;
    /* A handler may have forked in the middle of our code: then it must find what it returns to. */
    if (!s || hw_here.busy != 0 || s->config.flags & HW_CC_DISABLE_FORK_TEARDOWN)
        return;
    hw_tables_unmap(s);
    hw_ring_detach(&s->ring);
    (void)munmap(s, sizeof *s);
}

void hw_fork_init(void)
{
    (void)pthread_atfork(before, NULL, in_child); /* fails for lack of memory only: then untidy */
}
