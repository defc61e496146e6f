/*
 * hostile_test.c - clients that scribble over ring and socket, flood, hold on and never answer
 *
 * The session must live, and what the good ones sent must be in its books.
 */
#include "served.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/error.h"
#include "codec/pb.h"
#include "config/config.h"
#include "daemon/recorder.h"
#include "schema/fields.h"
#include "unwind/walk.h"

static const char *own_name;

/* Of this test alone: with "all" whatever else the machine runs with our library, such as other
 * tests, would be recorded, too, and counted. */
static const char *only_ours(void)
{
    static char text[100];
    snprintf(text, sizeof text, "process_cmdline: \"%s\" block_client: true", own_name);
    return text;
}

static void hostile_client(int kind)
{
    struct hw_ring_writer w;
    if (!served_shake_hands(&w))
        _exit(1);
    uint64_t x = 0x9e3779b97f4a7c15u;
    volatile uint8_t *p = (volatile uint8_t *)w.shm;
    for (size_t i = 0; kind == 0 && i < 200000; i++) { /* everything, again and again */
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t at = i % 2 ? x % 256 : x % (4096 + w.mask + 1);
        p[at] = (uint8_t)(x >> 40);
    }
    if (kind == 1) /* a claim that nobody could have made */
        atomic_store(&w.shm->write_pos, UINT64_MAX / 2);
    if (kind == 2) { /* a record in good order with a lie inside */
        uint64_t pos = hw_ring_reserve(&w, 24);
        struct hw_rec_stack s = {.stack_id = 1, .n_frames = 0xffffffff};
        memcpy((char *)hw_ring_at(&w, pos) + 8, (char *)&s + 8, sizeof s - 8);
        hw_ring_commit(&w, pos, 24, HW_REC_STACK);
    }
    for (;;)
        pause();
}

static void test_garbage_on_sockets(void **state)
{
    (void)state;
    uint64_t x = 1234567;
    char junk[4096];
    for (int i = 0; i < 60; i++) {
        int fd = served_dial(i % 2 ? served_producer : served_consumer);
        assert_true(fd >= 0);
        for (size_t k = 0; k < sizeof junk; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            junk[k] = (char)x;
        }
        if (i % 4 >= 2) /* a right head with a wrong body */
            memcpy(junk,
                   &(struct hw_control_head){.version = HW_CONTROL_VERSION,
                                             .type = (uint32_t)i % 11,
                                             .length = (uint32_t)(i * 40)},
                   sizeof(struct hw_control_head));
        (void)!send(fd, junk, 24 + (size_t)i * 40, MSG_NOSIGNAL);
        (void)!send(fd, junk, 8, MSG_NOSIGNAL);
        close(fd);
    }
    int fd = served_dial(served_consumer);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    assert_non_null(strstr(served_body, "\"sessions\""));
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1); /* nothing to stop: said, not fatal */
    assert_true(served_hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
}

static void test_hostile_among_good(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record(only_ours(), out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t a = served_run(served_good_client, 1000);
    assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, a));
    pid_t bad[3];
    for (int i = 0; i < 3; i++) {
        bad[i] = served_run(hostile_client, i);
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, bad[i]));
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_FAILED, bad[i]));
    }
    pid_t b = served_run(served_good_client, 500);
    assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, b));
    served_wait_until_done(); /* a's or b's */
    served_wait_until_done();
    served_end(b); /* killed: what it had sent counts */
    assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_EXITED, b));
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, served_body, sizeof e);
    assert_int_equal(e.status, 0);
    assert_int_equal(e.n_targets, 5);
    assert_true(e.n_samples >= 1500);
    assert_true(e.n_dumps >= 1);
    for (int i = 0; i < 3; i++)
        served_end(bad[i]);
    served_end(a);
    close(fd);
    close(out);
}

static void flood(int unused)
{
    struct hw_control_head h = {.version = HW_CONTROL_VERSION, .type = HW_CTL_STATUS};
    int fd = served_dial(served_consumer);
    (void)unused;
    while (send(fd, &h, sizeof h, MSG_NOSIGNAL) > 0)
        ; /* and never reads an answer */
    for (;;)
        pause();
}

