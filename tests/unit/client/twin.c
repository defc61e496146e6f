/* twin.c - see twin.h */
#include "twin.h"

#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "unwind/table.h"
#include "wire/control_page.h"

#define MAX_CLIENTS 2048
#define A_TURN      4096 /* records */

struct sample {
    uint64_t address, alloc_size, sample_size;
    struct twin_fn *fn;
};

struct client {
    bool is_damaged;
    pid_t pid;
    int sock;
    struct hw_ring_reader ring;
    struct hw_control_page *control;
    struct hw_map64 live;   /* sample id → struct sample * */
    struct hw_map64 stacks; /* stack id → leaf pc */
    uint64_t base;          /* load address of the program */
    bool done, waits;
};

struct twin {
    const struct twin_options *o;
    struct twin_result *r;
    char dir[64];
    struct sockaddr_un addr;
    int listener;
    char exe[512];
    struct client clients[MAX_CLIENTS];
    unsigned n;
    uint32_t generation;
    bool bias; /* the program is position independent */
};

static void broken(struct twin *t, const char *what, uint64_t a, uint64_t b)
{
    if (t->r->n_broken++ < 10)
        (void)fprintf(stderr, "twin: %s: %#llx %#llx\n", what, (unsigned long long)a,
                      (unsigned long long)b);
}

/* ---- the program's functions, from its symbol table; our own build, so trusted ---- */

static void read_symbols(struct twin *t, const char *path)
{
    size_t n;
    hw_autofree char *file = NULL;
    if (hw_file_read(AT_FDCWD, path, 64u << 20, &file, &n, NULL) < 0)
        return;
    const Elf64_Ehdr *h = (const void *)file;
    t->bias = h->e_type == ET_DYN;
    const Elf64_Shdr *sections = (const void *)(file + h->e_shoff);
    for (unsigned i = 0; i < h->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *s = (const void *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        size_t count = sections[i].sh_size / sizeof *s;
        t->r->fns = calloc(count + 1, sizeof *t->r->fns);
        for (size_t k = 0; k < count; k++) {
            if (ELF64_ST_TYPE(s[k].st_info) != STT_FUNC || s[k].st_size == 0)
                continue;
            struct twin_fn *f = &t->r->fns[t->r->n_fns++];
            (void)snprintf(f->name, sizeof f->name, "%s", names + s[k].st_name);
            f->lo = s[k].st_value;
            f->hi = f->lo + s[k].st_size;
        }
    }
}

static struct twin_fn *fn_at(struct twin *t, const struct client *c, uint64_t pc)
{
    uint64_t va = t->bias ? pc - c->base : pc;
    for (size_t i = 0; i < t->r->n_fns; i++)
        if (va - 1 >= t->r->fns[i].lo && va - 1 < t->r->fns[i].hi)
            return &t->r->fns[i];
    return NULL;
}

static uint64_t load_address(const struct twin *t, pid_t pid)
{
    char path[64];
    char line[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "r");
    uint64_t base = 0;
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, t->exe) && base == 0)
            base = strtoull(line, NULL, 16);
    if (f)
        (void)fclose(f);
    return base;
}

/* ---- handshake ---- */

#define TOKEN 0xfedcba9876543210ull

