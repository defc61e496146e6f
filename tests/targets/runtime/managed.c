/*
 * managed.c - a program with a little runtime of its own, whose functions no ELF file knows
 *
 * Usage: managed
 * The "methods" of the runtime are numbers; run() interprets them, each nesting one level deeper,
 * and the innermost ones allocate. The runtime hands its frames to the client as an agent would: in
 * a sampled malloc it answers with the methods that are active now, in the place of run()'s frames.
 * Method 7 has its name told only at the end, all others as soon as a session was seen.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "heapwise/managed_frames.h"
#include "target.h"

enum { N_METHODS = 8, DEEPEST = 6, KIND = 1 };

extern char __start_vmcode[], __stop_vmcode[]; /* run() and nothing else */
static _Thread_local uint32_t active[N_METHODS + 1], n_active;
static _Atomic uint32_t generation;
static struct site sites[2][N_METHODS];

NOIPA static void *fn_small(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("");
    return p;
}

NOIPA static void *fn_large(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("");
    return p;
}

/* Every method allocates by both functions and then calls the next one. */
__attribute__((noipa, section("vmcode"))) static void run(uint32_t method, int round)
{
    active[n_active++] = method;
    void *p = site_add(&sites[0][method], fn_small(16 + method), 16 + method);
    (void)site_add(&sites[1][method], fn_large(3000 + method), 3000 + method);
    free(p);
    site_sub(&sites[0][method], 16 + method);
    if (method < DEEPEST)
        run(method + 1, round);
    n_active--;
}

static uint64_t id_of(uint32_t method)
{
    return (uint64_t)KIND << 56 | (method + 1);
}

static int frames(void *ctx, const struct heapwise_native_stack *in,
                  struct heapwise_managed_stack *out)
{
    (void)ctx;
    generation = in->generation;
    if (n_active == 0)
        return 0;
    uint32_t i = 0;
    while (i < in->n_pcs && in->pcs[i] - (uint64_t)(uintptr_t)__start_vmcode >
                                (uint64_t)(__stop_vmcode - __start_vmcode))
        i++;
    if (i + n_active > in->n_pcs)
        return 0;
    out->at = i;
    out->n_removed = out->n_ids = n_active;
    for (uint32_t k = 0; k < n_active; k++)
        out->ids[k] = id_of(active[n_active - 1 - k]);
    return 1;
}

static int (*tell)(uint32_t, uint64_t, const struct heapwise_managed_text *);

static void name(uint32_t method)
{
    char function[32], file[32];
    struct heapwise_managed_text t = {.function = function,
                                      .file = file,
                                      .module = "[java] vm.jar",
                                      .n_module = method == 2 ? 0 : 13,
                                      .line = 10 * (method + 1)};
    t.n_function = (size_t)snprintf(function, sizeof function, "vm.Main.method%u", method);
    t.n_file = (size_t)snprintf(file, sizeof file, "Main%u.java", method);
    if (tell && generation && tell(generation, id_of(method), &t) != 0)
        abort();
}

static void *tell_names(void *arg)
{
    for (uint32_t i = 0; i < N_METHODS - 1; i++)
        name(i);
    return arg;
}

int main(void)
{
    static const struct heapwise_managed_source source = {HEAPWISE_MANAGED_VERSION, frames, NULL};
    int (*set)(const struct heapwise_managed_source *);
    pthread_t t;
    *(void **)&set = dlsym(RTLD_DEFAULT, "heapwise_managed_set");
    *(void **)&tell = dlsym(RTLD_DEFAULT, "heapwise_managed_name");
    if (set && (set(&source) != 0 || set(&source) == 0)) /* the first one stays */
        abort();
    run(0, 0);
    if (pthread_create(&t, NULL, tell_names, NULL) != 0 || pthread_join(t, NULL) != 0)
        abort();
    for (int i = 1; i < 100; i++)
        run((uint32_t)i % 3, i);
    run(7, 0);
    name(7);
    for (uint32_t m = 0; m < N_METHODS; m++) {
        char text[2][40];
        for (int k = 0; k < 2; k++) {
            (void)snprintf(text[k], sizeof text[k], "vm.Main.method%u;%s", m,
                           k ? "fn_large" : "fn_small");
            sites[k][m].name = text[k];
            expect_one(&sites[k][m]);
        }
    }
    return 0;
}
