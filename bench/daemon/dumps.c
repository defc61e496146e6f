/*
 * dumps.c - how long the recorder answers nobody while it writes the last dump of many callstacks
 *
 *     dumps [STACKS [FRAMES]]
 *
 * A client allocates once in each of STACKS callstacks (usually 100,000) of FRAMES frames (28);
 * then the session is stopped, and status is asked without a pause until it has ended. Printed: the
 * longest answer, CPU time of the service from the stop to the end, its largest resident size, and
 * the size of the trace.
 */
#include "served.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "unwind/walk.h"

static uint64_t n_frames = 28;

static void put(struct hw_ring_writer *w, const void *rec, size_t size, enum hw_rec_type type)
{
    uint64_t pos;
    while (!(pos = hw_ring_reserve(w, (uint32_t)size)))
        usleep(100);
    memcpy((char *)hw_ring_at(w, pos) + 8, (const char *)rec + 8, size - 8);
    hw_ring_commit(w, pos, (uint32_t)size, type);
}

/* Leaf first: three frames with 256 places each, below those that most stacks share. */
static void put_stack(struct hw_ring_writer *w, uint64_t i)
{
    struct {
        struct hw_rec_stack h;
        uint64_t pc[64];
    } s = {.h = {.stack_id = i, .n_frames = (uint32_t)n_frames, .stop = HW_STOP_END}};
    struct hw_rec_alloc a = {.alloc_size = 64, .sample_size = 64, .stack_id = i, .heap_id = 1};
    for (uint64_t k = 0; k < n_frames; k++)
        s.pc[k] = 0x1000000 * (k + 1) + (k < 3 ? (i >> k * 8) % 256 * 16 : 0);
    put(w, &s, sizeof s.h + (n_frames + 1) * 8, HW_REC_STACK);
    put(w, &a, sizeof a, HW_REC_ALLOC);
}

static void client(int n)
{
    struct hw_ring_writer w;
    usleep(200000); /* the session begins */
    if (!served_shake_hands(&w))
        _exit(1);
    for (int i = 1; i <= n; i++)
        put_stack(&w, (uint64_t)i);
    if (write(served_done[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static unsigned long of_service(const char *file, const char *format, int line)
{
    char path[64], text[512];
    unsigned long a = 0, b = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", served_pid, file);
    FILE *f = fopen(path, "re");
    for (int i = 0; f && i <= line && fgets(text, sizeof text, f); i++)
        if (sscanf(text, format, &a, &b) > 0)
            break;
    if (f)
        fclose(f);
    return a + b;
}

static unsigned long cpu_ms(void)
{
    unsigned long ticks =
        of_service("stat", "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", 0);
    return ticks * 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
}

/* Until the session has gone. */
static uint64_t longest_answer_ms(void)
{
    uint64_t most = 0;
    int fd = served_dial(served_consumer);
    do {
        uint64_t before = hw_now_monotonic_ns();
        served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
        if (!served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0))
            break;
        uint64_t ns = hw_now_monotonic_ns() - before;
        most = ns > most ? ns : most;
    } while (!strstr(served_body, "\"sessions\":[]"));
    close(fd);
    return most / 1000000;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 100000, out = memfd_create("out", MFD_CLOEXEC);
    char options[96];
    struct stat st;
    if (argc > 2 && atoi(argv[2]) > 3 && atoi(argv[2]) < 64)
        n_frames = (uint64_t)atoi(argv[2]);
    if (served_start(NULL) < 0)
        return 1;
    pid_t pid = served_run(client, n);
    snprintf(options, sizeof options, "pid: %d block_client: true", (int)pid);
    int fd = served_record(options, out);
    served_wait_until_done();
    unsigned long cpu = cpu_ms();
    uint64_t stop = hw_now_monotonic_ns();
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    uint64_t ms = longest_answer_ms();
    fstat(out, &st);
    printf("%d stacks: longest answer %lu ms, stop to end %lu ms, %lu ms CPU, peak %lu MiB, trace "
           "%lu KiB\n",
           n, (unsigned long)ms, (unsigned long)((hw_now_monotonic_ns() - stop) / 1000000),
           cpu_ms() - cpu, of_service("status", "VmHWM: %lu", 60) / 1024,
           (unsigned long)st.st_size / 1024);
    served_end(pid);
    close(fd);
    return served_stop(NULL) < 0;
}
