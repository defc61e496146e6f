/*
 * turns_test.c - dumps of very many callstacks, and what happens in the middle of them
 *
 * The service's rows and turns of its main loop are counted where they happen (the linker puts
 * functions of ours before hw_profile_sample, hw_callsite_totals_set and epoll_wait). At a row that
 * a test has chosen the service waits until the test has done something, so that it happens just
 * there. Time that has to pass is added to the clocks (clock_gettime), for nobody to wait for it.
 * They are slow while a session that was told to stop twice ends: its second is too short for 40,000
 * stacks on a busy machine with a sanitizer.
 */
#include "served.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "codec/pb.h"
#include "daemon/books/callsite_totals.h"
#include "schema/fields.h"
#include "trace/profile_writer.h"
#include "unwind/walk.h"

#define STACKS   40000u
#define MOST     20000u /* rows that a turn of the main loop may do: dump_turns.c */
#define EARLY    1000u  /* rows */
#define LATE     35000u
#define PATIENCE 20000 /* ms that the service waits at a gate; then the test has failed */

#define SLOWNESS 16 /* of slow clocks */
#define N_SPEEDS 64 /* changes of their speed */

#define CHECKPOINT_MS 60000 /* none comes by itself */
#define TEXT_OF(x)    #x
#define TEXT(x)       TEXT_OF(x)

enum { N_GATES = 2 };

/* Between the service and the test. */
static struct counters {
    _Atomic uint64_t rows;    /* written since the test began */
    _Atomic uint64_t of_turn; /* written or added up since the main loop last waited */
    _Atomic uint64_t most_of_turn;
    _Atomic uint64_t gates[N_GATES]; /* row at which the service waits; 0 = none */
    _Atomic uint64_t added;          /* cells since the test began */
    _Atomic uint64_t add_gate;       /* cell at which the service waits; 0 = none */
    _Atomic uint64_t ahead_ns;       /* what the clocks of all are put forward by */
    struct speed {
        uint64_t since_ns, behind_ns; /* how far they were behind then */
        bool is_slow;
    } speeds[N_SPEEDS]; /* each is written before its number is stored */
    _Atomic unsigned speed;
    _Atomic bool is_slow; /* a row takes so long that 64 are a turn */
    _Atomic bool waited_in_vain;
} * seen;
static int arrived[2], go[2]; /* pipes: a byte from the service at a gate, and to it */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_epoll_wait(int fd, struct epoll_event *e, int n, int ms);
int __real_hw_callsite_totals_set(struct hw_callsite_totals *t, uint32_t stack, hw_callsite_id c,
                                  const struct hw_totals *now);
int __real_hw_profile_sample(struct hw_profile_writer *p, const struct hw_dump_sample *s,
                             struct hw_error *err);
int __wrap_epoll_wait(int fd, struct epoll_event *e, int n, int ms);
int __wrap_hw_callsite_totals_set(struct hw_callsite_totals *t, uint32_t stack, hw_callsite_id c,
                                  const struct hw_totals *now);
int __wrap_hw_profile_sample(struct hw_profile_writer *p, const struct hw_dump_sample *s,
                             struct hw_error *err);

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static uint64_t real_ns(void)
{
    struct timespec t;
    (void)__real_clock_gettime(CLOCK_MONOTONIC, &t);
    return ns_of(&t);
}

static uint64_t behind_ns(uint64_t now_ns)
{
    const struct speed *s = &seen->speeds[seen->speed];
    return s->behind_ns + (s->is_slow ? (now_ns - s->since_ns) / SLOWNESS * (SLOWNESS - 1) : 0);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = __real_clock_gettime(clock, t);
    if (rc == 0 && seen) {
        /* Others are compared with what the kernel says of processes. */
        bool is_time = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
        uint64_t ns = ns_of(t) + seen->ahead_ns - (is_time ? behind_ns(real_ns()) : 0);
        t->tv_sec = (time_t)(ns / 1000000000u);
        t->tv_nsec = (long)(ns % 1000000000u);
    }
    return rc;
}