static int tables_file(uint32_t arch)
{
    int fd = memfd_create("twin-tables", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct hw_tables_dir d = {.magic = HW_TABLES_MAGIC, .version = HW_TABLE_VERSION, .arch = arch};
    atomic_store(&d.snapshot_off, sizeof d);
    if (ftruncate(fd, (off_t)HW_TABLES_BYTES) != 0 || pwrite(fd, &d, sizeof d, 0) < 0)
        abort();
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

static int control_file(struct twin *t, struct client *c, uint32_t generation)
{
    int fd = memfd_create("twin-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, HW_CONTROL_BYTES) != 0)
        abort();
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    c->control = mmap(NULL, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    c->control->magic = HW_CONTROL_MAGIC;
    c->control->version = HW_WIRE_VERSION;
    (void)snprintf(c->control->socket_path, sizeof c->control->socket_path, "%s", t->addr.sun_path);
    (void)atomic_fetch_add(&c->control->heartbeat, 1);
    atomic_store(&c->control->generation, generation);
    return fd;
}

static void send_welcome(struct client *c, const struct hw_welcome *w, const int *fds, int n)
{
    char control[CMSG_SPACE(sizeof(int) * 3)] = {0};
    struct iovec iov = {(void *)(uintptr_t)w, sizeof *w};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n > 0) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
        memcpy(CMSG_DATA(h), fds, sizeof(int) * (size_t)n);
    }
    (void)sendmsg(c->sock, &m, MSG_NOSIGNAL);
}

static void accept_client(struct twin *t)
{
    int s = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
    if (s < 0 || t->n >= MAX_CLIENTS)
        return;
    struct client *c = &t->clients[t->n];
    struct hw_hello h;
    struct ucred cred;
    socklen_t len = sizeof cred;
    ssize_t got = recv(s, &h, sizeof h, 0);
    if (got == 0) { /* a recorder of another test asks whether anybody listens here */
        (void)close(s);
        return;
    }
    bool armed = got == (ssize_t)sizeof h && (h.flags & HW_HELLO_ARMED);
    if (armed && (h.armed_token != TOKEN || h.armed_interval_bytes != t->o->armed_interval))
        broken(t, "armed otherwise", h.armed_token, h.armed_interval_bytes);
    if (got != (ssize_t)sizeof h || h.magic != HW_HELLO_MAGIC ||
        getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
        broken(t, "bad hello", h.magic, 0);
        (void)close(s);
        return;
    }
    t->n++;
    t->r->n_clients++;
    t->r->n_armed += armed;
    t->r->n_startup += (h.flags & HW_HELLO_STARTUP) != 0;
    c->sock = s;
    c->pid = cred.pid;
    c->base = load_address(t, cred.pid);
    c->ring.fd = -1;
    uint32_t status = t->n == 1 && t->o->first_status ? t->o->first_status - 1 : HW_WELCOME_PROFILE;
    struct hw_welcome w = {.magic = HW_WELCOME_MAGIC,
                           .version = HW_WIRE_VERSION,
                           .status = status,
                           .now_ns = hw_now_monotonic_ns()};
    c->waits = status == HW_WELCOME_WAIT;
    uint32_t generation = status == HW_WELCOME_PROFILE ? ++t->generation : 0;
    w.generation = generation;
    w.config = (struct hw_client_config){.flags = t->o->flags | (armed ? (uint32_t)HW_CC_ARMED : 0),
                                         .n_heaps = 1,
                                         .default_interval_bytes = t->o->interval,
                                         .block_timeout_us = t->o->block_timeout_us,
                                         .adaptive_threshold_bytes = t->o->adaptive_threshold,
                                         .seed = t->o->seed,
                                         .max_frames = 128};
    w.config.heaps[0].interval_bytes = t->o->interval;
    (void)snprintf(w.config.heaps[0].name, HW_HEAP_NAME_MAX, "libc.malloc");
    int fds[3] = {control_file(t, c, generation), -1, -1};
    if (status == HW_WELCOME_PROFILE) {
        if (hw_ring_create(&c->ring, t->o->ring_bytes) != 0)
            abort();
        fds[1] = c->ring.fd;
        fds[2] = tables_file(h.arch);
    }
    (void)usleep((t->n > 1 ? t->o->answer_after_ms : t->o->first_after_ms) * 1000);
    send_welcome(c, &w, fds, status == HW_WELCOME_PROFILE ? 3 : status == HW_WELCOME_WAIT ? 1 : 0);
    (void)close(fds[0]);
    if (fds[2] >= 0)
        (void)close(fds[2]);
    hw_ring_close_fd(&c->ring);
}

/* ---- books ---- */

static void on_alloc(struct twin *t, struct client *c, const struct hw_rec_alloc *a, uint64_t pos,
                     uint64_t pc)
{
    struct sample *s = malloc(sizeof *s);
    *s = (struct sample){a->address, a->alloc_size, a->sample_size, fn_at(t, c, pc)};
    if (hw_map64_find(&c->live, pos))
        broken(t, "sample id twice", pos, 0);
    (void)hw_map64_put(&c->live, pos, (uint64_t)(uintptr_t)s);
    t->r->n_allocs++;
    t->r->alloc_bytes += a->alloc_size;
    t->r->sample_bytes += a->sample_size;
    t->r->live_bytes += a->sample_size;
    t->r->objects += (double)a->sample_size / (double)a->alloc_size;
    if (s->fn) {
        s->fn->alloc += a->sample_size;
        s->fn->allocs++;
    }
}

static void on_free(struct twin *t, struct client *c, const struct hw_rec_free *f)
{
    uint64_t v;
    if (!hw_map64_take(&c->live, f->sample_id, &v)) {
        broken(t, "free of an unknown sample", f->sample_id, 0);
        return;
    }
    struct sample *s = (struct sample *)(uintptr_t)v;
    t->r->n_frees++;
    t->r->live_bytes -= s->sample_size;
    if (s->fn) {
        s->fn->freed += s->sample_size;
        s->fn->freed_objects++;
    }
    free(s);
}

static void on_record(struct twin *t, struct client *c, const uint8_t *rec, uint32_t size,
                      uint64_t pos)
{
    uint64_t head, pc;
    memcpy(&head, rec, 8);
    switch ((enum hw_rec_type)hw_rec_head_type(head)) {
    case HW_REC_ALLOC: {
        const struct hw_rec_alloc *a = (const void *)rec;
        if (!hw_map64_get(&c->stacks, a->stack_id, &pc)) {
            broken(t, "event before its stack", a->stack_id, pos);
            pc = 0;
        }
        on_alloc(t, c, a, pos, pc);
        break;
    }
    case HW_REC_EXACT: {
        const struct hw_rec_exact *e = (const void *)rec;
        uint64_t n = e->size_heap & (HW_EXACT_SIZE_LIMIT - 1);
        struct hw_rec_alloc a = {.alloc_size = n, .sample_size = n, .stack_id = e->stack_id};
        if (!hw_map64_get(&c->stacks, a.stack_id, &pc)) {
            broken(t, "event before its stack", a.stack_id, pos);
            pc = 0;
        }
        on_alloc(t, c, &a, pos, pc);
        break;
    }
    case HW_REC_FREE:
        on_free(t, c, (const void *)rec);
        break;
    case HW_REC_STACK: {
        const struct hw_rec_stack *s = (const void *)rec;
        memcpy(&pc, s + 1, s->n_frames ? 8 : 0);
        if (size != sizeof *s + 8 * (s->n_frames + (s->n_frames + 63) / 64))
            broken(t, "stack of wrong size", size, s->n_frames);
        (void)hw_map64_put(&c->stacks, s->stack_id, s->n_frames ? pc : 0);
        t->r->n_stacks++;
        break;
    }
    case HW_REC_MIXED: /* no runtime in these tests */
    case HW_REC_NAME:
    case HW_REC_SLICES:
    case HW_REC_FORK:
    case HW_REC_UNMAP: /* nor mappings */
        broken(t, "managed frames", size, pos);
        break;
    case HW_REC_ALLOC_COPY: {
        const struct hw_rec_copy *k = (const void *)rec;
        memcpy(&pc, rec + sizeof *k + (k->arch == HW_ARCH_ARM64 ? 32 : 16) * 8, 8);
        if (size != sizeof *k + k->n_regs * 8u + k->n_bytes)
            broken(t, "copy of wrong size", size, k->n_bytes);
        on_alloc(t, c, &k->alloc, pos, pc);
        t->r->n_copies++;
        break;
    }
    case HW_REC_HEAP:
        t->r->n_heaps++;
        break;
    case HW_REC_MAPS:
    case HW_REC_MINFO:
    case HW_REC_FAILED:
    case HW_REC_PAD:
        break;
    case HW_REC_NONE:
    case HW_REC_TYPE_COUNT:
        broken(t, "record type", head, 0);
    }
}

/* Not all at once while the program goes on: a busy machine's may write for as long as we read, and without a
 * heartbeat for 2 s it gives up. */
static void drain(struct twin *t, struct client *c, size_t max)
{
    const uint8_t *rec;
    uint32_t size;
    uint64_t pos;
    int rc = 0;
    if (!c->ring.shm)
        return;
    for (size_t n = 0; n < max && (rc = hw_ring_peek(&c->ring, &rec, &size, &pos)) == 1; n++) {
        on_record(t, c, rec, size, pos);
        hw_ring_next(&c->ring, size);
        hw_ring_release(&c->ring);
    }
    if (rc < 0 && !c->is_damaged)
        broken(t, "ring damaged", (uint64_t)rc, 0);
    c->is_damaged |= rc < 0;
}

static void client_end(struct twin *t, struct client *c)
{
    t->r->n_answered += c->waits;
    if (c->ring.shm) {
        t->r->n_answered += atomic_load(&c->ring.shm->write_pos) > HW_RING_FIRST_POS;
        drain(t, c, SIZE_MAX);
        uint32_t e = atomic_load(&c->ring.shm->client_error);
        if (e)
            t->r->client_error = e;
        const _Atomic uint64_t *k = (const _Atomic uint64_t *)(const void *)&c->ring.shm->counters;
        for (size_t i = 0; i < sizeof(struct hw_ring_counters) / 8; i++)
            t->r->counters[i] += atomic_load(&k[i]);
    }
    for (size_t i = 0; c->live.slots && i <= c->live.mask; i++)
        if (c->live.slots[i].key != HW_MAP64_NO_KEY)
            free((void *)(uintptr_t)c->live.slots[i].value);
    hw_map64_done(&c->live);
    hw_map64_done(&c->stacks);
    (void)munmap(c->control, HW_CONTROL_BYTES);
    if (c->ring.shm)
        hw_ring_done(&c->ring);
    (void)close(c->sock);
    c->done = true;
}

/* ---- the run ---- */

static pid_t spawn(const struct twin *t, char *const argv[], int out)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)dup2(out, 1);
    (void)setenv("LD_PRELOAD", t->o->library, 1);
    (void)setenv("HEAPWISE_SOCKET", t->addr.sun_path, 1);
    if (t->o->armed_interval) {
        char mark[HW_ARMED_MARK_BYTES];
        (void)snprintf(mark, sizeof mark, HW_ARMED_MARK, (unsigned long long)t->o->armed_interval,
                       TOKEN, 1u);
        (void)setenv("HEAPWISE_HELD", mark, 1);
    }
    (void)execvp(argv[0], argv);
    _exit(127);
}

