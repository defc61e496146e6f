/*
 * jit.c - makes code at run time and says what it is, in one of the two usual ways
 *
 * Usage: jit map | dump | late | other
 *   map    a line of /tmp/perf-PID.map in front of each function's first call
 *   dump   a record of jit-PID.dump, with source lines, in the same way; one function is moved
 *   late   the same records, all written at the end, as writers with a buffer do
 *   other  map, but the file is a link to what the program has written elsewhere: nobody reads it
 * Each function calls malloc. `second` takes the place of `first` when that is not needed any more.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

typedef void *fn(size_t);

static unsigned char *code; /* one page, writable and executable */
static int fd = -1;
static bool is_dump, is_late;
static unsigned char records[16384]; /* not written yet */
static size_t n_records;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put(const void *p, size_t n)
{
    memcpy(records + n_records, p, n);
    n_records += n;
}
static void put32(uint32_t v)
{
    put(&v, 4);
}
static void put64(uint64_t v)
{
    put(&v, 8);
}

static void flush(void)
{
    if (n_records && write(fd, records, n_records) != (ssize_t)n_records)
        abort();
    n_records = 0;
}

/* push %rbp; mov %rsp,%rbp; pad nops; movabs $malloc,%rax; call *%rax; pop %rbp; ret */
static size_t assemble(unsigned char *at, size_t pad)
{
    static const unsigned char head[] = {0x55, 0x48, 0x89, 0xe5}, call[] = {0xff, 0xd0, 0x5d, 0xc3};
    void *(*target)(size_t) = malloc;
    size_t n = sizeof head;
    memcpy(at, head, n);
    memset(at + n, 0x90, pad);
    n += pad;
    at[n++] = 0x48;
    at[n++] = 0xb8;
    memcpy(at + n, &target, 8);
    n += 8;
    memcpy(at + n, call, sizeof call);
    return n + sizeof call;
}

static void say_lines(unsigned char *at, uint32_t line)
{
    put32(2);
    put32(16 + 16 + 16 + 5);
    put64(now_ns());
    put64((uint64_t)(uintptr_t)at);
    put64(1);
    put64((uint64_t)(uintptr_t)at);
    put32(line);
    put32(0);
    put("a.js", 5);
}

static void say(const char *name, unsigned char *at, size_t n, uint32_t line)
{
    char text[128];
    if (is_dump) {
        say_lines(at, line);
        put32(0);
        put32((uint32_t)(16 + 40 + strlen(name) + 1 + n));
        put64(now_ns());
        put32((uint32_t)getpid());
        put32((uint32_t)getpid());
        put64((uint64_t)(uintptr_t)at);
        put64((uint64_t)(uintptr_t)at);
        put64(n);
        put64(line);
        put(name, strlen(name) + 1);
        put(at, n);
    } else {
        put(text, (size_t)snprintf(text, sizeof text, "%lx %zx %s\n", (unsigned long)at, n, name));
    }
    if (!is_late)
        flush();
}

static void moved(unsigned char *from, unsigned char *to, size_t n)
{
    put32(1);
    put32(16 + 48);
    put64(now_ns());
    put32(1);
    put32(1);
    put64((uint64_t)(uintptr_t)to);
    put64((uint64_t)(uintptr_t)from);
    put64((uint64_t)(uintptr_t)to);
    put64(n);
    put64(1);
    if (!is_late)
        flush();
}

static unsigned char *make(const char *name, unsigned char *at, size_t pad, uint32_t line)
{
    size_t n = assemble(at, pad);
    say(name, at, n, line);
    return at;
}

static void pause_for(long ms)
{
    struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

static void pause_a_moment(void) /* longer than the coarse clock's tick */
{
    pause_for(60);
}

NOIPA static void call(unsigned char *at, const char *name, size_t size, int times)
{
    fn *f;
    memcpy(&f, &at, sizeof f);
    for (int i = 0; i < times; i++)
        if (!f(size))
            abort();
    printf("JIT %s %d %zu\n", name, times, size * (size_t)times);
}

static void open_dump(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "jit-%d.dump", (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    put32(0x4a695444);
    put32(1);
    put32(40);
    put32(62);
    put32(0);
    put32((uint32_t)getpid());
    put64(now_ns());
    put64(0);
    flush();
    if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        abort();
}

static void open_map(bool other)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    if (other && symlink("perf.map", path) < 0)
        abort();
    fd = open(other ? "perf.map" : path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        abort();
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "map";
    static char out[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out); /* its buffer is nobody's malloc */
#if !defined(__x86_64__)
    return 77;
#endif
    is_late = strcmp(way, "late") == 0;
    is_dump = is_late || strcmp(way, "dump") == 0;
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        abort();
    if (is_dump)
        open_dump();
    else
        open_map(strcmp(way, "other") == 0);
    unsigned char *first = make("first", code, 0, 10);
    unsigned char *stays = make("it stays", code + 512, 3, 20);
    call(first, "first", 1000, 10);
    call(stays, "it stays", 300, 7);
    pause_for(400); /* a map has no times: `first` is named by it before there is another */
    (void)make("second", code, 8, 30);
    call(first, "second", 2000, 5);
    call(stays, "it stays", 30, 2);
    if (is_dump) {
        memmove(code + 1024, stays, 64);
        moved(stays, code + 1024, 64);
        (void)make("in its place", stays, 16, 40);
        pause_a_moment();
        call(code + 1024, "it stays", 500, 4);
        call(stays, "in its place", 50, 4);
    }
    flush();
    pause_a_moment();
    return 0;
}