static void set_slow(bool is_slow)
{
    uint64_t now_ns = real_ns();
    assert_in_range(seen->speed, 0, N_SPEEDS - 2);
    if (seen->speeds[seen->speed].is_slow == is_slow)
        return;
    seen->speeds[seen->speed + 1] = (struct speed){now_ns, behind_ns(now_ns), is_slow};
    seen->speed++;
}

static void put_clocks_forward(uint64_t ms)
{
    seen->ahead_ns += ms * 1000000;
}

int __wrap_epoll_wait(int fd, struct epoll_event *e, int n, int ms)
{
    seen->of_turn = 0;
    return __real_epoll_wait(fd, e, n, ms);
}

static void count_work(void)
{
    uint64_t n = ++seen->of_turn;
    if (n > seen->most_of_turn)
        seen->most_of_turn = n;
}

static void wait_at_gate(void)
{
    char c = 0;
    struct pollfd p = {.fd = go[0], .events = POLLIN};
    (void)!write(arrived[1], &c, 1);
    if (poll(&p, 1, PATIENCE) == 1)
        (void)!read(go[0], &c, 1);
    else
        seen->waited_in_vain = true;
}

int __wrap_hw_callsite_totals_set(struct hw_callsite_totals *t, uint32_t stack, hw_callsite_id c,
                                  const struct hw_totals *now)
{
    count_work();
    if (++seen->added == seen->add_gate)
        wait_at_gate();
    return __real_hw_callsite_totals_set(t, stack, c, now);
}

int __wrap_hw_profile_sample(struct hw_profile_writer *p, const struct hw_dump_sample *s,
                             struct hw_error *err)
{
    uint64_t row = ++seen->rows;
    count_work();
    for (int i = 0; i < N_GATES; i++)
        if (row == seen->gates[i])
            wait_at_gate();
    if (seen->is_slow)
        usleep(200);
    return __real_hw_profile_sample(p, s, err);
}

static void begin_test(uint64_t gate0, uint64_t gate1)
{
    seen->rows = seen->most_of_turn = seen->added = seen->add_gate = 0;
    seen->gates[0] = gate0;
    seen->gates[1] = gate1;
    seen->waited_in_vain = seen->is_slow = false;
}

/* The service has come to the next gate, and stands there. */
static void await_gate(void)
{
    char c;
    assert_int_equal(read(arrived[0], &c, 1), 1);
}

/* The same where the service may never come there. */
static bool comes_to_gate(int within_ms)
{
    struct pollfd p = {.fd = arrived[0], .events = POLLIN};
    if (poll(&p, 1, within_ms) != 1)
        return false;
    await_gate();
    return true;
}

static void open_gate(void)
{
    assert_int_equal(write(go[1], "", 1), 1);
}

/* ---- a client: each byte it is told is a round of allocations, 1..n bytes in stacks 1..n ---- */

static int order[2]; /* the next client's */

static void put(struct hw_ring_writer *w, const void *rec, size_t size, enum hw_rec_type type)
{
    uint64_t pos;
    while (!(pos = hw_ring_reserve(w, (uint32_t)size)))
        usleep(100);
    memcpy((char *)hw_ring_at(w, pos) + 8, (const char *)rec + 8, size - 8);
    hw_ring_commit(w, pos, (uint32_t)size, type);
}

static void put_round(struct hw_ring_writer *w, uint64_t n, bool with_stacks)
{
    for (uint64_t i = 1; i <= n; i++) {
        struct {
            struct hw_rec_stack h;
            uint64_t pc[2], exact;
        } s = {.h = {.stack_id = i, .n_frames = 2, .stop = HW_STOP_END},
               .pc = {0x1000000 + i % 256 * 16, 0x2000000 + i / 256 * 16}};
        struct hw_rec_alloc a = {.alloc_size = i, .sample_size = i, .stack_id = i, .heap_id = 1};
        if (with_stacks)
            put(w, &s, sizeof s, HW_REC_STACK);
        put(w, &a, sizeof a, HW_REC_ALLOC);
    }
}