static void beat(struct twin *t, uint64_t start_ns)
{
    const struct twin_options *o = t->o;
    bool silent = o->silent_after && t->n >= o->silent_after;
    uint64_t now = hw_now_monotonic_ns();
    for (unsigned i = 0; i < t->n && !silent; i++) {
        struct client *c = &t->clients[i];
        if (c->done)
            continue;
        (void)atomic_fetch_add(&c->control->heartbeat, 1);
        if (now - start_ns >= o->stall_ms * 1000000ull)
            drain(t, c, A_TURN);
    }
}

/* The next session: the old ring's records end, the client comes with a new handshake. */
static void next_session(struct twin *t, unsigned *n, uint64_t *since)
{
    uint64_t now = hw_now_monotonic_ns();
    if (t->n == 0 || *n + 1 >= t->o->n_sessions || now - *since < t->o->session_ms * 1000000ull)
        return;
    *since = now;
    struct client *c = &t->clients[t->n - 1];
    if (c->done || t->n != *n + 1)
        return; /* the last start was not answered yet */
    (*n)++;
    drain(t, c, A_TURN);
    /* 0 for a moment, so that some threads see the end and some only the change. */
    atomic_store(&c->control->generation, 0);
    (void)usleep(200);
    atomic_store(&c->control->generation, 1000000 + *n);
}