/* One command that asks without end does not keep the others waiting. */
static void test_flood_of_requests(void **state)
{
    (void)state;
    pid_t bad[3];
    for (int i = 0; i < 3; i++)
        bad[i] = served_run(flood, 0);
    usleep(200000);
    int fd = served_dial(served_consumer);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
    for (int i = 0; i < 3; i++)
        served_end(bad[i]);
}

/* ---- limits and lies ---- */

static uint64_t service_cpu_ms(void)
{
    char path[64], text[1024];
    unsigned long user, kernel;
    snprintf(path, sizeof path, "/proc/%d/stat", served_pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(n > 0);
    text[n] = '\0';
    assert_int_equal(sscanf(strrchr(text, ')') + 1,
                            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel),
                     2);
    return (user + kernel) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
}

/* Without descriptors nobody can be let in; that must not become a busy loop. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    struct rlimit old, few = {20, 65536};
    int fds[40], n = 0;
    assert_int_equal(prlimit(served_pid, RLIMIT_NOFILE, NULL, &old), 0);
    few.rlim_max = old.rlim_max;
    assert_int_equal(prlimit(served_pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (; n < 40; n++)
        fds[n] = served_dial(n % 2 ? served_producer : served_consumer);
    uint64_t before = service_cpu_ms();
    usleep(1000000);
    uint64_t used = service_cpu_ms() - before;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    assert_int_equal(prlimit(served_pid, RLIMIT_NOFILE, &old, NULL), 0);
    assert_in_range(used, 0, 300);
    int fd = served_dial(served_consumer);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
}

static void take_all(int n)
{
    if (setresuid(65534, 65534, 65534) < 0)
        _exit(1);
    for (int i = 0; i < n; i++)
        if (served_dial(served_consumer) < 0)
            _exit(1);
    if (write(served_done[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* One user's connections do not shut the others out. */
static void test_quota_of_a_user(void **state)
{
    (void)state;
    if (getuid() != 0)
        skip();
    assert_int_equal(chmod(served_dir, 0711), 0);
    pid_t a = served_run(take_all, 300);
    served_wait_until_done();
    int fd = served_dial(served_consumer);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
    served_end(a);
    assert_int_equal(chmod(served_dir, 0700), 0);
}

#define MANY_MAPS 60000 /* reading these takes the kernel alone some 20 ms */

/* Asks for its mappings to be read, all of them, again and again. */
static void asking_client(int unused)
{
    struct hw_ring_writer w;
    (void)unused;
    for (int i = 0; i < MANY_MAPS; i++)
        if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            _exit(1);
    if (!served_shake_hands(&w))
        _exit(1);
    served_send_allocations(&w, 1); /* or there would be no dump */
    if (write(served_done[1], "", 1) != 1)
        _exit(1);
    for (uint64_t pc = 4096;; pc += 16) {
        struct hw_rec_maps m = {.pc = pc};
        uint64_t pos = hw_ring_reserve(&w, sizeof m);
        if (pos) {
            memcpy((char *)hw_ring_at(&w, pos) + 8, (char *)&m + 8, sizeof m - 8);
            hw_ring_commit(&w, pos, sizeof m, HW_REC_MAPS);
        }
        usleep(500);
    }
}

/* The largest value of the last field on this path through nested messages. */
static uint64_t deep_max(struct hw_bytes message, const uint32_t *path, size_t n)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t max = 0;
    while (hw_pb_next(&r, &f) == 1) {
        uint64_t v = f.number != *path ? 0 : n > 1 ? deep_max(f.bytes, path + 1, n - 1) : f.value;
        max = v > max ? v : max;
    }
    return max;
}

static uint64_t maps_readings(int trace)
{
    static const uint32_t path[] = {
        1, HW_F_TracePacket_profile_packet, HW_F_ProfilePacket_process_dumps,
        HW_F_ProfilePacket_ProcessHeapSamples_stats, HW_F_ProfilePacket_ProcessStats_map_reparses};
    off_t n = lseek(trace, 0, SEEK_END);
    assert_true(n > 0);
    const uint8_t *p = mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, trace, 0);
    assert_true(p != MAP_FAILED);
    uint64_t v = deep_max((struct hw_bytes){p, (size_t)n}, path, sizeof path / sizeof *path);
    munmap((void *)(uintptr_t)p, (size_t)n);
    return v;
}