static void client(int n)
{
    struct hw_ring_writer w;
    char c;
    if (read(order[0], &c, 1) != 1 || !served_shake_hands(&w))
        _exit(1);
    for (bool first = true;; first = false) {
        put_round(&w, (uint64_t)n, first);
        if (write(served_done[1], "", 1) != 1 || read(order[0], &c, 1) != 1)
            _exit(1);
    }
}

static pid_t run_client(uint32_t n, int *tell)
{
    assert_int_equal(pipe2(order, O_CLOEXEC), 0);
    pid_t pid = served_run(client, (int)n);
    close(order[0]);
    *tell = order[1];
    return pid;
}

static void tell_client(int fd)
{
    assert_int_equal(write(fd, "", 1), 1);
}

/* ---- a session with such a client ---- */

struct session {
    int fd, out;
    int client; /* where it is told */
    pid_t pid;
};

static struct session record_with(uint32_t n, uint32_t flags)
{
    struct session s = {.out = memfd_create("out", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    char options[64];
    s.pid = run_client(n, &s.client);
    snprintf(options, sizeof options, "pid: %d block_client: true", (int)s.pid);
    s.fd = served_record_with(options, flags, s.out);
    assert_true(served_hear(s.fd, HW_CTL_STARTED, 0, 0));
    tell_client(s.client);
    served_wait_until_done();
    return s;
}

static struct session record_one(uint32_t n)
{
    return record_with(n, 0);
}

static struct hw_control_ended end_of(struct session *s)
{
    struct hw_control_ended e;
    assert_true(served_hear(s->fd, HW_CTL_ENDED, 0, 0));
    set_slow(false);
    memcpy(&e, served_body, sizeof e);
    return e;
}

static void close_session(struct session *s)
{
    served_end(s->pid);
    close(s->client);
    close(s->fd);
    close(s->out);
}

/* The service has looked at all that this connection said. */
static void ask_status(int fd)
{
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
}

/* ---- what is in the file ---- */

struct dump {
    uint64_t timestamp, pid;
    char trigger[32];
    uint64_t rows, bytes, counts; /* allocated */
    bool whole;
};

struct trace {
    struct dump dumps[16];
    size_t n;
};

static uint64_t value_of(struct hw_bytes m, uint32_t number, struct hw_bytes *out)
{
    struct hw_pb_reader r = hw_pb_read(m);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == number) {
            if (out)
                *out = f.bytes;
            return f.value;
        }
    if (out)
        *out = (struct hw_bytes){0};
    return 0;
}

static struct dump *dump_at(struct trace *t, uint64_t timestamp, uint64_t pid)
{
    const struct dump *last = t->n ? &t->dumps[t->n - 1] : NULL;
    if (last && last->timestamp == timestamp && last->pid == pid)
        return &t->dumps[t->n - 1];
    assert_in_range(t->n, 0, 15);
    t->dumps[t->n] = (struct dump){.timestamp = timestamp, .pid = pid};
    return &t->dumps[t->n++];
}

static void read_process(struct trace *t, struct hw_bytes m)
{
    struct hw_bytes trigger;
    if (value_of(m, HW_F_ProfilePacket_ProcessHeapSamples_rejected_concurrent, NULL))
        return; /* it was seen before it had said hello */
    struct dump *d = dump_at(t, value_of(m, HW_F_ProfilePacket_ProcessHeapSamples_timestamp, NULL),
                             value_of(m, HW_F_ProfilePacket_ProcessHeapSamples_pid, NULL));
    (void)value_of(m, HW_F_ProfilePacket_ProcessHeapSamples_trigger, &trigger);
    snprintf(d->trigger, sizeof d->trigger, "%.*s", (int)trigger.n, (const char *)trigger.p);
    struct hw_pb_reader r = hw_pb_read(m);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProfilePacket_ProcessHeapSamples_samples) {
            d->rows++;
            d->bytes += value_of(f.bytes, HW_F_ProfilePacket_HeapSample_self_allocated, NULL);
            d->counts += value_of(f.bytes, HW_F_ProfilePacket_HeapSample_alloc_count, NULL);
        }
}