/* Where others find it, too; its peer is who has called listen. */
static int listen_as(const struct twin *t, uid_t uid)
{
    if (chmod(t->dir, 0755) != 0 || chmod(t->addr.sun_path, 0666) != 0)
        return -1;
    if (uid && seteuid(uid) != 0)
        return -1;
    int rc = listen(t->listener, 128);
    return uid && seteuid(0) != 0 ? -1 : rc;
}

int twin_run(const struct twin_options *o, char *const argv[], struct twin_result *out)
{
    struct twin *t = calloc(1, sizeof *t);
    int status = 0;
    t->o = o;
    t->r = out;
    *out = (struct twin_result){0};
    (void)snprintf(t->dir, sizeof t->dir, "/tmp/hw-twin-XXXXXX");
    /* Under an emulator the program is its argument. */
    char *real = realpath(strstr(argv[0], "qemu-") && argv[1] ? argv[1] : argv[0], NULL);
    if (real) {
        (void)snprintf(t->exe, sizeof t->exe, "%s", real);
        read_symbols(t, real);
        free(real);
    }
    if (!mkdtemp(t->dir))
        return -1;
    t->addr.sun_family = AF_UNIX;
    (void)snprintf(t->addr.sun_path, sizeof t->addr.sun_path, "%s/s", t->dir);
    t->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(t->listener, (struct sockaddr *)&t->addr, sizeof t->addr) != 0 ||
        listen_as(t, o->uid) != 0)
        return -1;
    FILE *text = tmpfile();
    pid_t pid = spawn(t, argv, fileno(text));
    uint64_t since = hw_now_monotonic_ns(), start = since;
    unsigned session = 0;
    for (;;) {
        struct pollfd p = {.fd = t->listener, .events = POLLIN};
        (void)poll(&p, 1, 1);
        if (p.revents & POLLIN)
            accept_client(t);
        beat(t, start);
        next_session(t, &session, &since);
        if (waitpid(pid, &status, WNOHANG) == pid)
            break;
    }
    for (unsigned i = 0; i < t->n; i++)
        client_end(t, &t->clients[i]);
    out->exit_status = status;
    long n = ftell(text);
    (void)fseek(text, 0, SEEK_END);
    n = ftell(text);
    rewind(text);
    out->out = calloc(1, (size_t)n + 1);
    if (fread(out->out, 1, (size_t)n, text) != (size_t)n)
        out->out[0] = '\0';
    (void)fclose(text);
    (void)close(t->listener);
    (void)unlink(t->addr.sun_path);
    (void)rmdir(t->dir);
    free(t);
    return 0;
}

