/* narrow.c - malloc where little stack is left: in handlers on small alternate stacks, on fibers of
 * a few KiB with a guard or with somebody's memory below them, in threads that have nearly used up
 * theirs. Without a guard nobody can see where a fiber ends: there more is left to a call. Says
 * what was written below. "wait": goes on until a line comes, allocating on the alternate stack
 * only; then on both. */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "target.h"

enum { BELOW = 32768, PATTERN = 0x5a, LEFT = 2304 };
SITE(fn_main)
SITE(fn_alt)
SITE(fn_fiber)
SITE(fn_thread)

/* BELOW bytes that are not ours to write to, then n of a stack. */
static char *guarded(size_t n, int prot)
{
    char *p = mmap(NULL, BELOW + n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    memset(p, PATTERN, BELOW);
    if (mprotect(p, BELOW, prot) != 0)
        exit(1);
    return p + BELOW;
}

static void look_below(const char *what, const char *stack)
{
    size_t dirty = 0;
    for (size_t i = 0; i < BELOW; i++)
        if (stack[-1 - (long)i] != PATTERN)
            dirty = i + 1;
    printf("%s: %s\n", what, dirty ? "written below" : "untouched");
}

static void on_usr1(int sig)
{
    (void)sig;
    void *p = fn_alt(200000); /* more than any interval of the test's */
    FREE_OF(fn_alt, p, 200000);
}

static char *set_alternate(size_t n)
{
    char *stack = guarded(n, PROT_READ | PROT_WRITE);
    stack_t ss = {.ss_sp = stack, .ss_size = n};
    struct sigaction a = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&ss, NULL) != 0 || sigaction(SIGUSR1, &a, NULL) != 0)
        exit(1);
    return stack;
}

static void alternate(void)
{
    unsigned long least = getauxval(AT_MINSIGSTKSZ);
    for (size_t more = 768; more <= 6144; more += 768) {
        char *stack = set_alternate((least ? least : 2048) + more);
        for (int i = 0; i < 20; i++)
            raise(SIGUSR1);
        look_below("alternate stack", stack);
    }
}

/* Leaves `left` bytes of the stack that begins at low. */
NOIPA static void use_up(const char *low, size_t left, void *(*then)(size_t), size_t n)
{
    char here;
    size_t have = (size_t)(&here - low);
    if (have > left + 256) {
        volatile char *p = __builtin_alloca(have - left - 192);
        p[0] = 1;
        (void)!then(n);
        p[1] = 2;
    } else {
        (void)!then(n);
    }
}

static ucontext_t scheduler, fiber;
static char *fiber_stack;
static size_t fiber_left;

static void body(void)
{
    for (int i = 0; i < 8; i++)
        use_up(fiber_stack, fiber_left, fn_fiber, 100);
}

static void run_fiber(size_t n, size_t left, int prot)
{
    fiber_stack = guarded(n, prot);
    fiber_left = left;
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = fiber_stack;
    fiber.uc_stack.ss_size = n;
    fiber.uc_link = &scheduler;
    makecontext(&fiber, body, 0);
    swapcontext(&scheduler, &fiber);
    if (prot != PROT_NONE)
        look_below("fiber", fiber_stack);
}

static size_t thread_left;
static void *run(void *arg)
{
    (void)!fn_thread(100); /* the allocator's own first call needs more */
    for (int i = 0; i < 20; i++)
        use_up(arg, thread_left + 100 * (size_t)i, fn_thread, 100);
    return NULL;
}

static void thread(int prot)
{
    enum { BYTES = 16384 };
    char *stack = guarded(BYTES, prot);
    pthread_attr_t a;
    pthread_t t;
    thread_left = prot == PROT_NONE ? 640 : LEFT;
    pthread_attr_init(&a);
    if (pthread_attr_setstack(&a, stack, BYTES) != 0 || pthread_create(&t, &a, run, stack) != 0)
        exit(1);
    pthread_join(t, NULL);
    if (prot != PROT_NONE)
        look_below("thread", stack);
}

static volatile sig_atomic_t told;
static void on_term(int sig)
{
    (void)sig;
    told = 1;
}

static void wait_for_term(void)
{
    char *stack = set_alternate(getauxval(AT_MINSIGSTKSZ) + 3072);
    signal(SIGTERM, on_term);
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; !told; i++) {
        raise(SIGUSR1);
        usleep(1000);
        if (i > 500) {
            void *p = fn_main(200000);
            FREE_OF(fn_main, p, 200000);
        }
    }
    look_below("alternate stack", stack);
}

int main(int argc, char **argv)
{
    (void)!fn_main(10);
    on_usr1(0), (void)!fn_fiber(8); /* bound by the loader before little is left */
    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        wait_for_term();
        return 0;
    }
    alternate();
    for (size_t n = 4096; n <= 8192; n += 2048) {
        run_fiber(n, LEFT, PROT_READ | PROT_WRITE);
        run_fiber(n, LEFT, PROT_NONE);
        run_fiber(n, 640, PROT_NONE);
    }
    thread(PROT_READ | PROT_WRITE);
    thread(PROT_NONE);
    fflush(stdout);
    return 0;
}