static void read_packet(struct trace *t, struct hw_bytes m)
{
    struct hw_bytes profile, process;
    (void)value_of(m, HW_F_TracePacket_profile_packet, &profile);
    if (!profile.n)
        return;
    (void)value_of(profile, HW_F_ProfilePacket_process_dumps, &process);
    if (process.n)
        read_process(t, process);
    else if (t->n && !value_of(profile, HW_F_ProfilePacket_continued, NULL))
        t->dumps[t->n - 1].whole = true;
}

static struct trace read_trace_of(int out, uint64_t n)
{
    struct trace t = {0};
    assert_true(n > 0);
    void *p = mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, out, 0);
    assert_true(p != MAP_FAILED);
    struct hw_pb_reader r = hw_pb_read((struct hw_bytes){p, (size_t)n});
    struct hw_pb_field packet;
    int rc;
    while ((rc = hw_pb_next(&r, &packet)) == 1)
        read_packet(&t, packet.bytes);
    assert_int_equal(rc, 0); /* it ends with a whole packet */
    munmap(p, (size_t)n);
    return t;
}

static struct trace read_trace(int out)
{
    return read_trace_of(out, (uint64_t)lseek(out, 0, SEEK_END));
}

static void check_dump(const struct dump *d, const char *trigger, uint64_t rounds)
{
    assert_string_equal(d->trigger, trigger);
    assert_true(d->whole);
    assert_int_equal(d->rows, STACKS);
    assert_int_equal(d->counts, rounds * STACKS);
    assert_int_equal(d->bytes, rounds * STACKS * (STACKS + 1) / 2);
}

static void check_turns(void)
{
    assert_false(seen->waited_in_vain);
    assert_in_range(seen->most_of_turn, 1, MOST);
}

/* ---- tests ---- */

static void test_requests_in_between(void **state)
{
    (void)state;
    begin_test(EARLY, LATE);
    struct session s = record_one(STACKS);
    int other = served_dial(served_consumer);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    await_gate();
    served_tell(other, HW_CTL_STATUS, NULL, 0, -1);
    open_gate();
    assert_true(served_hear(other, HW_CTL_STATUS_REPLY, 0, 0));
    await_gate(); /* the answer came before the service did */
    open_gate();
    assert_int_equal(end_of(&s).n_dumps, 1);
    check_turns();
    struct trace t = read_trace(s.out);
    assert_int_equal(t.n, 1);
    check_dump(&t.dumps[0], "end", 1);
    close(other);
    close_session(&s);
}

/* Its whole recording, from the handshake on. */
static void test_another_session_in_between(void **state)
{
    (void)state;
    begin_test(EARLY, 0);
    struct session big = record_one(STACKS);
    served_tell(big.fd, HW_CTL_STOP, NULL, 0, -1);
    await_gate();
    seen->is_slow = true;
    open_gate();
    struct session small = record_one(10);
    served_tell(small.fd, HW_CTL_STOP, NULL, 0, -1);
    assert_int_equal(end_of(&small).n_samples, 10);
    assert_in_range(seen->rows, EARLY, STACKS - 1);
    seen->is_slow = false;
    assert_int_equal(end_of(&big).n_samples, STACKS);
    check_turns();
    struct trace t = read_trace(small.out);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.dumps[0].bytes, 55);
    t = read_trace(big.out);
    check_dump(&t.dumps[0], "end", 1);
    close_session(&small);
    close_session(&big);
}

