/*
 * inject.c - attaches to a program and detaches from it, many times, and tells how long it stood
 *
 * Usage: inject LIBRARY ROUNDS PROGRAM [ARG...]     the program is started, and ended by its stdin
 *        inject LIBRARY ROUNDS -p PID               one that runs
 * Prints one line of JSON. Exit 1 when an attach failed, the program ended or grew: descriptors,
 * threads or mappings after the first rounds.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "cfi/cfi.h"
#include "daemon/code/modules.h"
#include "daemon/code/unwind_tables.h"
#include "elf/elf.h"
#include "inject/inject.h"
#include "proc/file.h"
#include "proc/maps.h"
#include "proc/pid.h"

#define MAX_FILES 512
#define MORE      5 /* rounds, where the program seems to have grown */

static struct hw_tables tables;

/* As the recorder does, in one go. */
static int make_tables(const struct hw_pid *pid)
{
    static struct hw_module_file files[MAX_FILES];
    static struct hw_table_range ranges[MAX_FILES];
    struct hw_maps maps;
    struct hw_proc_status st;
    size_t n = 0;
    if (hw_proc_status(pid->dir, &st) < 0 || hw_maps_read(pid->dir, &maps, NULL) < 0 ||
        hw_tables_init(&tables, HW_ARCH_HERE, 0) < 0)
        return -1;
    for (size_t i = 0; i < maps.maps.n && n < MAX_FILES; i++) {
        const struct hw_map *m = &maps.maps.v[i];
        struct hw_module_file *f = &files[n];
        hw_autofd int fd = -1;
        if (!(m->flags & HW_MAP_EXEC) || !m->path[0] ||
            hw_proc_open_mapping(pid->dir, st.uid, m, &fd, NULL) < 0 ||
            hw_elf_read_identity(fd, f->build_id, &f->build_id_len, &f->load_bias, NULL) < 0)
            continue;
        f->table_state = hw_cfi_compile(fd, -1, &f->table, &f->table_bytes, NULL, NULL) == HW_OK
                             ? HW_TABLE_READY
                             : HW_TABLE_NONE;
        ranges[n++] =
            (struct hw_table_range){m->start, m->end, m->start - m->offset - f->load_bias, f};
    }
    hw_maps_done(&maps);
    return hw_tables_publish(&tables, ranges, n) < 0 ? -1 : 0;
}

struct size {
    int fds, threads, maps;
};

static int count_dir(const struct hw_pid *p, const char *name)
{
    int fd = openat(p->dir, name, O_RDONLY | O_DIRECTORY), n = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n;
}

/* Mappings of its own come and go; ours are memory files. */
static struct size size_of(const struct hw_pid *p)
{
    struct hw_maps m;
    struct size s = {count_dir(p, "fd"), count_dir(p, "task"), 0};
    if (hw_maps_read(p->dir, &m, NULL) < 0)
        return s;
    for (size_t i = 0; i < m.maps.n; i++)
        s.maps += strstr(m.maps.v[i].path, "memfd:") != NULL;
    hw_maps_done(&m);
    return s;
}

static int cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static pid_t start(char **argv, int *in, int *out)
{
    int to[2], from[2];
    char line[64];
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    if (read(from[0], line, sizeof line) <= 0) /* "ready" */
        exit(2);
    *in = to[1];
    *out = from[0];
    return pid;
}

static int end(pid_t pid, int in, int out)
{
    char line[256];
    int status;
    (void)close(in);
    ssize_t n = read(out, line, sizeof line - 1);
    line[n > 0 ? n : 0] = 0;
    (void)waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    fprintf(stderr, "the program: status %#x, %s\n", status, line);
    return 1;
}

struct run {
    struct hw_inject_request q;
    uint64_t *pauses, *wholes;
    uint32_t n, looks, loaded;
    struct size first, last;
};

