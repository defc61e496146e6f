/*
 * storm_test.c - clients that give the recorder work without end
 *
 * While one does, commands are answered, the recording ends when it is told to, and the numbers of
 * another program in it are exact. The limits of time are those of a hang: what is looked for took
 * minutes, and a machine with other work takes seconds where an idle one takes milliseconds.
 */
#include "served.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/arch.h"
#include "base/clock.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "unwind/walk.h"
#include "wire/handshake.h"

#define SEC            UINT64_C(1000000000)
#define ATTACK_NS      (SEC / 2)
#define ANSWER_MOST_NS (30 * SEC) /* of a command; most take less than 100 ms */
#define END_MOST_NS    (60 * SEC) /* of the recording: the recorder's own limit is 10 s */
#define GOOD           1000

static const char *own_name;

/* ---- what clients send ---- */

/* A client gives up when nobody reads: its profile has ended. */
static void put(struct hw_ring_writer *w, const void *rec, size_t size, enum hw_rec_type type)
{
    uint64_t pos;
    for (int i = 0; !(pos = hw_ring_reserve(w, (uint32_t)size)); i++) {
        if (i > 100000)
            for (;;)
                pause();
        usleep(100);
    }
    memcpy((char *)hw_ring_at(w, pos) + 8, (const char *)rec + 8, size - 8);
    hw_ring_commit(w, pos, (uint32_t)size, type);
}

struct stack {
    struct hw_rec_stack h;
    uint64_t pc[HW_MAX_FRAMES + 16];
};

static void put_stack(struct hw_ring_writer *w, struct stack *s, uint64_t id, uint32_t n)
{
    s->h.stack_id = id;
    s->h.n_frames = n;
    s->h.stop = HW_STOP_END;
    s->h.time_ns = hw_now_monotonic_ns();
    memset(s->pc + n, 0, (n + 63) / 64 * 8);
    put(w, s, sizeof s->h + (n + (n + 63) / 64) * 8, HW_REC_STACK);
    struct hw_rec_alloc a = {.alloc_size = 1, .sample_size = 1, .stack_id = id, .heap_id = 1};
    put(w, &a, sizeof a, HW_REC_ALLOC);
}

static void ask_for_maps(struct hw_ring_writer *w, uint64_t pc)
{
    struct hw_rec_maps m = {.pc = pc};
    put(w, &m, sizeof m, HW_REC_MAPS);
}

/* Code without names: each stack leads through some that nobody saw before. */
static void nameless(struct hw_ring_writer *w)
{
    static struct stack s;
    for (uint64_t i = 1; i <= 40000; i++) {
        for (uint64_t k = 0; k < 20; k++)
            s.pc[k] = 0x10000000 + i * 4096 + k * 16;
        put_stack(w, &s, i, 20);
    }
}

/* The same while a map of names grows by one with each. */
static void named_slowly(struct hw_ring_writer *w)
{
    static struct stack s;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *f = fopen(path, "we");
    for (uint64_t i = 1; f && i <= 40000; i++) {
        for (uint64_t k = 0; k < 20; k++)
            s.pc[k] = 0x10000000 + i * 4096 + k * 16;
        put_stack(w, &s, i, 20);
        fprintf(f, "%llx 10 f%d\n", (unsigned long long)i * 4096, (int)i);
        fflush(f);
    }
    unlink(path);
}