/* 80 ms of readings at once, then a fiftieth of the time. What one takes depends on the machine and
 * on what it has to do beside, so they are counted, not timed: none (TSan) to 5 behind the first.
 * Without the rest the recorder is so busy that it does not hear of the recording's end. */
static void test_maps_are_not_read_for_ever(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record("all: true", out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t a = served_run(asking_client, 0);
    served_wait_until_done();
    usleep(2500000);
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    served_end(a);
    uint64_t n = maps_readings(out);
    close(fd);
    close(out);
    served_wait_for_no_session();
    print_message("%d readings\n", (int)n);
    assert_in_range(n, 0, 9);
}

/* ---- memory ---- */

static void put(struct hw_ring_writer *w, const void *rec, uint32_t size, enum hw_rec_type type)
{
    uint64_t pos;
    for (int i = 0; !(pos = hw_ring_reserve(w, size)); i++) {
        if (i > 30000) /* nobody reads any more */
            for (;;)
                pause();
        usleep(100);
    }
    memcpy((char *)hw_ring_at(w, pos) + 8, (const char *)rec + 8, size - 8);
    hw_ring_commit(w, pos, size, type);
}

/* 0: another stack each time; 1: samples that are never freed; 2: each stack in each heap. */
static void greedy_client(int kind)
{
    struct hw_ring_writer w;
    enum { FRAMES = 128 };
    struct {
        struct hw_rec_stack h;
        uint64_t pc[FRAMES], exact[FRAMES / 64];
    } s = {.h = {.n_frames = FRAMES, .stop = HW_STOP_END}};
    struct hw_rec_alloc a = {.alloc_size = 10, .sample_size = 10, .heap_id = 1};
    if (!served_shake_hands(&w))
        _exit(1);
    for (uint64_t i = 1;; i++) {
        a.stack_id = kind == 1 ? 1 : i;
        s.h.stack_id = i;
        s.h.n_frames = kind == 2 ? 1 : FRAMES;
        uint32_t size = kind == 2 ? (uint32_t)(sizeof s.h + 16) : (uint32_t)sizeof s;
        for (size_t k = 0; k < FRAMES; k++)
            s.pc[k] = i * 4096 + k * 16;
        if (kind != 1 || i == 1)
            put(&w, &s, size, HW_REC_STACK);
        for (uint32_t heap = 1; heap < (kind == 2 && i % 65536 == 0 ? HW_MAX_HEAPS : 2); heap++) {
            a.heap_id = heap;
            put(&w, &a, sizeof a, HW_REC_ALLOC);
        }
    }
}

static uint64_t peak_mb(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(n > 0);
    text[n] = '\0';
    return strtoull(strstr(text, "VmHWM:") + 6, NULL, 10) / 1024;
}

/* Whatever a target sends, it is its own profile that ends, and what it showed is written. */
static void test_greedy_targets(void **state)
{
    (void)state;
    char saved[2][100];
    memcpy(saved[0], served_producer, sizeof served_producer);
    memcpy(saved[1], served_consumer, sizeof served_consumer);
    snprintf(served_producer, sizeof served_producer, "%s/producer3", served_dir);
    snprintf(served_consumer, sizeof served_consumer, "%s/consumer3", served_dir);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = served_producer,
                                        .consumer_socket = served_consumer,
                                        .cache_dir = served_dir};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("HEAPWISE_MEMORY_MB", "256", 1); /* 64 a target */
        exit(hw_recorder_run(&o, &err) < 0);
    }
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record(only_ours(), out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t good = served_run(served_good_client, 100);
    served_wait_until_done();
    for (int kind = 0; kind < 3; kind++) {
        pid_t bad = served_run(greedy_client, kind);
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_FAILED, bad));
        served_end(bad);
    }
    uint64_t peak = peak_mb(pid);
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, served_body, sizeof e);
    served_end(good);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    close(fd);
    close(out);
    memcpy(served_producer, saved[0], sizeof served_producer);
    memcpy(served_consumer, saved[1], sizeof served_consumer);
    assert_int_equal(e.status, 0);
    assert_int_equal(e.n_targets, 4);
    assert_true(e.n_dumps >= 4);
    print_message("peak %d MiB\n", (int)peak);
#ifndef __SANITIZE_THREAD__ /* which keeps notes on every byte */
    assert_in_range(peak, 1, 400);
#endif
}

/* ---- a file system that does not answer ---- */