static bool has_said(int fd, uint32_t type)
{
    static char buf[HW_CONTROL_MAX_BYTES + 64];
    struct hw_control_head h = {0};
    ssize_t n;
    while ((n = recv(fd, buf, sizeof buf, MSG_DONTWAIT)) >= (ssize_t)sizeof h) {
        memcpy(&h, buf, sizeof h);
        if (h.type == type)
            return true;
    }
    return false;
}

/* Who asks may read the file behind the answer: it comes when the dump is there. */
static void test_answer_when_written(void **state)
{
    (void)state;
    begin_test(EARLY, LATE);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    assert_false(has_said(s.fd, HW_CTL_DUMPED));
    open_gate();
    await_gate();
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1); /* another one, behind this one */
    assert_false(has_said(s.fd, HW_CTL_DUMPED));
    open_gate();
    for (int i = 0; i < 2; i++) {
        struct hw_control_dumped d;
        assert_true(served_hear(s.fd, HW_CTL_DUMPED, 0, 0));
        memcpy(&d, served_body, sizeof d);
        assert_int_equal(d.n, 1);
        assert_int_equal(d.n_missing, 0);
        struct trace t = read_trace(s.out);
        assert_in_range(t.n, 1, 2); /* nothing has changed: the second one may have no rows */
        check_dump(&t.dumps[0], "command", 1);
    }
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    (void)end_of(&s);
    close_session(&s);
}

/* A process that ends is waited for no longer than its last dump takes. */
static void test_answer_at_the_end(void **state)
{
    (void)state;
    begin_test(EARLY, 0);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    for (int i = 0; i < 3; i++)
        served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    served_end(s.pid);
    open_gate();
    for (int i = 0; i < 4; i++)
        assert_true(served_hear(s.fd, HW_CTL_DUMPED, 0, 0));
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    (void)end_of(&s);
    close(s.client);
    close(s.fd);
    close(s.out);
}

/* Two more dumps are asked for, and another round is allocated: they become one. */
static void test_changes_in_between(void **state)
{
    (void)state;
    begin_test(EARLY, LATE);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    tell_client(s.client);
    served_wait_until_done();
    open_gate();
    await_gate();
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    open_gate();
    ask_status(s.fd);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    (void)end_of(&s);
    check_turns();
    struct trace t = read_trace(s.out);
    assert_in_range(t.n, 2, 3); /* the stop may come before the second dump */
    check_dump(&t.dumps[0], "command", 1);
    check_dump(&t.dumps[t.n - 1], "end", 2);
    close_session(&s);
}

/* A checkpoint is due and waits for the dump that is written; then one is asked for, which becomes
 * one with it. It is no checkpoint: those are not shown. */
static void test_asked_beside_a_checkpoint(void **state)
{
    (void)state;
    begin_test(EARLY, LATE);
    struct session s = record_with(STACKS, HW_START_CHECKPOINTS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    put_clocks_forward(CHECKPOINT_MS + 50);
    open_gate();
    await_gate();
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    tell_client(s.client);
    served_wait_until_done();
    seen->gates[0] = STACKS + EARLY; /* in the second dump */
    open_gate();
    await_gate();
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    open_gate();
    (void)end_of(&s);
    struct trace t = read_trace(s.out);
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++)
        n += strcmp(t.dumps[i].trigger, "command") == 0;
    assert_int_equal(n, 2);
    close_session(&s);
}

/* A clone's patience ends in the middle of a dump: what it is given ends before that. */
static void test_clone_in_between(void **state)
{
    (void)state;
    struct hw_control_cloned b;
    struct hw_control_head ask = {.version = HW_CONTROL_VERSION, .type = HW_CTL_CLONE};
    begin_test(EARLY, LATE);
    struct session s = record_one(STACKS);
    int other = served_dial(served_consumer);
    memcpy(&ask.session, served_body, sizeof ask.session); /* what STARTED said */
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    assert_int_equal(write(other, &ask, sizeof ask), sizeof ask);
    open_gate();
    await_gate();
    put_clocks_forward(10200);
    seen->is_slow = true;
    open_gate();
    assert_true(served_hear(other, HW_CTL_CLONED, 0, 0));
    memcpy(&b, served_body, sizeof b);
    seen->is_slow = false;
    assert_in_range(seen->rows, EARLY, STACKS - 1);
    assert_int_equal(b.n_missing, 1);
    assert_int_equal(read_trace_of(s.out, b.bytes).n, 0);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    (void)end_of(&s);
    close(other);
    close_session(&s);
}

