/*
 * jvm_start.c - loads the library for JVMs into the process, when the recorder asks for it
 *
 * A hook may normally not start a thread or call dlopen: both take locks of libc's, and malloc is
 * called under those locks. Here they are safe, because libjvm's own code asked for the block: it
 * is inside no function of libc. The hook starts the thread after its visit; the library is loaded
 * on that thread. Its signals are blocked: they are the program's. A JVM that the java command
 * creates is known earlier (launcher.c), in code that holds no lock either.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/heaps.h"
#include "client/hooks/jvm_start.h"
#include "client/kernel/own_memory.h"
#include "client/kernel/sys.h"
#include "client/sample/managed.h"
#include "heapwise/heap_profile.h"
#include "wire/java_entrance.h"

static struct {
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*pthread_detach)(pthread_t);
    void *(*dlopen)(const char *, int);
    void *(*dlsym)(void *, const char *);
} real;

static bool awaits_end(void)
{
    return atomic_load_explicit(&hw_control.java_end_wanted, memory_order_relaxed) != 0 &&
           atomic_load_explicit(&hw_control.generation, memory_order_relaxed) != 0 &&
           atomic_load_explicit(&hw_control.ended, memory_order_relaxed) == 0;
}

static struct hw_java_entrance entrance = {.version = HW_JAVA_ENTRANCE_VERSION,
                                           .bytes = sizeof entrance,
                                           .set = heapwise_managed_set,
                                           .name = heapwise_managed_name,
                                           .suppress = hw_managed_suppress_thread,
                                           .heap = hw_heaps_make,
                                           .sample = hw_heaps_sample,
                                           .report_free = AHeapProfile_reportFree,
                                           .sync = hw_heaps_sync,
                                           .awaits_end = awaits_end,
                                           .own_memory = hw_own_memory_add_for_good};
static _Atomic uint32_t begun;
static char library[sizeof hw_control.java_library];

/* The loader's list does not change meanwhile. */
void hw_java_init(void)
{
    bool own;
    *(void **)&real.pthread_create = hw_boot_find("pthread_create", &own);
    *(void **)&real.pthread_detach = hw_boot_find("pthread_detach", &own);
    *(void **)&real.dlopen = hw_boot_find("dlopen", &own);
    *(void **)&real.dlsym = hw_boot_find("dlsym", &own);
}

static void *find_entry(const char *name)
{
    enum { NOW = 2 }; /* RTLD_NOW; no other object sees its names */
    memcpy(library, hw_control.java_library, sizeof library);
    library[sizeof library - 1] = '\0';
    void *handle = real.dlopen(library, NOW);
    return handle ? real.dlsym(handle, name) : NULL;
}

static void *enter(void *unused)
{
    hw_managed_suppress_thread(); /* loading allocates */
    hw_java_enter_fn *fn = NULL;
    *(void **)&fn = find_entry(HW_JAVA_ENTER);
    if (fn)
        fn(&entrance);
    return unused;
}

/* True once per process. */
static bool begin(void)
{
    uint32_t none = 0;
    return real.pthread_create && real.pthread_detach && real.dlopen && real.dlsym &&
           !hw_sandbox() && atomic_compare_exchange_strong(&begun, &none, 1);
}

/* Our threads inherit the mask. The program's signals are not for them, but those that their own
 * faults raise are. */
static bool block_signals(uint64_t *before)
{
    uint64_t all = ~0ull;
    for (int i = 1; i <= 31; i++)
        if (i == SIGSEGV || i == SIGBUS || i == SIGFPE || i == SIGILL || i == SIGTRAP ||
            i == SIGABRT)
            all &= ~(1ull << (i - 1));
    return hw_kernel(SYS_rt_sigprocmask, SIG_SETMASK, &all, before, sizeof all) == 0;
}

static void restore_signals(const uint64_t *before)
{
    (void)hw_kernel(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof *before);
}

HW_COLD void hw_java_load_library(void)
{
    uint64_t before = 0;
    pthread_t thread;
    if (!begin() || !block_signals(&before))
        return;
    if (real.pthread_create(&thread, NULL, enter, NULL) == 0)
        (void)real.pthread_detach(thread);
    restore_signals(&before);
}

HW_COLD void hw_java_vm_created(void *vm, void *env)
{
    uint64_t before = 0;
    hw_java_made_fn *fn = NULL;
    if (atomic_load_explicit(&hw_control.java_lo, memory_order_acquire) == 0 || !begin())
        return;
    bool was_suppressed = hw_managed_suppress(true);
    *(void **)&fn = find_entry(HW_JAVA_MADE);
    if (fn && block_signals(&before)) {
        fn(&entrance, vm, env);
        restore_signals(&before);
    }
    (void)hw_managed_suppress(was_suppressed);
}