/* Stacks through code that comes and goes, and was nowhere. */
static void closes(struct hw_ring_writer *w)
{
    static struct stack s;
    char *area = mmap(NULL, 64u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 2000; i++)
            mmap(area + (i * 2 + (size_t)round % 2) * 4096, 4096, PROT_READ | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        ask_for_maps(w, 4096 + (uint64_t)round);
        usleep(60000);
        mmap(area, 64u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        ask_for_maps(w, 8192 + (uint64_t)round);
        usleep(60000);
    }
    for (uint64_t i = 1; i <= 5000; i++) {
        for (uint64_t k = 0; k < HW_MAX_FRAMES; k++)
            s.pc[k] = 0x10000000 + (i % 16) * 4096 + k * 16;
        s.pc[0] = i;
        put_stack(w, &s, i, HW_MAX_FRAMES);
    }
}

/* As many mappings with code as the kernel allows, others each time they are asked for. */
static void many_maps(struct hw_ring_writer *w)
{
    size_t n = 60000;
    char *area = mmap(NULL, n * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t round = 0; round < 40; round++) {
        for (size_t i = round % 2; i < n; i += round ? 64 : 2)
            mprotect(area + i * 4096, 4096, PROT_READ | (round % 4 < 2 ? PROT_EXEC : 0));
        ask_for_maps(w, 4096 + round);
        usleep(20000);
    }
}

/* Managed frames whose names come one by one, the first of them never. */
static void unnamed(struct hw_ring_writer *w)
{
    static struct stack s;
    struct {
        struct hw_rec_name r;
        char text[1024];
    } name = {.r = {.n_function = 8}};
    for (uint64_t i = 1; i <= 40000; i++) {
        s.h.stack_id = i;
        s.h.n_frames = 2;
        s.h.stop = HW_STOP_END;
        s.pc[0] = hw_managed_id(HW_MANAGED_PYTHON, i);
        s.pc[1] = hw_managed_id(HW_MANAGED_PYTHON, 1u << 30);
        s.pc[2] = 0;
        s.pc[3] = 3;
        put(w, &s, sizeof s.h + 32, HW_REC_MIXED);
        name.r.id = hw_managed_id(HW_MANAGED_PYTHON, i - 100);
        put(w, &name, sizeof name.r + 8, HW_REC_NAME);
    }
}

static void long_names(struct hw_ring_writer *w)
{
    struct {
        struct hw_rec_name r;
        char text[2048];
    } name = {.r = {.n_function = 1024, .n_file = 1024}};
    for (uint64_t i = 1; i <= 200000; i++) {
        name.r.id = hw_managed_id(HW_MANAGED_PYTHON, i);
        memset(name.text, 'x', sizeof name.text);
        memcpy(name.text, &i, sizeof i);
        memcpy(name.text + 1024, &i, sizeof i);
        put(w, &name, sizeof name, HW_REC_NAME);
    }
}

static void unknown_frees(struct hw_ring_writer *w)
{
    for (uint64_t i = 0; i < 3000000; i++) {
        struct hw_rec_free f = {.sample_id = i * 0x9e3779b97f4a7c15u};
        put(w, &f, sizeof f, HW_REC_FREE);
    }
}

/* Stacks that the recorder walks, each as deep as may be. */
static void copies(struct hw_ring_writer *w)
{
    static struct {
        struct hw_rec_copy c;
        uint64_t regs[17], stack[HW_MAX_COPY_BYTES / 8];
    } r;
    for (uint64_t i = 0; i < 20000; i++) {
        r.c = (struct hw_rec_copy){.alloc = {.alloc_size = 1, .sample_size = 1, .heap_id = 1},
                                   .sp = 0x7000000000,
                                   .hi = 0x7000000000 + HW_MAX_COPY_BYTES,
                                   .n_bytes = HW_MAX_COPY_BYTES,
                                   .n_regs = 17,
                                   .arch = HW_ARCH_HERE};
        for (size_t k = 0; k < 17; k++)
            r.regs[k] = 0x7000000000;
        r.regs[16] = 0x10000000 + i * 16;
        for (size_t k = 0; k + 1 < HW_MAX_COPY_BYTES / 8; k += 2) { /* a chain of frame pointers */
            r.stack[k] = 0x7000000000 + (k + 2) * 8;
            r.stack[k + 1] = 0x10000000 + i * 16 + k;
        }
        put(w, &r, sizeof r.c + sizeof r.regs + sizeof r.stack, HW_REC_ALLOC_COPY);
    }
}

static void heaps(struct hw_ring_writer *w)
{
    for (uint64_t i = 0; i < 2000000; i++) {
        struct hw_rec_heap h = {.heap_id = (uint32_t)(2 + i % 254), .interval_bytes = i};
        snprintf(h.name, sizeof h.name, "heap %d", (int)i);
        put(w, &h, sizeof h, HW_REC_HEAP);
    }
}

/* Reserved, and never written: all behind it waits, this client's only. */
static void hole(struct hw_ring_writer *w)
{
    (void)hw_ring_reserve(w, 64);
    nameless(w);
}

static void backwards(struct hw_ring_writer *w)
{
    served_send_allocations(w, 1000);
    usleep(100000);
    atomic_store(&w->shm->write_pos, HW_RING_FIRST_POS);
}

/* Lengths, types and numbers of no meaning behind right heads. */
static void garbage(struct hw_ring_writer *w)
{
    uint64_t x = 88172645463325252u, junk[64];
    for (size_t i = 0; i < 100000; i++) {
        for (size_t k = 0; k < 64; k++)
            x ^= x << 13, x ^= x >> 7, junk[k] = x ^= x << 17;
        size_t size = 8 + x % 63 * 8;
        put(w, junk, size, (enum hw_rec_type)(x >> 40 & 15));
    }
}

static const struct attack {
    const char *name;
    void (*send)(struct hw_ring_writer *w);
} attacks[] = {
    {"nameless", nameless},
    {"named slowly", named_slowly},
    {"closes", closes},
    {"many maps", many_maps},
    {"unnamed", unnamed},
    {"long names", long_names},
    {"unknown frees", unknown_frees},
    {"copies", copies},
    {"heaps", heaps},
    {"hole", hole},
    {"backwards", backwards},
    {"garbage", garbage},
};

static void attacker(int i)
{
    struct hw_ring_writer w;
    if (!served_shake_hands(&w))
        _exit(1);
    attacks[i].send(&w);
    for (;;)
        pause();
}

/* ---- what the others see ---- */

struct seen {
    uint64_t answer_ns, end_ns;
    uint64_t allocated, samples; /* of the good one */
};

static uint64_t answered_in(void)
{
    uint64_t before = hw_now_monotonic_ns();
    int fd = served_dial(served_consumer);
    assert_true(fd >= 0);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
    return hw_now_monotonic_ns() - before;
}

static struct hw_bytes field_of(struct hw_bytes m, uint32_t number, uint64_t *value)
{
    struct hw_pb_reader r = hw_pb_read(m);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == number) {
            *value = f.value;
            return f.bytes;
        }
    *value = 0;
    return (struct hw_bytes){0};
}

