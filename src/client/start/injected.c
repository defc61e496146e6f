/*
 * injected.c - commands to a client that was put into a running process
 *
 *      outside                                     in the stopped thread
 *      dlopen(library) ------------------------->  constructor: finds the real functions
 *      block.command = HOOK
 *      dlsym(library, "heapwise_attach_run") --->  libc takes the loader's lock, calls resolve_run
 *                                                  tables changed, control page filled
 *      block.result <---------------------------
 *
 * The handshake is left to the program's next allocation, on whatever thread, as for preloaded
 * processes that are called: here the recorder may be waiting for us.
 */

#include "wire/attach.h"

#include <link.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/patch.h"
#include "client/hooks/python_objects.h"
#include "client/sample/marks.h"
#include "client/sample/minfo.h"
#include "client/session/client_session.h"
#include "client/start/start.h"
#include "wire/records.h"

HW_EXPORT struct hw_attach_block heapwise_attach_block = {.magic = HW_ATTACH_MAGIC,
                                                          .version = HW_WIRE_VERSION};
static bool prepared;

/* With glibc a handle is the object's entry in the loader's list. */
void hw_attach_note_handle(void)
{
    const struct link_map *m = _r_debug.r_map;
    while (m && !hw_boot_is_us(m))
        m = m->l_next;
    heapwise_attach_block.handle = (uint64_t)(uintptr_t)m;
}

static uint32_t prepare(void)
{
    bool own;
    if (prepared)
        return HW_ATTACHED_OK;
    if (!hw_boot_find("malloc", &own))
        return HW_ATTACHED_NO_MALLOC;
    if (hw_boot_is_built_in())
        return HW_ATTACHED_BUILT_IN;
    if (!hw_boot_find("free", &own) || !own || !hw_boot_find("realloc", &own) || !own)
        return HW_ATTACHED_MIXED;
    if (hw_client_prepare() != 0)
        return HW_ATTACHED_NO_MEMORY;
    hw_minfo_init();
    prepared = true;
    return HW_ATTACHED_OK;
}

static uint32_t patch(struct hw_attach_block *b, bool on)
{
    struct hw_patch_counts n = {0};
    hw_patch_all(on, &n);
    if (on)
        hw_marks_join_loaded();
    b->n_slots = n.n_slots;
    b->n_changed = n.n_changed;
    b->n_modules = n.n_modules;
    b->hooked = n.n_slots != 0;
    return HW_ATTACHED_OK;
}

static uint32_t hook(struct hw_attach_block *b)
{
    if (hw_client_session_has_recorder())
        return HW_ATTACHED_BUSY;
    uint32_t rc = prepare();
    if (rc != HW_ATTACHED_OK)
        return rc;
    (void)hw_client_session_detach(); /* left by a recorder that died */
    rc = patch(b, /* on = */ true);
    if (rc != HW_ATTACHED_OK)
        return rc;
    if (b->n_slots == 0)
        return HW_ATTACHED_NO_SLOT;
    hw_client_session_call(b->socket_path, b->generation);
    return HW_ATTACHED_OK;
}

static uint32_t run(struct hw_attach_block *b)
{
    hw_boot();
    if (!hw_boot_is_injected())
        return HW_ATTACHED_NOT_LATE;
    switch (b->command) {
    case HW_ATTACH_HOOK:
        return hook(b);
    case HW_ATTACH_REFRESH:
        return b->hooked ? patch(b, /* on = */ true) : HW_ATTACHED_OK;
    case HW_ATTACH_UNHOOK:
        b->left = !hw_client_session_detach();
        b->left |= !hw_python_objects_remove();
        return patch(b, /* on = */ false);
    default: /* from outside */
        return HW_ATTACHED_UNKNOWN;
    }
}

static void done(void)
{
}

/* Called by libc for any lookup of the name; without a command nothing happens. */
static void (*resolve_run(void))(void)
{
    struct hw_attach_block *b = &heapwise_attach_block;
    if (b->command != HW_ATTACH_NONE) {
        b->result = run(b);
        b->command = HW_ATTACH_NONE;
    }
    return done;
}

HW_EXPORT void heapwise_attach_run(void) __attribute__((ifunc("resolve_run")));
