/*
 * sanitizer.c - gets out of a sanitizer's way before anything of the program has run
 *
 *   exec -> the loader maps the program, us (LD_PRELOAD) and all libraries
 *        -> and relocates them, the last first: for our indirect function it calls decide()
 *             a sanitizer is there -> the same program again, without us
 *        -> .preinit_array, where AddressSanitizer ends a program that has another library before
 *           its runtime; then the constructors, ours among them: too late
 *
 * Whatever started the program (a shell, make, something static) has only passed on a variable, so
 * nothing could have checked before this moment. Here the loader has found everything: what the
 * program needs, what its libraries need, and the rest of LD_PRELOAD.
 *
 * At this moment no child can have our variables yet, either (a program held at its exec).
 *
 * Nothing of libc is called, not even memcpy: a sanitizer replaces it by its own, which would first
 * check what is loaded before it, or is not relocated yet. There are no thread-local data either.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "client/boot.h"
#include "client/client.h"
#include "client/kernel/kernel.h"
#include "client/kernel/now.h"
#include "client/start/env.h"
#include "client/start/start.h"
#include "wire/handshake.h"

#define MAX_ARGS       (1u << 24)
#define MAX_OURS       8 /* variables, each of them perhaps twice */
#define PATH_BYTES     4096
#define ARGUMENT_BYTES (4 << 20)

extern void *__libc_stack_end; /* of the loader: where the kernel has put argc */

/* As a loop the compiler would make it a call of memmove. */
static inline void no_call(void)
{
    __asm__ volatile("" ::: "memory");
}

static bool begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;
    return *with == '\0';
}

static const char *base_name(const char *path)
{
    const char *base = path;
    for (const char *p = path; *p; p++)
        base = *p == '/' ? p + 1 : base;
    return base;
}

/* ---- what the loader has found ---- */