/* Of one process, in all dumps: values are cumulative. */
static void look_at_dump(struct hw_bytes dump, uint64_t pid, struct seen *s)
{
    uint64_t v, allocated = 0, count = 0;
    struct hw_pb_reader r = hw_pb_read(dump);
    struct hw_pb_field f;
    (void)field_of(dump, HW_F_ProfilePacket_ProcessHeapSamples_pid, &v);
    if (v != pid)
        return;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ProfilePacket_ProcessHeapSamples_buffer_overran ||
            f.number == HW_F_ProfilePacket_ProcessHeapSamples_buffer_corrupted)
            assert_int_equal(f.value, 0);
        if (f.number != HW_F_ProfilePacket_ProcessHeapSamples_samples)
            continue;
        (void)field_of(f.bytes, HW_F_ProfilePacket_HeapSample_self_allocated, &v);
        allocated += v;
        (void)field_of(f.bytes, HW_F_ProfilePacket_HeapSample_alloc_count, &v);
        count += v;
    }
    if (allocated > s->allocated) {
        s->allocated = allocated;
        s->samples = count;
    }
}

static void look_at_trace(int trace, pid_t pid, struct seen *s)
{
    off_t n = lseek(trace, 0, SEEK_END);
    assert_true(n > 0);
    const uint8_t *p = mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, trace, 0);
    assert_true(p != MAP_FAILED);
    struct hw_pb_reader r = hw_pb_read((struct hw_bytes){p, (size_t)n});
    struct hw_pb_field packet, f;
    int rc;
    while ((rc = hw_pb_next(&r, &packet)) == 1) {
        uint64_t ignored;
        struct hw_bytes b = field_of(packet.bytes, HW_F_TracePacket_profile_packet, &ignored);
        struct hw_pb_reader profile = hw_pb_read(b);
        while (b.n && hw_pb_next(&profile, &f) == 1)
            if (f.number == HW_F_ProfilePacket_process_dumps)
                look_at_dump(f.bytes, (uint64_t)pid, s);
    }
    assert_int_equal(rc, 0); /* it ends with a whole packet */
    munmap((void *)(uintptr_t)p, (size_t)n);
}