struct fuse_request {
    struct fuse_in_header h;
    char rest[1 << 17];
};

static void fuse_reply(int fd, const struct fuse_request *q, const void *body_of, size_t n)
{
    char out[512] = {0};
    struct fuse_out_header h = {.len = (uint32_t)(sizeof h + n), .unique = q->h.unique};
    h.error = body_of || n == 0 ? 0 : -ENOSYS;
    if (h.error)
        h.len = sizeof h;
    memcpy(out, &h, sizeof h);
    if (body_of)
        memcpy(out + sizeof h, body_of, n);
    (void)!write(fd, out, h.len);
}

/* One file in the root, of which nothing can be read; until told to be silent. */
static void serve_files(int fd, const volatile bool *silent)
{
    static struct fuse_request q;
    struct fuse_attr file = {.ino = 2, .size = 65536, .mode = S_IFREG | 0755, .nlink = 1};
    struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    while (read(fd, &q, sizeof q) > 0) {
        if (*silent)
            continue;
        struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
        struct fuse_entry_out entry = {.nodeid = 2, .attr = file};
        struct fuse_attr_out attr = {.attr = q.h.nodeid == 1 ? root : file};
        struct fuse_open_out opened = {.fh = 1};
        if (q.h.opcode == FUSE_INIT)
            fuse_reply(fd, &q, &init, sizeof init);
        else if (q.h.opcode == FUSE_LOOKUP)
            fuse_reply(fd, &q, &entry, sizeof entry);
        else if (q.h.opcode == FUSE_GETATTR)
            fuse_reply(fd, &q, &attr, sizeof attr);
        else if (q.h.opcode == FUSE_OPEN)
            fuse_reply(fd, &q, &opened, sizeof opened);
        else if (q.h.opcode == FUSE_FLUSH || q.h.opcode == FUSE_ACCESS)
            fuse_reply(fd, &q, NULL, 0);
        else
            fuse_reply(fd, &q, NULL, 1);
    }
    _exit(0);
}

/* Executes a file that it serves itself. */
static void silent_files_client(int unused)
{
    char path[128], options[128], said = 'n';
    (void)unused;
    volatile bool *silent =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/fuse", served_dir);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, getuid(),
             getgid());
    if (fd >= 0 && unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        (mkdir(path, 0700) == 0 || errno == EEXIST) &&
        mount("hw", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0) {
        pid_t server = fork();
        if (server == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_files(fd, silent);
        }
        close(fd);
        snprintf(path, sizeof path, "%s/fuse/f", served_dir);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0 &&
            mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED)
            said = 'y';
        close(file); /* its end would wait for an answer, too */
        *silent = true;
    }
    if (write(served_done[1], &said, 1) != 1 || said == 'n')
        _exit(1);
    struct hw_ring_writer w;
    (void)served_shake_hands(&w);
    if (write(served_done[1], "", 1) != 1) /* refused, or welcome */
        _exit(1);
    for (;;)
        pause();
}

static void test_files_that_do_not_answer(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record("all: true", out);
    char can;
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t bad = served_run(silent_files_client, 0);
    assert_int_equal(read(served_done[0], &can, 1), 1);
    if (can == 'y') {
        served_wait_until_done();
        pid_t good = served_run(served_good_client, 10);
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, good));
        served_wait_until_done();
        served_end(good);
    }
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    served_end(bad);
    close(fd);
    close(out);
    if (can != 'y')
        skip(); /* no FUSE here */
}

int main(int argc, char **argv)
{
    size_t n = strlen(argv[0]);
    (void)argc;
    memset(argv[0], 0, n); /* where the kernel reads it, for the clients, too */
    snprintf(argv[0], n + 1, "hostile-%d", (int)getpid());
    own_name = argv[0];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_garbage_on_sockets),
                                       cmocka_unit_test(test_hostile_among_good),
                                       cmocka_unit_test(test_flood_of_requests),
                                       cmocka_unit_test(test_out_of_descriptors),
                                       cmocka_unit_test(test_quota_of_a_user),
                                       cmocka_unit_test(test_maps_are_not_read_for_ever),
                                       cmocka_unit_test(test_greedy_targets),
                                       cmocka_unit_test(test_files_that_do_not_answer)};
    return cmocka_run_group_tests(tests, served_start, served_stop);
}
