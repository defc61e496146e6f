/*
 * hostile_test.c - clients that scribble over ring and socket, flood, hold on and never answer
 *
 * The session must live, and what the good ones sent must be in its books.
 */
#include "served.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
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
#include "daemon/code/blocking_reader.h"
#include "daemon/recorder.h"
#include "proc/pid.h"
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
    int fd = served_record(only_ours(), out);
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
    served_stop_timeout_ms = 100000; /* the greedy ones' last dumps are large */
    int fd = served_record(only_ours(), out);
    served_stop_timeout_ms = 0;
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

#define STRANGER 64001

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

/* silent: to what is no answer given? */
enum { TO_NOTHING, TO_ALL, TO_CLOSE };

/* One file in the root, of which nothing can be read; until told to be silent. */
static void serve_files(int fd, const volatile uint8_t *silent)
{
    static struct fuse_request q;
    struct fuse_attr file = {.ino = 2, .size = 65536, .mode = S_IFREG | 0755, .nlink = 1};
    struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    while (read(fd, &q, sizeof q) > 0) {
        if (*silent == TO_ALL || (*silent == TO_CLOSE && q.h.opcode == FUSE_FLUSH))
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

/* A file that we serve ourselves, open; -1 = no FUSE here. */
static int open_served(int flags, volatile uint8_t *silent, pid_t *server)
{
    char path[128], options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/fuse", served_dir);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd,
             getuid(), getgid());
    if (fd < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        (mkdir(path, 0700) < 0 && errno != EEXIST) ||
        mount("hw", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        return -1;
    *server = fork();
    if (*server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve_files(fd, silent);
    }
    close(fd);
    snprintf(path, sizeof path, "%s/fuse/f", served_dir);
    return open(path, flags | O_CLOEXEC);
}

static volatile uint8_t *shared_flag(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Executes a file that it serves itself. */
static void silent_files_client(int unused)
{
    char said = 'n';
    (void)unused;
    volatile uint8_t *silent = shared_flag();
    pid_t server;
    int file = open_served(O_RDONLY, silent, &server);
    if (file >= 0 && mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED)
        said = 'y';
    close(file); /* its end would wait for an answer, too */
    *silent = TO_ALL;
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
    int fd = served_record(only_ours(), out);
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

/* Executes such a file twice: the second descriptor of it is closed at once. */
static void close_client(int unused)
{
    (void)unused;
    volatile uint8_t *silent = shared_flag();
    pid_t server = -1;
    struct hw_ring_writer w;
    int file = open_served(O_RDONLY, silent, &server);
    for (int i = 0; i < 2 && file >= 0; i++)
        if (mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
            server = -1;
    *silent = TO_CLOSE;
    if (server > 0)
        (void)served_shake_hands(&w);
    if (write(served_done[1], &server, sizeof server) != sizeof server)
        _exit(1);
    for (;;)
        pause();
}

static void test_close_that_does_not_answer(void **state)
{
    (void)state;
    pid_t server = -1;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record(only_ours(), out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t bad = served_run(close_client, 0);
    assert_int_equal(read(served_done[0], &server, sizeof server), sizeof server);
    bool lives = server <= 0 || served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, bad);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    lives = lives && served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0);
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    lives = lives && served_hear(fd, HW_CTL_ENDED, 0, 0);
    if (server > 0)
        kill(server, SIGKILL); /* else nobody who waits for it could end */
    served_end(bad);
    close(fd);
    close(out);
    if (server <= 0)
        skip(); /* no FUSE here, or not root */
    assert_true(lives);
}

/* A stranger who wants his trace in a file that he serves himself: as output, and where no file
 * belongs. */
static void silent_output_client(int with_start)
{
    volatile uint8_t *silent = shared_flag();
    pid_t server = -1;
    int file = open_served(O_RDWR, silent, &server);
    if (file < 0 || chmod(served_dir, 0711) < 0 || setresuid(STRANGER, STRANGER, STRANGER) < 0)
        server = -1;
    *silent = TO_ALL;
    for (int i = 0; server > 0 && i < 5; i++) {
        if (with_start)
            (void)served_record("all: true", file);
        else
            served_tell(served_dial(served_consumer), HW_CTL_STATUS, NULL, 0, file);
    }
    if (write(served_done[1], &server, sizeof server) != sizeof server)
        _exit(1);
    for (;;)
        pause();
}

static void test_output_that_does_not_answer(void **state)
{
    (void)state;
    pid_t server = 1;
    for (int with_start = 0; with_start < 2 && server > 0; with_start++) {
        pid_t bad = served_run(silent_output_client, with_start);
        assert_int_equal(read(served_done[0], &server, sizeof server), sizeof server);
        int fd = served_dial(served_consumer);
        served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int answered = poll(&p, 1, 20000);
        close(fd);
        if (server > 0)
            kill(server, SIGKILL); /* else nobody who waits for it could end */
        served_end(bad);
        assert_int_equal(answered, 1);
    }
    if (server <= 0)
        skip(); /* no FUSE here, or not root */
}

/* ---- a look before attaching that does not come back ---- */

/* What it has for its C library it serves itself. */
static void silent_library_client(int unused)
{
    char path[128];
    (void)unused;
    volatile uint8_t *silent = shared_flag();
    pid_t server = -1;
    int file = open_served(O_RDONLY, silent, &server);
    snprintf(path, sizeof path, "%s/fuse/libc.so.6", served_dir);
    close(file);
    file = open(path, O_RDONLY | O_CLOEXEC);
    /* Above the real one, since the last one counts. */
    void *at = (void *)(((uintptr_t)&path - (UINT64_C(1) << 30)) & ~UINT64_C(4095));
    if (file < 0 || mmap(at, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file,
                         0) == MAP_FAILED)
        server = -1;
    *silent = TO_ALL;
    if (write(served_done[1], &server, sizeof server) != sizeof server)
        _exit(1);
    for (;;)
        pause();
}

static void test_library_that_does_not_answer(void **state)
{
    (void)state;
    char saved[2][100];
    pid_t server = -1;
    int out = memfd_create("out", MFD_CLOEXEC);
    memcpy(saved[0], served_producer, sizeof served_producer);
    memcpy(saved[1], served_consumer, sizeof served_consumer);
    snprintf(served_producer, sizeof served_producer, "%s/producer4", served_dir);
    snprintf(served_consumer, sizeof served_consumer, "%s/consumer4", served_dir);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = served_producer,
                                        .consumer_socket = served_consumer,
                                        .cache_dir = served_dir,
                                        .library = "/nothing-is-there"};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(hw_recorder_run(&o, &err) < 0);
    }
    pid_t bad = served_run(silent_library_client, 0);
    assert_int_equal(read(served_done[0], &server, sizeof server), sizeof server);
    int fd = served_record(only_ours(), out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    bool told = server <= 0 || served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_FAILED, bad);
    print_message("%s\n", served_body + sizeof(struct hw_control_target_state));
    if (server > 0)
        kill(server, SIGKILL); /* else nobody who waits for it could end */
    served_end(bad);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    close(fd);
    close(out);
    memcpy(served_producer, saved[0], sizeof served_producer);
    memcpy(served_consumer, saved[1], sizeof served_consumer);
    if (server <= 0)
        skip(); /* no FUSE here, or not root */
    assert_true(told);
}

/* ---- a socket's name that a target tells ---- */

static void idle_client(int uid)
{
    if (setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the user */
    if (write(served_done[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static struct hw_reading_who who_is(struct hw_pid *p, pid_t pid, uint32_t uid)
{
    assert_int_equal(hw_pid_open(pid, p, NULL), HW_OK);
    return hw_reading_at(p, uid);
}

/* The way to it leads through a file system that the target serves, or through a
 * directory that is closed to its user. */
static void test_names_of_sockets(void **state)
{
    (void)state;
    char name[108];
    pid_t server = -1, bad = served_run(silent_library_client, 0);
    struct hw_blocking_reader *l;
    struct hw_pid p;
    int32_t holder;
    assert_int_equal(read(served_done[0], &server, sizeof server), sizeof server);
    if (server <= 0) {
        served_end(bad);
        skip(); /* no FUSE here, or not root */
    }
    assert_int_equal(hw_blocking_reader_new(&l), HW_OK);
    struct hw_reading_who who = who_is(&p, bad, STRANGER);
    assert_int_equal(hw_reading_listens(l, who, served_producer, &holder), 1);
    assert_int_equal(holder, served_pid);
    snprintf(name, sizeof name, "/proc/%d/root%s/fuse/socket", bad, served_dir);
    int rc = hw_reading_listens(l, who, name, &holder);
    kill(server, SIGKILL); /* else nobody who waits for it could end */
    hw_pid_done(&p);
    served_end(bad);
    assert_int_equal(rc, HW_ETIMEOUT);
    bad = served_run(idle_client, STRANGER);
    served_wait_until_done();
    who = who_is(&p, bad, STRANGER);
    assert_int_equal(chmod(served_dir, 0700), 0);
    assert_int_equal(hw_reading_listens(l, who, served_producer, &holder), 0);
    assert_int_equal(chmod(served_dir, 0711), 0);
    assert_int_equal(hw_reading_listens(l, who, served_producer, &holder), 1);
    hw_pid_done(&p);
    served_end(bad);
    hw_blocking_reader_free(l);
}

/* ---- jobs that do not come back ---- */

#define MANY 12 /* of a user; he has places for eight */

/* The library lies where it can be found, but its opening is never answered: counted in *opens. */
static void serve_library(int fd, volatile int *opens)
{
    static struct fuse_request q;
    struct fuse_attr file = {.ino = 2, .size = 65536, .mode = S_IFREG | 0755, .nlink = 1};
    struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    while (read(fd, &q, sizeof q) > 0) {
        struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
        struct fuse_entry_out entry = {
            .nodeid = 2, .attr = file, .attr_valid = 60, .entry_valid = 60};
        struct fuse_attr_out attr = {.attr = q.h.nodeid == 1 ? root : file, .attr_valid = 60};
        if (q.h.opcode == FUSE_INIT)
            fuse_reply(fd, &q, &init, sizeof init);
        else if (q.h.opcode == FUSE_LOOKUP)
            fuse_reply(fd, &q, &entry, sizeof entry);
        else if (q.h.opcode == FUSE_GETATTR)
            fuse_reply(fd, &q, &attr, sizeof attr);
        else if (q.h.opcode == FUSE_OPEN)
            (*opens)++;
        else
            fuse_reply(fd, &q, NULL, q.h.opcode == FUSE_ACCESS ? 0 : 1);
    }
    _exit(0);
}

static void recorder_with_library(volatile int *opens)
{
    char path[128], options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/fuse", served_dir);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (fd < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        (mkdir(path, 0700) < 0 && errno != EEXIST) ||
        mount("hw", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        exit(77);
    pid_t server = fork();
    if (server == 0)
        serve_library(fd, opens);
    close(fd);
    *(volatile pid_t *)(opens + 1) = server;
    snprintf(path, sizeof path, "%s/fuse/lib.so", served_dir);
    struct hw_error err;
    struct hw_recorder_options o = {.controller_fd = -1,
                                    .producer_socket = served_producer,
                                    .consumer_socket = served_consumer,
                                    .cache_dir = served_dir,
                                    .library = path};
    int rc = hw_recorder_run(&o, &err);
    *(volatile int *)(opens + 2) = 1; /* it came so far; what waits in it ends with the server */
    exit(rc < 0);
}

static bool becomes(volatile int *what, int least)
{
    for (int i = 0; i < 6000 && *what < least; i++)
        usleep(10000);
    return *what >= least;
}

/* Processes of two users keep all places; the third user's is attached to nevertheless, and the
 * recorder ends. */
static void test_jobs_that_do_not_come_back(void **state)
{
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* the clients are this program: nobody attaches to a sanitizer's */
#endif
    char saved[2][100];
    pid_t bad[2 * MANY + 1];
    volatile int *opens = (volatile int *)shared_flag();
    int status = 0, out = memfd_create("out", MFD_CLOEXEC), n = 0;
    memcpy(saved[0], served_producer, sizeof served_producer);
    memcpy(saved[1], served_consumer, sizeof served_consumer);
    snprintf(served_producer, sizeof served_producer, "%s/producer5", served_dir);
    snprintf(served_consumer, sizeof served_consumer, "%s/consumer5", served_dir);
    pid_t pid = geteuid() == 0 ? fork() : -1;
    if (pid == 0)
        recorder_with_library(opens);
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0 && access(served_consumer, F_OK) < 0)
        usleep(1000);
    if (pid < 0 || access(served_consumer, F_OK) < 0)
        skip(); /* no FUSE here, or not root */
    for (; n < 2 * MANY; n++)
        bad[n] = served_run(idle_client, STRANGER + n / MANY);
    for (int i = 0; i < n; i++)
        served_wait_until_done();
    int fd = served_record(only_ours(), out);
    bool can = fd >= 0 && served_hear(fd, HW_CTL_STARTED, 0, 0);
    bool full = can && becomes(opens, 16);
    int of_two = *opens;
    bad[n++] = served_run(idle_client, STRANGER + 2);
    served_wait_until_done();
    int again = served_record(only_ours(), out);
    bool third = becomes(opens, 17);
    kill(pid, SIGTERM);
    bool ended = becomes(opens + 2, 1);
    kill(opens[1], SIGKILL); /* who waits gets an error then */
    waitpid(pid, &status, 0);
    while (n > 0)
        served_end(bad[--n]);
    close(fd);
    close(again);
    close(out);
    memcpy(served_producer, saved[0], sizeof served_producer);
    memcpy(served_consumer, saved[1], sizeof served_consumer);
    assert_true(can && full);
    assert_int_equal(of_two, 16);
    assert_true(third);
    assert_true(ended);
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
                                       cmocka_unit_test(test_files_that_do_not_answer),
                                       cmocka_unit_test(test_output_that_does_not_answer),
                                       cmocka_unit_test(test_close_that_does_not_answer),
                                       cmocka_unit_test(test_library_that_does_not_answer),
                                       cmocka_unit_test(test_names_of_sockets),
                                       cmocka_unit_test(test_jobs_that_do_not_come_back)};
    return cmocka_run_group_tests(tests, served_start, served_stop);
}
