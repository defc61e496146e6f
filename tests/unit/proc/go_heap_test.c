/*
 * go_heap_test.c - a Go program, against its own runtime.MemStats, but for what telling takes; without Go it is skipped
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/go_heap.h"

/* Deep stacks, large and small objects, two thirds of them freed; then it tells, and changes nothing. */
static const char program[] =
    "package main\n"
    "import (\"fmt\"; \"runtime\"; \"syscall\")\n"
    "var keep [][]byte\n"
    "func deep(n int, c chan int) int {\n"
    "  var a [64]int\n"
    "  a[n%64] = n\n"
    "  if n > 0 { return deep(n-1, c) + a[n%64] }\n"
    "  return <-c\n"
    "}\n"
    "func main() {\n"
    "  c := make(chan int)\n"
    "  for i := 0; i < 50; i++ { go func() { deep(500, c) }() }\n"
    "  for i := 0; i < 400; i++ { keep = append(keep, make([]byte, 100000)) }\n"
    "  for i := 0; i < 50000; i++ { keep = append(keep, make([]byte, 200)) }\n"
    "  for i := range keep { if i%3 != 0 { keep[i] = nil } }\n"
    "  runtime.GC(); runtime.GC()\n"
    "  var m runtime.MemStats\n"
    "  runtime.ReadMemStats(&m)\n"
    "  fmt.Println(m.HeapInuse, m.HeapIdle-m.HeapReleased, m.StackInuse,\n"
    "    m.MSpanSys+m.MCacheSys+m.BuckHashSys+m.GCSys+m.OtherSys, m.HeapAlloc)\n"
    "  b := make([]byte, 1)\n"
    "  syscall.Read(0, b)\n"
    "}\n";

static int run(const char *dir, const char *command)
{
    char line[512];
    (void)snprintf(line, sizeof line,
                   "cd %s && GO111MODULE=off GOFLAGS= GOCACHE=%s/cache CGO_ENABLED=0 %s", dir, dir,
                   command);
    return system(line); /* NOLINT: a test's own words */
}

static void write_program(const char *dir)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/m.go", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(program, f);
    assert_int_equal(fclose(f), 0);
}

static struct hw_go_heap read_process(pid_t pid)
{
    char path[64];
    struct hw_smaps s;
    struct hw_go_heap h;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    hw_autofd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    assert_int_equal(hw_go_heap_read(&s, mem, pagemap, &h), HW_OK);
    hw_smaps_done(&s);
    return h;
}

static void check(const char *dir)
{
    char path[256], said[256];
    int out[2], in[2];
    size_t n = 0;
    unsigned long long in_use, idle, stacks, rest, objects;
    (void)snprintf(path, sizeof path, "%s/m", dir);
    assert_int_equal(pipe(out) | pipe(in), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], 1);
        (void)dup2(in[0], 0);
        (void)close(in[1]);
        (void)execl(path, path, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    while (n == 0 || (said[n - 1] != '\n' && n + 1 < sizeof said)) {
        ssize_t got = read(out[0], said + n, sizeof said - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    said[n] = '\0';
    struct hw_go_heap h = read_process(pid);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(in[0]), (void)close(in[1]), (void)close(out[0]);
    print_message(
        "state %d objects %zu in use %zu idle %zu stacks %zu work %zu metadata %zu; it says "
        "%s",
        (int)h.state, (size_t)h.objects, (size_t)h.in_use, (size_t)h.idle, (size_t)h.stacks,
        (size_t)h.work, (size_t)h.metadata, said);
    assert_int_equal(
        sscanf(said, "%llu %llu %llu %llu %llu", &in_use, &idle, &stacks, &rest, &objects), 5);
    assert_int_equal(h.state, HW_GO_HEAP_KNOWN);
    assert_true(h.stacks >= stacks &&
                h.stacks - stacks <= 131072); /* the runtime's own grow, too */
    /* To print the numbers takes a few objects, and the background sweeper may return pages. */
    assert_true(h.in_use >= in_use && h.in_use - in_use <= 65536);
    /* The collector, too, gives buffers back: what it has less is idle then. */
    uint64_t all = h.idle + h.metadata + h.work;
    assert_true(h.idle <= idle + 131072 && h.metadata + h.work + 131072 >= rest);
    assert_true(h.metadata + h.work <= rest + 65536 && all <= idle + rest + 65536);
    assert_true(h.objects + 131072 >= objects && h.objects <= objects + 131072);
    assert_int_equal(h.in_use + h.idle + h.stacks + h.work, h.committed);
}

static void a_program_is_as_it_says(void **state)
{
    char dir[] = "/tmp/go_heap_test.XXXXXX";
    (void)state;
    if (system("go version >/dev/null 2>&1") != 0) { /* NOLINT: as above */
        print_message("no Go\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    write_program(dir);
    int built = run(dir, "go build -o m m.go && cp m plain && go build -ldflags='-s -w' -o m m.go");
    if (built == 0)
        check(dir); /* without symbols */
    if (built == 0 && run(dir, "mv plain m") == 0)
        check(dir);
    (void)run(dir, "rm -rf cache m m.go plain; rmdir $PWD");
    assert_int_equal(built, 0);
    assert_int_equal(read_process(getpid()).state, HW_GO_HEAP_NONE);
}

/* Statistics that this process only pretends to have: a heap of 64 KiB, a span and a stack of 8 KiB each in use. */
enum { IN_USE = 2, STACKS, AT_METADATA = 444, N_METADATA = 5, AT_8_BYTES = 10 };

static void metadata_is_mapped_somewhere(void **state)
{
    char path[] = "/tmp/go_heap_test.XXXXXX";
    void *heap = mmap((void *)UINT64_C(0xc000000000), 65536, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    hw_autofd int fd = mkstemp(path);
    (void)state;
    if (heap == MAP_FAILED) {
        print_message("somebody else is where Go's heap begins\n");
        skip();
    }
    assert_int_equal(unlink(path) | ftruncate(fd, 4096), 0);
    uint64_t *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_true(w != MAP_FAILED);
    w[0] = 65536;
    w[IN_USE] = w[STACKS] = 8192;
    w[AT_8_BYTES] = 3;
    for (size_t i = 0; i < N_METADATA; i++)
        w[AT_METADATA + i] = 4096;
    struct hw_go_heap h = read_process(getpid());
    assert_int_equal(h.state, HW_GO_HEAP_KNOWN);
    assert_int_equal(h.objects, 24);
    assert_int_equal(h.metadata, N_METADATA * 4096);
    for (size_t i = 0; i < N_METADATA; i++) {
        w[AT_METADATA + i] = UINT64_C(1) << 45;
        h = read_process(getpid());
        w[AT_METADATA + i] = 4096;
        assert_int_equal(h.state, HW_GO_HEAP_UNKNOWN);
    }
    (void)munmap(heap, 65536), (void)munmap(w, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_as_it_says),
        cmocka_unit_test(metadata_is_mapped_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
