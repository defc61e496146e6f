/*
 * injected_bare.c - commands to the bare client
 *
 *      outside                                        in the stopped thread
 *      maps the library, fills heapwise_bare_block
 *      calls heapwise_bare_run  ------------------->  HOOK: takes the real functions, prepares
 *      changes the program's code                     the control page: the next allocation shakes
 *      ...                                            hands
 *      changes it back
 *      calls heapwise_bare_run  ------------------->  UNHOOK: ends the recording
 *
 * The program's code leads to our hooks only while the block says hooked.
 */
#include <sys/mman.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/sandbox.h"
#include "client/kernel/now.h"
#include "client/sample/live_set.h"
#include "client/session/client_session.h"
#include "client/start/start.h"
#include "client/thread/slabs.h"
#include "client/thread/stack_bounds.h"
#include "wire/attach.h"

extern struct hw_bare_block heapwise_bare_block;
extern HW_HIDDEN void *__libc_stack_end;

int hw_client_prepare(void)
{
    static bool prepared;
    if (prepared)
        return 0;
    (void)madvise(&hw_process_page_block, sizeof hw_process_page_block,
                  MADV_WIPEONFORK); /* before 4.14: none */
    hw_stacks_init();
    if (hw_slabs_init(NULL) != 0 || hw_live_set_init() != 0)
        return -1;
    prepared = true;
    return 0;
}

static uint32_t hook(const struct hw_bare_block *b)
{
    if (hw_client_session_has_recorder())
        return HW_ATTACHED_BUSY;
    __libc_stack_end = (void *)(uintptr_t)b->main_stack_hi;
    hw_bare_take_real();
    hw_sandbox_init();
    hw_clock_init((void *)(uintptr_t)b->clock);
    if (hw_client_prepare() != 0)
        return HW_ATTACHED_NO_MEMORY;
    (void)hw_client_session_detach(); /* left by a recorder that died */
    hw_client_session_call(b->attach.socket_path, b->attach.generation);
    return HW_ATTACHED_OK;
}

HW_EXPORT uint64_t heapwise_bare_run(void);
HW_EXPORT uint64_t heapwise_bare_run(void)
{
    struct hw_bare_block *b = &heapwise_bare_block;
    uint32_t command = b->attach.command;
    b->attach.result = HW_ATTACHED_OK;
    if (command == HW_ATTACH_HOOK)
        b->attach.result = hook(b);
    else if (command == HW_ATTACH_UNHOOK)
        b->attach.left = !hw_client_session_detach();
    else if (command != HW_ATTACH_REFRESH) /* nothing comes later */
        b->attach.result = HW_ATTACHED_UNKNOWN;
    b->attach.command = HW_ATTACH_NONE;
    return b->attach.result;
}