void twin_done(struct twin_result *r)
{
    free(r->out);
    free(r->fns);
}

unsigned twin_differences(const struct twin_result *r, unsigned *n_lines)
{
    unsigned bad = 0;
    *n_lines = 0;
    for (const char *p = r->out; (p = strstr(p, "EXPECT ")); p++) {
        char name[64];
        unsigned long long a, n, live, objects;
        if (sscanf(p, "EXPECT %63s %llu %llu %llu %llu", name, &a, &n, &live, &objects) != 5)
            continue;
        (*n_lines)++;
        struct twin_fn sum = {0};
        for (size_t i = 0; i < r->n_fns; i++)
            if (strcmp(r->fns[i].name, name) == 0)
                sum = r->fns[i];
        if (sum.alloc == a && sum.allocs == n && sum.alloc - sum.freed == live &&
            sum.allocs - sum.freed_objects == objects)
            continue;
        bad++;
        (void)fprintf(stderr, "twin: %s: expected %llu %llu %llu %llu, got %llu %llu %llu %llu\n",
                      name, a, n, live, objects, (unsigned long long)sum.alloc,
                      (unsigned long long)sum.allocs, (unsigned long long)(sum.alloc - sum.freed),
                      (unsigned long long)(sum.allocs - sum.freed_objects));
    }
    return bad;
}

uint64_t twin_counter(const struct twin_result *r, const char *name)
{
    size_t i = 0;
#define X(n, text)                                                                                 \
    if (strcmp(name, #n) == 0)                                                                     \
        return r->counters[i];                                                                     \
    i++;
    HW_RING_COUNTERS(X)
#undef X
    return UINT64_MAX;
}