static void test_end_in_between(void **state)
{
    (void)state;
    begin_test(EARLY, 0);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    tell_client(s.client);
    served_wait_until_done();
    served_end(s.pid);
    open_gate();
    assert_true(served_hear(s.fd, HW_CTL_TARGET_STATE, HW_TARGET_EXITED, s.pid));
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    assert_int_equal(end_of(&s).n_dumps, 2);
    check_turns();
    struct trace t = read_trace(s.out);
    assert_int_equal(t.n, 2);
    check_dump(&t.dumps[0], "command", 1);
    check_dump(&t.dumps[1], "exit", 2);
    close(s.client);
    close(s.fd);
    close(s.out);
}

/* The stop comes in the middle of a dump: that one is written to its end, and so is the last. */
static void test_stop_in_between(void **state)
{
    (void)state;
    begin_test(EARLY, 0);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    open_gate();
    (void)end_of(&s);
    check_turns();
    struct trace t = read_trace(s.out);
    assert_int_equal(t.n, 2);
    check_dump(&t.dumps[0], "command", 1);
    check_dump(&t.dumps[1], "end", 1);
    close_session(&s);
}

/* Told twice: the second time there is a second left, which passes at the gate. */
static void test_hurry(void **state)
{
    (void)state;
    begin_test(EARLY, LATE);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    await_gate();
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    served_tell(s.fd, HW_CTL_STATUS, NULL, 0, -1);
    open_gate();
    assert_true(served_hear(s.fd, HW_CTL_STATUS_REPLY, 0, 0)); /* it has heard both */
    bool came = comes_to_gate(10000); /* a slow one needs more than the second for the way there */
    if (came) {
        put_clocks_forward(1100);
        open_gate();
    }
    assert_true(served_hear(s.fd, HW_CTL_WARNING, 0, 0));
    assert_non_null(strstr(served_body, "before its last dump was written"));
    assert_int_equal(end_of(&s).n_dumps, 0);
    assert_false(seen->waited_in_vain);
    struct trace t = read_trace(s.out);
    assert_int_equal(t.n, 1);
    assert_false(t.dumps[0].whole);
    assert_in_range(t.dumps[0].rows, came ? LATE - MOST : 0, STACKS - 1);
    close_session(&s);
}

/* A dump that is cut before it has begun to write: what it knew is in the last one. */
static void test_cut_while_adding(void **state)
{
    (void)state;
    begin_test(0, 0);
    seen->add_gate = EARLY;
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    set_slow(true);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    open_gate();
    (void)end_of(&s);
    check_turns();
    struct trace t = read_trace(s.out);
    assert_int_equal(t.n, 1);
    check_dump(&t.dumps[0], "end", 1);
    close_session(&s);
}

/* Told twice just before the last rows of a dump: the stage behind them has nothing to cut. */
static void test_hurry_at_the_end(void **state)
{
    (void)state;
    const unsigned n = 4000;
    begin_test(n - 200, 0); /* a turn that was kept waiting ends within 64 rows */
    struct session s = record_one(n);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    set_slow(true);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    open_gate();
    (void)end_of(&s);
    assert_false(seen->waited_in_vain);
    struct trace t = read_trace(s.out);
    assert_in_range(t.n, 1, 2); /* the last one adds nothing */
    assert_int_equal(t.dumps[0].rows, n);
    assert_true(t.dumps[0].whole);
    close_session(&s);
}

