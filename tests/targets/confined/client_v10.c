/*
 * client_v10.c - a client library of protocol version 10, as it may still be in a running program
 *
 * Why:    such a program is recorded by newer recorders as well. This one speaks the protocol from
 *         tests/frozen/wire_v10.h alone, and is as strict as that library was.
 * Usage:  client_v10 [SOCKET]: asks the recorder there (default: $HEAPWISE_SOCKET), waits to be
 *         called where it is told to, then records allocations that it makes up. Ends with 1 and a
 *         reason when something is not as version 10 has it.
 * Output: "wait" when it had to, "profile", and EXPECT lines as in target.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../../frozen/wire_v10.h"

#define NOIPA       __attribute__((noipa, used))
#define WAIT_STEPS  6000
#define STEP_US     10000
#define SCOPE       "scope_v10"
#define SCOPE_ID    ((uint64_t)V10_MANAGED_SCOPE << 56 | 4711)
#define WORDS_MAX   64
#define REGS_X86_64 17

#define FAIL(...) (printf("version 10: " __VA_ARGS__), putchar('\n'), fflush(stdout), exit(1))
#define CHECK(x)  ((x) ? (void)0 : FAIL("%s", #x))

static struct v10_welcome welcome;
static struct v10_control_page *control;
static struct v10_ring_shm *ring;
static uint8_t *data;
static uint32_t tid;

/* Whose addresses are in the stacks. */
NOIPA static void fn_full(void)
{
}
NOIPA static void fn_short(void)
{
}
NOIPA static void fn_named(void)
{
}
NOIPA static void fn_copied(void)
{
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- the handshake ---- */

static int dial(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    CHECK(n != 0 && n < sizeof a.sun_path);
    memcpy(a.sun_path, path, n);
    if (path[0] == '@')
        a.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] != '@'));
    if (connect(fd, (struct sockaddr *)&a, len) < 0)
        FAIL("no recorder at %s: %s", path, strerror(errno));
    return fd;
}

static uint32_t arch_here(void)
{
#if defined(__x86_64__)
    return V10_ARCH_X86_64;
#elif defined(__aarch64__)
    return V10_ARCH_ARM64;
#else
    return V10_ARCH_X86;
#endif
}

/* Gives the number of descriptors that came with the welcome. */
static int shake_hands(const char *path, uint32_t flags, int fds[V10_WELCOME_FDS])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } space;
    struct v10_hello h = {.magic = V10_HELLO_MAGIC,
                          .version = V10_VERSION,
                          .arch = arch_here(),
                          .flags = flags,
                          .page_size = (uint32_t)sysconf(_SC_PAGESIZE),
                          .pid_inside = getpid(),
                          .tables_kib = V10_TABLES_BYTES / 1024};
    struct iovec iov = {&welcome, sizeof welcome};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = space.bytes,
                       .msg_controllen = sizeof space.bytes};
    int fd = dial(path);
    CHECK(send(fd, &h, sizeof h, MSG_NOSIGNAL) == (ssize_t)sizeof h);
    ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    if (got != (ssize_t)sizeof welcome || (m.msg_flags & MSG_TRUNC))
        FAIL("a welcome of %zd bytes, not %zu", got, sizeof welcome);
    CHECK(welcome.magic == V10_WELCOME_MAGIC);
    if (welcome.version != V10_VERSION)
        FAIL("a welcome of version %u", welcome.version);
    CHECK(welcome.status <= V10_WELCOME_PROFILE);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int n = c ? (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
    CHECK(n <= V10_WELCOME_FDS);
    if (c)
        memcpy(fds, CMSG_DATA(c), (size_t)n * sizeof(int));
    return n; /* the connection stays open: its end is ours */
}

