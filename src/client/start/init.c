/*
 * init.c - the library's constructor
 *
 * Runs after the constructors of the libraries we need (only libc) and before the program's. It
 * asks a recorder once, if it finds a recorder's socket; without one only the hooks remain. If
 * armed it asks nobody yet (armed.h).
 *
 * Constructors of the program's libraries run before ours. If one of them allocates, its first
 * allocation does most of this: all but what changes the environment or the tables of the program's
 * calls, as it may come from setenv, or from the allocator's own start.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/jvm_start.h"
#include "client/hooks/mmap_hooks.h"
#include "client/hooks/patch.h"
#include "client/hooks/sample_due.h"
#include "client/hooks/sandbox.h"
#include "client/kernel/kernel.h"
#include "client/kernel/now.h"
#include "client/ring/thread_slices.h"
#include "client/sample/armed.h"
#include "client/sample/live_set.h"
#include "client/sample/marks.h"
#include "client/sample/minfo.h"
#include "client/session/client_session.h"
#include "client/start/env.h"
#include "client/start/start.h"
#include "client/thread/slabs.h"
#include "client/thread/stack_bounds.h"
#include "wire/handshake.h"

#define ONE_SECOND_NS 1000000000ull
/* A program that we did not start, but held at its exec: a recorder that does not answer must
 * not slow it. */
#define HELD_NS 200000000ull
/* A child that a library's constructor has forked has what its parent's program has left, or this:
 * a recorder that does not answer is waited for once, not once a child. */
#define CHILD_NS 50000000ull

static bool is_ready; /* to sample */
static bool strips;   /* our variables are to go from the environment */

static const char *variable(const char *name)
{
    const char *taken = hw_start_variable(name);
    return taken ? taken : secure_getenv(name);
}

static const char *socket_path(bool *asked_for, const char **other)
{
    static char file[128];
    const char *p = variable("HEAPWISE_SOCKET");
    *asked_for = p && *p;
    if (*asked_for && p[0] == '@' && strlen(p) + sizeof HW_SOCKET_FILES <= sizeof file) {
        /* The name belongs to the recorder's network namespace; the file does not. */
        memcpy(file, HW_SOCKET_FILES, sizeof HW_SOCKET_FILES);
        memcpy(file + sizeof HW_SOCKET_FILES - 1, p + 1, strlen(p));
        *other = file;
    }
    if (*asked_for)
        return p;
    p = secure_getenv("PERFETTO_PRODUCER_SOCK_NAME");
    if (p && *p)
        return p;
    /* Root's service, else the user's own recorder, which cannot write to /run. */
    *other = HW_SOCKET_OF_USER;
    return HW_SOCKET_OF_SERVICE;
}

static void *clock_of_kernel(void)
{
#if defined(__aarch64__)
    const char *name = "__kernel_clock_gettime";
#else
    const char *name = "__vdso_clock_gettime";
#endif
    bool own;
    return hw_boot_first(name, &own); /* the vdso is in the loader's list */
}

/* The destructor of a slab. */
static void thread_ends(void *slab)
{
    if (hw_slab_is_kept(slab))
        return;
    hw_slices_thread_ends(slab);
    hw_slab_leave(slab);
}

int hw_client_prepare(void)
{
    hw_kernel_init();
    hw_clock_init(clock_of_kernel());
    /* EINVAL on kernels before 4.14: the fork handler wipes it then, for forks by libc. */
    (void)madvise(&hw_process_page_block, sizeof hw_process_page_block, MADV_WIPEONFORK);
    hw_sandbox_init();
    hw_mappings_init();
    hw_fork_init();
    hw_stacks_init();
    hw_java_init();
    return hw_slabs_init(thread_ends) != 0 || hw_live_set_init() != 0 ? -1 : 0;
}

/* held: the value of the mark; NULL = none. */
static void begin(const char *held)
{
    bool asked_for;
    hw_marks_join_loaded();
    hw_launcher_init();
    const char *other = "";
    const char *path = socket_path(&asked_for, &other);
    hw_minfo_init();
    hw_client_session_init(path, other);
    const char *blocking = variable("PERFETTO_HEAPPROFD_BLOCKING_INIT");
    bool wait = blocking && strcmp(blocking, "1") == 0;
    if (held && !wait && !hw_launcher_is_java() && hw_armed_begin(held))
        return;
    uint32_t flags =
        HW_HELLO_STARTUP | (wait ? HW_HELLO_BLOCKING : 0u) | (held ? HW_HELLO_HELD : 0u);
    uint64_t timeout_ns = held ? HELD_NS : wait || asked_for ? 10 * ONE_SECOND_NS : ONE_SECOND_NS;
    hw_client_session_start(flags, hw_start_tree_timeout_ns(timeout_ns, CHILD_NS));
    strips = hw_client_session_strips();
}

/* It reports every load below the stack pointer and every odd system call to its user, ours
 * included, and has replaced the allocator by its own functions. */
static bool is_under_valgrind(void)
{
    static const char name[] = "/vgpreload_core";
    const char *at = secure_getenv("LD_PRELOAD");
    while (at && (at = strchr(at, '/')) && strncmp(at, name, sizeof name - 1) != 0)
        at++;
    return at;
}

/* False: somebody has already, or does. */
static bool is_first(void)
{
    return atomic_exchange(&hw_begin_early, NULL) != NULL;
}

static void start(bool is_constructor)
{
    hw_never_samples = is_under_valgrind();
    is_ready = !hw_never_samples && hw_client_prepare() == 0;
    if (is_ready && is_constructor)
        hw_patch_operators();
    if (is_ready)
        begin(variable("HEAPWISE_HELD"));
}

/*
 * A child in our memory (vfork, CLONE_VM) is another process, and nothing here says yet which number
 * ours has. libc gives each thread of its own a list of robust locks, at the start and after a fork; the
 * kernel gives it to no child.
 */
static bool is_own_thread(void)
{
    void *head = NULL;
    size_t n = 0;
    return hw_kernel(SYS_get_robust_list, 0, &head, &n) == 0 && head != NULL;
}

/* The environment is there once libc's own constructor has run. What follows takes less stack than a
 * sample (744 bytes). */
static void begin_early(void)
{
    if (!environ || !is_own_thread())
        return;
    hw_boot();
    hw_env_init();
    if (!hw_boot_is_injected() && is_first())
        start(/* is_constructor = */ false);
}

void (*_Atomic hw_begin_early)(void) = begin_early;

__attribute__((constructor)) static void client_init(void)
{
    hw_boot();
    bool first = is_first();
    if (hw_boot_is_injected()) { /* injected.c's block says what to do */
        hw_attach_note_handle();
        return;
    }
    hw_env_init();
    if (first)
        start(/* is_constructor = */ true);
    else if (is_ready)
        hw_patch_operators();
    if (variable("HEAPWISE_HELD") || strips) /* held: nobody asked for its children */
        hw_env_strip();
}