static bool is_runtime(const struct link_map *m)
{
    static const char names[][24] = {
#define RUNTIME(prefix) prefix,
#include "base/sanitizers.def"
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (begins(base_name(m->l_name), names[i]))
            return true;
    return false;
}

static bool has_runtime_inside(const struct link_map *m)
{
    static const char names[][24] = {
#define INIT(symbol) symbol,
#include "base/sanitizers.def"
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (hw_boot_defines(m, names[i]))
            return true;
    /* GCC's does not show them, except those that a program may add to it. */
    return hw_boot_defines(m, "malloc") && hw_boot_imports(m, "__sanitizer_");
}

/* It precedes libc: a running program that we were put into never gets here. */
static bool is_preloaded(const struct link_map *all)
{
    bool before = false;
    for (const struct link_map *m = all; m; m = m->l_next) {
        before |= hw_boot_is_us(m);
        if (before && begins(base_name(m->l_name), "libc.so."))
            return true;
    }
    return false;
}

static bool is_sanitized(const struct link_map *all)
{
    bool sanitized = all && has_runtime_inside(all);
    for (const struct link_map *m = all; m; m = m->l_next)
        sanitized |= is_runtime(m);
    return sanitized;
}

/* ---- how it was started ---- */

struct start {
    char **argv, **env;
    const ElfW(auxv_t) * auxv;
    size_t n_taken;
    struct {
        size_t at;
        char *entry;
    } taken[MAX_OURS]; /* out of env */
};

static bool read_start(struct start *s)
{
    uintptr_t *at = __libc_stack_end;
    if (!at || *at == 0 || *at > MAX_ARGS || at[1 + *at] != 0)
        return false;
    s->n_taken = 0;
    s->argv = (char **)(at + 1);
    s->env = s->argv + *at + 1;
    char **end = s->env;
    while (*end)
        end++;
    s->auxv = (const ElfW(auxv_t) *)(const void *)(end + 1);
    return true;
}

static uintptr_t auxiliary(const struct start *s, uintptr_t type)
{
    for (const ElfW(auxv_t) *a = s->auxv; a->a_type != AT_NULL; a++)
        if (a->a_type == type)
            return (uintptr_t)a->a_un.a_val;
    return 0;
}

/* ---- its environment without us ---- */

static bool is_between(char c)
{
    return c == ':' || c == ' ' || c == '\0';
}

/* Takes our name out of "a:b c". */
static bool take_us_out(char *value)
{
    bool named = false;
    char *out = value;
    for (char *p = value; *p;) {
        char *word = p, *last = p;
        for (; !is_between(*p); p++)
            last = *p == '/' ? p + 1 : last;
        bool ours = begins(last, "libheapprofd_glibc_preload.so") &&
                    last + sizeof "libheapprofd_glibc_preload.so" - 1 == p;
        named |= ours;
        if (!ours && word < p) {
            if (out != value)
                *out++ = ':';
            while (word < p) {
                *out++ = *word++;
                no_call();
            }
        }
        p += *p != '\0'; /* after their separator; out is not before it */
    }
    *out = '\0';
    return named;
}

/* False: somebody else wants us here, and the same would come again and again. */
static bool take_ours(struct start *s)
{
    bool named = false;
    char **out = s->env;
    for (size_t i = 0; s->env[i]; i++) {
        char *e = s->env[i];
        bool goes = begins(e, "HEAPWISE_SOCKET=") || begins(e, "HEAPWISE_HELD=") ||
                    begins(e, "PERFETTO_HEAPPROFD_BLOCKING_INIT=");
        if (begins(e, "LD_PRELOAD=") && take_us_out(e + sizeof "LD_PRELOAD=" - 1)) {
            named = true;
            goes = e[sizeof "LD_PRELOAD=" - 1] == '\0';
        }
        if (goes && s->n_taken < MAX_OURS) {
            s->taken[s->n_taken].at = i;
            s->taken[s->n_taken++].entry = e;
        } else {
            *out++ = e;
        }
    }
    *out = NULL;
    return named;
}

/* The auxiliary vector is found after the end of this array. */
static void put_back(struct start *s)
{
    size_t n = 0;
    while (s->env[n])
        n++;
    for (size_t i = 0; i < s->n_taken; i++, n++) {
        for (size_t k = n; k > s->taken[i].at; k--) {
            s->env[k] = s->env[k - 1];
            no_call();
        }
        s->env[s->taken[i].at] = s->taken[i].entry;
    }
    s->env[n] = NULL;
}

/* ---- the same program again ---- */

static bool identify(const char *path, struct statx *out)
{
    return hw_raw_call(SYS_statx, AT_FDCWD, (long)path, 0, STATX_INO, (long)out, 0) == 0;
}

static void leave(const struct start *s, const char *path)
{
    (void)hw_raw_call(SYS_execve, (long)path, (long)s->argv, (long)s->env,
                      (long)HW_EXEC_WITHOUT_LIBRARY, 0, 0); /* it may fail: the caller goes on */
}

/* Under the name by which it was started, which is its short name: a script's is another file's. */
static void execute(const struct start *s, const char *path, const struct statx *is)
{
    struct statx st;
    if (path && identify(path, &st) && st.stx_ino == is->stx_ino &&
        st.stx_dev_major == is->stx_dev_major && st.stx_dev_minor == is->stx_dev_minor)
        leave(s, path); /* else the next name */
}

static void execute_again(struct start *s)
{
    static const char self[] = "/proc/self/exe";
    char path[PATH_BYTES];
    struct statx is;
    if (take_ours(s) && identify(self, &is)) {
        execute(s, (const char *)auxiliary(s, AT_EXECFN), &is);
        long n =
            hw_raw_call(SYS_readlinkat, AT_FDCWD, (long)self, (long)path, sizeof path - 1, 0, 0);
        path[n > 0 ? n : 0] = '\0';
        execute(s, path, &is);
        leave(s, self);
    }
    put_back(s); /* it continues as if we had not checked */
}

/* `ld.so PROGRAM` has moved its arguments on the stack; the kernel still has the original ones. */
static char **first_arguments(void)
{
    static const char path[] = "/proc/self/cmdline";
#if defined(__i386__)
    long number = SYS_mmap2;
#else
    long number = SYS_mmap;
#endif
    char *text = (char *)hw_raw_call(number, 0, 2 * ARGUMENT_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char **argv = (char **)(void *)(text + ARGUMENT_BYTES);
    long fd = hw_raw_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    long n = 0, got;
    size_t k = 0;
    if ((uintptr_t)text > (uintptr_t)-4096 || fd < 0)
        return NULL; /* without memory here the program ends soon anyway */
    while ((got = hw_raw_call(SYS_read, fd, (long)(text + n), ARGUMENT_BYTES - n, 0, 0, 0)) > 0)
        n += got;
    (void)hw_raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
    for (long i = 0; i < n && k + 1 < ARGUMENT_BYTES / sizeof *argv; i++)
        if (i == 0 || text[i - 1] == '\0')
            argv[k++] = text + i;
    return n > 0 && n < ARGUMENT_BYTES && text[n - 1] == '\0' ? argv : NULL;
}

/* ---- a program that was held at its exec ---- */

static const char *held[MAX_OURS]; /* what was taken out of its environment */
static size_t n_held;
static const char *again;

static bool is_held(const struct start *s)
{
    for (char **e = s->env; *e; e++)
        if (begins(*e, "HEAPWISE_HELD="))
            return true;
    return false;
}

/* Constructors of libraries run before ours, and nobody asked for what they start. The auxiliary
 * vector follows this array, so it keeps its length: the last entry is repeated, until our
 * constructor gives libc an array of its own (env.c). */
static void take_out(struct start *s)
{
    static char nothing[] = "";
    size_t n = 0;
    if (!take_ours(s)) {
        put_back(s);
        return;
    }
    while (s->env[n])
        n++;
    again = n ? s->env[n - 1] : nothing;
    for (size_t i = 0; i < s->n_taken; i++) {
        s->env[n + i] = n ? s->env[n - 1] : nothing;
        held[i] = s->taken[i].entry;
    }
    n_held = s->n_taken;
}

const char *hw_start_variable(const char *name)
{
    for (size_t i = 0; i < n_held; i++) {
        const char *e = held[i], *n = name;
        while (*n && *e == *n)
            e++, n++;
        if (*n == '\0' && *e == '=')
            return e + 1;
    }
    return NULL;
}

const char *hw_start_repeated_entry(void)
{
    return again;
}

/* ---- at relocation ---- */

typedef void gate_fn(void);

static void open_gate(void)
{
}

static uint64_t loaded_ns;
static int32_t loaded_by; /* 0 = not known */

static void note_load(void)
{
    struct {
        long s, ns;
    } now;
    if (hw_raw_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0) != 0)
        return;
    loaded_ns = (uint64_t)now.s * 1000000000u + (uint64_t)now.ns;
    loaded_by = (int32_t)hw_raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

uint64_t hw_start_tree_timeout_ns(uint64_t timeout_ns, uint64_t least_ns)
{
    if (loaded_by == 0 || loaded_by == getpid())
        return timeout_ns;
    uint64_t spent_ns = hw_local_ns() - loaded_ns;
    uint64_t left_ns = spent_ns < timeout_ns ? timeout_ns - spent_ns : 0;
    return left_ns > least_ns ? left_ns : least_ns;
}

__attribute__((used)) static gate_fn *decide(void)
{
    struct start s;
    if (!is_preloaded(_r_debug.r_map) || !read_start(&s) || auxiliary(&s, AT_SECURE))
        return open_gate;
    note_load();
    if (is_sanitized(_r_debug.r_map)) {
        if (!auxiliary(&s, AT_BASE)) /* the loader was started by hand */
            s.argv = first_arguments();
        if (s.argv)
            execute_again(&s);
    } else if (is_held(&s)) {
        take_out(&s);
    }
    return open_gate;
}

static void gate(void) __attribute__((ifunc("decide")));
__attribute__((used)) static gate_fn *const volatile asks_for_it = gate;