static int once(struct run *r, enum hw_attach_command c)
{
    struct hw_inject_result res;
    struct hw_error err;
    r->q.command = c;
    int rc = HW_ETIMEOUT;
    for (int i = 0; i < 3 && rc == HW_ETIMEOUT; i++) /* as the recorder does */
        rc = hw_inject(&r->q, &res, &err);
    r->looks += res.n_tries;
    r->loaded += res.loaded;
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", c == HW_ATTACH_HOOK ? "attach" : "detach", err.text);
    if (rc == HW_OK && c == HW_ATTACH_HOOK) {
        r->pauses[r->n] = res.pause_ns;
        r->wholes[r->n++] = res.whole_ns;
    }
    return rc;
}

static int go(struct run *r, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        r->q.generation++;
        if (once(r, HW_ATTACH_HOOK) < 0)
            return -1;
        struct timespec pause = {0, i % 8 ? 200000 : 3000000};
        (void)nanosleep(&pause, NULL);
        if (once(r, HW_ATTACH_UNHOOK) < 0)
            return -1;
        if (i == 1)
            r->first = size_of(r->q.pid);
    }
    return 0;
}

static bool is_larger(const struct run *r)
{
    return r->last.fds > r->first.fds || r->last.threads > r->first.threads ||
           r->last.maps > r->first.maps;
}

/*
 * A thread of the program may just be saying hello: its socket is closed within a second. What a busy program has
 * of the last recording goes at the next attach: what more rounds do not take away has grown.
 */
static bool has_grown(struct run *r)
{
    struct timespec pause = {0, 10000000};
    for (int again = 0; again < MORE; again++) {
        for (int i = 0; i < 200; i++) {
            r->last = size_of(r->q.pid);
            if (!is_larger(r))
                return false;
            (void)nanosleep(&pause, NULL);
        }
        if (go(r, 1) < 0)
            return true;
    }
    fprintf(stderr, "the program grew: descriptors %d to %d, threads %d to %d, memory files %d to %d\n",
            r->first.fds, r->last.fds, r->first.threads, r->last.threads, r->first.maps,
            r->last.maps);
    return true;
}

/* The first round loads the library; the others find it. */
static void print(struct run *r)
{
    double first = (double)r->pauses[0] / 1e3;
    qsort(r->pauses, r->n, sizeof(uint64_t), cmp);
    qsort(r->wholes, r->n, sizeof(uint64_t), cmp);
    printf("{\"rounds\": %u, \"loaded\": %u, \"looks\": %u, \"first_us\": %.0f, "
           "\"pause_us\": {\"median\": %.0f, \"p99\": %.0f, \"max\": %.0f}, "
           "\"whole_us\": %.0f, \"descriptors\": %d, \"threads\": %d}\n",
           r->n, r->loaded, r->looks, first, (double)r->pauses[r->n / 2] / 1e3,
           (double)r->pauses[(r->n - 1) * 99 / 100] / 1e3, (double)r->pauses[r->n - 1] / 1e3,
           (double)r->wholes[r->n / 2] / 1e3, r->last.fds, r->last.threads);
}

int main(int argc, char **argv)
{
    struct hw_pid pid;
    int in = -1, out = -1;
    if (argc < 5)
        return 2;
    int rounds = (int)strtol(argv[2], NULL, 10);
    bool running = strcmp(argv[3], "-p") == 0;
    pid_t child = running ? (pid_t)strtol(argv[4], NULL, 10) : start(argv + 3, &in, &out);
    if (rounds <= 0 || hw_pid_open(child, &pid, NULL) < 0 || make_tables(&pid) < 0)
        return 2;
    struct run r = {.q = {.pid = &pid,
                          .library = argv[1],
                          .generation = 999,
                          .socket_path = "@heapwise-nobody-is-here",
                          .tables = tables.map},
                    .pauses = calloc((size_t)rounds + MORE, sizeof(uint64_t)),
                    .wholes = calloc((size_t)rounds + MORE, sizeof(uint64_t))};
    if (!r.pauses || !r.wholes)
        return 2;
    int rc = go(&r, rounds) < 0;
    uint32_t asked_for = r.n;
    if (rounds > 2 && has_grown(&r))
        rc = 1;
    r.n = asked_for;
    rc |= running ? !hw_pid_alive(&pid) : end(child, in, out);
    if (r.n)
        print(&r);
    return rc;
}