static struct seen attack(void (*bad)(int), int arg, int n_stops)
{
    struct seen s = {0};
    char options[128];
    snprintf(options, sizeof options, "process_cmdline: \"%s\" block_client: true", own_name);
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record(options, out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t evil = served_run(bad, arg);
    usleep(100000);
    uint64_t began = hw_now_monotonic_ns();
    pid_t good = served_run(served_good_client, GOOD);
    served_wait_until_done();
    s.answer_ns = hw_now_monotonic_ns() - began; /* its handshake is one, too */
    began += s.answer_ns;
    while (hw_now_monotonic_ns() - began < ATTACK_NS) {
        uint64_t ns = answered_in();
        s.answer_ns = ns > s.answer_ns ? ns : s.answer_ns;
        usleep(20000);
    }
    uint64_t stop = hw_now_monotonic_ns();
    for (int i = 0; i < n_stops; i++)
        served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    s.end_ns = hw_now_monotonic_ns() - stop;
    served_end(evil);
    served_end(good);
    look_at_trace(out, good, &s);
    close(fd);
    close(out);
    served_wait_for_no_session();
    return s;
}

static void check(const char *what, const struct seen *s)
{
    print_message("%-14s answers within %4d ms, ends in %5d ms\n", what,
                  (int)(s->answer_ns / 1000000), (int)(s->end_ns / 1000000));
    assert_int_equal(s->samples, GOOD);
    assert_int_equal(s->allocated, GOOD * 10);
    assert_in_range(s->answer_ns, 0, ANSWER_MOST_NS);
    assert_in_range(s->end_ns, 0, END_MOST_NS);
}

static void test_work_without_end(void **state)
{
    (void)state;
    const char *only = getenv("HW_ATTACK");
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        if (only && strcmp(only, attacks[i].name) != 0)
            continue;
        struct seen s = attack(attacker, (int)i, 1);
        check(attacks[i].name, &s);
    }
}

/* ---- hands that are shaken again and again ---- */

static void shaker(int flags)
{
    struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                         .version = HW_WIRE_VERSION,
                         .arch = HW_ARCH_HERE,
                         .flags = (uint32_t)flags};
    for (int i = 0; i < 10000; i++) {
        int fd = served_dial(served_producer);
        (void)!send(fd, &h, sizeof h, MSG_NOSIGNAL);
        if (i % 4 == 0) {
            char answer[8192];
            (void)!recv(fd, answer, sizeof answer, 0);
        }
        close(fd);
    }
    for (;;)
        pause();
}

static void test_handshakes_without_end(void **state)
{
    (void)state;
    struct seen s = attack(shaker, HW_HELLO_STARTUP, 1);
    check("new images", &s);
    s = attack(shaker, 0, 1);
    check("hands", &s);
}

static void test_asked_twice(void **state)
{
    (void)state;
    struct seen s = attack(attacker, 0, 2);
    check("twice", &s);
}

int main(int argc, char **argv)
{
    size_t n = strlen(argv[0]);
    (void)argc;
    memset(argv[0], 0, n); /* where the kernel reads it, for the clients, too */
    snprintf(argv[0], n + 1, "storm-%d", (int)getpid());
    own_name = argv[0];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_work_without_end),
                                       cmocka_unit_test(test_handshakes_without_end),
                                       cmocka_unit_test(test_asked_twice)};
    return cmocka_run_group_tests(tests, served_start, served_stop);
}