static void test_disk_full_in_between(void **state)
{
    (void)state;
    begin_test(EARLY, 0);
    struct session s = record_one(STACKS);
    served_tell(s.fd, HW_CTL_DUMP, NULL, 0, -1);
    await_gate();
    assert_int_equal(fcntl(s.out, F_ADD_SEALS, F_SEAL_GROW), 0);
    open_gate();
    assert_true(served_hear(s.fd, HW_CTL_WARNING, 0, 0));
    assert_non_null(strstr(served_body, "what was written before is readable"));
    assert_true(end_of(&s).status < 0);
    check_turns();
    (void)read_trace(s.out);
    close_session(&s);
    served_wait_for_no_session();
}

/* Two processes of one session: their dumps come one after the other. */
static void test_two_processes(void **state)
{
    (void)state;
    begin_test(0, 0);
    char options[96];
    int out = memfd_create("out", MFD_CLOEXEC);
    int tell_a, tell_b;
    pid_t a = run_client(STACKS, &tell_a), b = run_client(STACKS, &tell_b);
    snprintf(options, sizeof options, "pid: %d pid: %d block_client: true", (int)a, (int)b);
    int fd = served_record(options, out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    tell_client(tell_a);
    tell_client(tell_b);
    served_wait_until_done();
    served_wait_until_done();
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    check_turns();
    struct trace t = read_trace(out);
    assert_int_equal(t.n, 2);
    check_dump(&t.dumps[0], "end", 1);
    check_dump(&t.dumps[1], "end", 1);
    served_end(a);
    served_end(b);
    close(tell_a);
    close(tell_b);
    close(fd);
    close(out);
}

/* A look is a dump of everything, too. Who asked has gone meanwhile; who asks again is answered. */
static void test_look(void **state)
{
    (void)state;
    begin_test(EARLY, 0);
    struct session s = record_one(STACKS);
    struct hw_control_live_request ask = {.pid = s.pid};
    int gone = served_dial(served_consumer), other = served_dial(served_consumer);
    served_tell(gone, HW_CTL_LIVE, &ask, sizeof ask, -1);
    await_gate();
    close(gone);
    open_gate();
    served_tell(other, HW_CTL_LIVE, &ask, sizeof ask, -1);
    assert_true(served_hear(other, HW_CTL_LIVE_REPLY, 0, 0));
    struct hw_control_live live;
    memcpy(&live, served_body, sizeof live);
    assert_int_equal(live.n_samples, STACKS);
    served_tell(s.fd, HW_CTL_STOP, NULL, 0, -1);
    (void)end_of(&s);
    check_turns();
    struct trace t = read_trace(s.out);
    assert_int_equal(t.n, 1);
    check_dump(&t.dumps[0], "end", 1);
    close(other);
    close_session(&s);
}

static int start_all(void **state)
{
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED || pipe2(arrived, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
        return -1;
    served_stop_timeout_ms = 200000; /* all of it is written, however long that takes */
    if (setenv("HEAPWISE_CHECKPOINT_MS", TEXT(CHECKPOINT_MS), 1) < 0)
        return -1;
    return served_start(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_in_between),
        cmocka_unit_test(test_another_session_in_between),
        cmocka_unit_test(test_changes_in_between),
        cmocka_unit_test(test_clone_in_between),
        cmocka_unit_test(test_end_in_between),
        cmocka_unit_test(test_stop_in_between),
        cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_cut_while_adding),
        cmocka_unit_test(test_two_processes),
#ifndef __SANITIZE_THREAD__ /* what one thread does, after the same dump */
        cmocka_unit_test(test_answer_when_written),
        cmocka_unit_test(test_answer_at_the_end),
        cmocka_unit_test(test_asked_beside_a_checkpoint),
        cmocka_unit_test(test_hurry_at_the_end),
        cmocka_unit_test(test_disk_full_in_between),
        cmocka_unit_test(test_look),
#endif
    };
    return cmocka_run_group_tests(tests, start_all, served_stop);
}