static void *map_sealed(int fd, uint64_t n_bytes, int protection, int how)
{
    struct stat st;
    CHECK(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
    CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size >= n_bytes);
    void *p = mmap(NULL, n_bytes, protection, how | MAP_NORESERVE, fd, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static void map_control(int fd)
{
    control = map_sealed(fd, V10_CONTROL_BYTES, PROT_READ, MAP_PRIVATE);
    CHECK(control->magic == V10_CONTROL_MAGIC);
    CHECK(control->version == V10_VERSION);
}

static void map_ring(int fd)
{
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    uint8_t *all = map_sealed(fd, (uint64_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED);
    ring = (struct v10_ring_shm *)all;
    data = all + 4096;
    CHECK(ring->magic == V10_RING_MAGIC);
    if (ring->version != V10_VERSION)
        FAIL("a ring of version %u", ring->version);
    CHECK(ring->data_bytes + ring->slots_bytes + 4096 == (uint64_t)st.st_size);
    CHECK((ring->data_bytes & (ring->data_bytes - 1)) == 0 && ring->data_bytes >= 65536);
    CHECK(ring->write_pos == V10_RING_FIRST_POS);
    ring->target_behind_ns = 0;
}

static void check_tables(int fd)
{
    const struct v10_tables_dir *d = map_sealed(fd, V10_TABLES_BYTES, PROT_READ, MAP_SHARED);
    CHECK(d->magic == V10_TABLES_MAGIC);
    CHECK(d->version == V10_TABLE_VERSION);
    CHECK(d->arch == arch_here());
    const struct v10_module_snapshot *s =
        (const struct v10_module_snapshot *)((const char *)d + d->snapshot_off);
    uint64_t pc = (uint64_t)(uintptr_t)fn_full;
    uint32_t i = 0;
    CHECK(d->snapshot_off != 0);
    while (i < s->n_modules && !(s->modules[i].lo <= pc && pc < s->modules[i].hi))
        i++;
    CHECK(i < s->n_modules); /* this program is among them */
}

/* ---- records ---- */

/* As the library did it: says what it will reserve, reserves, opens, fills, commits. */
static uint64_t put(uint32_t type, const void *record, uint32_t n_bytes)
{
    uint64_t pos = ring->write_pos;
    CHECK(pos + n_bytes < ring->data_bytes); /* not once around */
    ring->intents[tid % V10_RING_WRITERS].word = v10_intent(pos, n_bytes, tid);
    ring->write_pos = pos + n_bytes;
    _Atomic uint64_t *head = (_Atomic uint64_t *)(data + pos);
    *head = v10_rec_open(pos, n_bytes, tid);
    memcpy(data + pos + 8, (const char *)record + 8, n_bytes - 8);
    *head = v10_rec_head(pos, n_bytes, type);
    return pos;
}

static uint64_t caller(void);

/* fn below main; below a scope of the program's own words when it is a mixed one. */
static void put_stack(uint64_t id, void (*fn)(void), int mixed)
{
    struct {
        struct v10_rec_stack h;
        uint64_t words[8];
    } s = {.h = {.stack_id = id, .time_ns = now_ns(CLOCK_MONOTONIC)}};
    uint32_t n = 0;
    s.words[n++] = (uint64_t)(uintptr_t)fn;
    if (mixed)
        s.words[n++] = SCOPE_ID;
    s.words[n++] = caller();
    s.h.n_frames = n;
    s.words[n++] = 1; /* the first one is no return address */
    if (mixed)
        s.words[n++] = 2; /* the second one is an id */
    put(mixed ? V10_REC_MIXED : V10_REC_STACK, &s, (uint32_t)(sizeof s.h + n * 8));
}

static void put_heap(void)
{
    struct v10_rec_heap r = {
        .heap_id = V10_HEAP_ID_LIBC, .interval_bytes = 1, .name = "libc.malloc"};
    put(V10_REC_HEAP, &r, sizeof r);
}

static uint64_t put_alloc(uint64_t stack, uint64_t size)
{
    struct v10_rec_alloc r = {.address = 0x1000,
                              .alloc_size = size,
                              .sample_size = size,
                              .stack_id = stack,
                              .time_ns = now_ns(CLOCK_MONOTONIC_COARSE),
                              .heap_id = V10_HEAP_ID_LIBC,
                              .flags = V10_ALLOC_REALLOC};
    return put(V10_REC_ALLOC, &r, sizeof r);
}

static uint64_t put_exact(uint64_t stack, uint64_t size)
{
    struct v10_rec_exact r = {.stack_id = stack,
                              .time_ns = now_ns(CLOCK_MONOTONIC_COARSE),
                              .size_heap = size | (uint64_t)V10_HEAP_ID_LIBC << 48};
    return put(V10_REC_EXACT, &r, sizeof r);
}

static void put_free(uint64_t sample)
{
    struct v10_rec_free r = {.sample_id = sample, .time_ns = now_ns(CLOCK_MONOTONIC_COARSE)};
    put(V10_REC_FREE, &r, sizeof r);
}

static void put_name(void)
{
    struct {
        struct v10_rec_name h;
        char text[16];
    } r = {.h = {.id = SCOPE_ID, .n_function = sizeof SCOPE - 1}, .text = SCOPE};
    put(V10_REC_NAME, &r, sizeof r);
}

static void put_small_ones(void)
{
    struct v10_rec_maps maps = {.pc = 0};
    struct v10_rec_failed failed = {.size = 1 << 20, .time_ns = now_ns(CLOCK_MONOTONIC_COARSE)};
    put(V10_REC_MAPS, &maps, sizeof maps);
    put(V10_REC_FAILED, &failed, sizeof failed);
    put(V10_REC_PAD, &failed, sizeof failed); /* a thread that was taken out of it: one lost */
}

/* A stack that ends at once: the return address is 0. */
static void put_copy(uint64_t size)
{
#if defined(__x86_64__)
    struct {
        struct v10_rec_copy h;
        uint64_t regs[REGS_X86_64], stack[WORDS_MAX];
    } r = {.h = {.alloc = {.alloc_size = size,
                           .sample_size = size,
                           .time_ns = now_ns(CLOCK_MONOTONIC_COARSE),
                           .heap_id = V10_HEAP_ID_LIBC},
                 .sp = (uint64_t)(uintptr_t)r.stack,
                 .hi = (uint64_t)(uintptr_t)(r.stack + WORDS_MAX),
                 .n_bytes = sizeof r.stack,
                 .n_regs = REGS_X86_64,
                 .arch = V10_ARCH_X86_64}};
    r.regs[7] = r.h.sp;
    r.regs[16] = (uint64_t)(uintptr_t)fn_copied + 1; /* as if it had called us */
    put(V10_REC_ALLOC_COPY, &r, sizeof r);
    printf("EXPECT fn_copied %llu 1 %llu 1\n", (unsigned long long)size, (unsigned long long)size);
#else
    (void)size;
#endif
}

static void record(void)
{
    put_heap();
    put_stack(1, fn_full, 0);
    for (int i = 0; i < 100; i++) {
        uint64_t sample = put_alloc(1, 1000);
        if (i % 5 < 2)
            put_free(sample);
    }
    put_small_ones();
    put_stack(2, fn_short, 0);
    for (int i = 0; i < 50; i++) {
        uint64_t sample = put_exact(2, 64);
        if (i == 7)
            put_free(sample);
    }
    put_name();
    put_stack(3, fn_named, /* mixed = */ 1);
    put_exact(3, 12345);
    puts("EXPECT fn_full 100000 100 60000 60\n"
         "EXPECT fn_short 3200 50 3136 49\n"
         "EXPECT fn_named 12345 1 12345 1\n"
         "EXPECT " SCOPE " 12345 1 12345 1");
    put_copy(777);
    ring->counters.samples += 152;
}

/* ---- */

static void wait_until_called(void)
{
    puts("wait");
    fflush(stdout);
    for (int i = 0; i < WAIT_STEPS && control->generation == 0; i++)
        usleep(STEP_US);
    CHECK(control->generation != 0);
    CHECK(control->heartbeat != 0);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : getenv("HEAPWISE_SOCKET");
    int fds[V10_WELCOME_FDS];
    CHECK(path != NULL);
    tid = (uint32_t)syscall(SYS_gettid);
    int n = shake_hands(path, V10_HELLO_STARTUP, fds);
    if (welcome.status == V10_WELCOME_WAIT) {
        CHECK(n == 1);
        map_control(fds[0]);
        wait_until_called();
        n = shake_hands(control->socket_path, 0, fds);
    }
    if (welcome.status != V10_WELCOME_PROFILE)
        FAIL("status %u", welcome.status);
    CHECK(n == V10_WELCOME_FDS);
    map_control(fds[0]);
    map_ring(fds[1]);
    check_tables(fds[2]);
    CHECK(welcome.generation != 0 && welcome.generation == control->generation);
    CHECK(welcome.config.default_interval_bytes != 0 || welcome.config.n_heaps != 0);
    puts("profile");
    record();
    fflush(stdout);
    for (int i = 0; i < WAIT_STEPS && ring->read_pos != ring->write_pos; i++)
        usleep(STEP_US);
    CHECK(ring->read_pos == ring->write_pos);
    return 0;
}

/* A return address in main. */
static uint64_t caller(void)
{
    return (uint64_t)(uintptr_t)main + 16;
}
