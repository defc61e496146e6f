#include "server/rpc/pipe_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/detached.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "server/rpc/processor.h"
#include "server/rpc/rpc.h"

#include "base/banned.h"

enum { READ_BYTES = 64 << 10, BACKLOG = 16, MAX_CLIENTS = 64 };

static int write_fd(void *ctx, struct hw_bytes frame)
{
    return hw_fd_write_all(*(int *)ctx, frame.p, frame.n);
}

/* The reader has closed its end. A closed sender is no reason: it may still wait for responses. */
static bool is_closed(void *ctx)
{
    struct pollfd p = {.fd = *(int *)ctx};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

static int serve(struct hw_rpc *r, int in, int out, struct hw_error *err)
{
    hw_autofree char *buffer = malloc(READ_BYTES);
    struct hw_rpc_write to = {write_fd, &out};
    if (!buffer)
        return hw_fail(err, HW_ENOMEM, 0, "RPC");
    hw_rpc_job(r)->gone = is_closed;
    hw_rpc_job(r)->ctx = &out;
    for (;;) {
        ssize_t n = read(in, buffer, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hw_fail_sys(err, "cannot read requests");
        if (n == 0)
            return HW_OK;
        int rc = hw_rpc_bytes(r, hw_bytes_of(buffer, (size_t)n), &to);
        if (rc < 0)
            return hw_fail(err, rc, 0, "the RPC ended: %s", hw_errc_text(rc));
    }
}

int hw_pipe_serve(struct hw_rpc_server *s, int in, int out, struct hw_error *err)
{
    struct hw_rpc *r = hw_rpc_new(s);
    if (!r)
        return hw_fail(err, HW_ENOMEM, 0, "RPC");
    int rc = serve(r, in, out, err);
    hw_rpc_free(r);
    return rc;
}

/* ---- a socket ---- */

static bool is_listening(const struct sockaddr_un *a)
{
    hw_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) == 0;
}

int hw_pipe_listen(const char *path, struct hw_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return hw_fail(err, HW_EINVAL, 0, "the path '%.100s...' is too long for a socket", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (is_listening(&a))
        return hw_fail(err, HW_EBUSY, 0, "a server is already listening at '%s'", path);
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        (void)unlink(path);
    hw_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return hw_fail_sys(err, "socket");
    mode_t old = umask(0177); /* accessible to the owner only, from creation on */
    int rc = bind(fd, (const struct sockaddr *)&a, sizeof a);
    (void)umask(old);
    if (rc < 0 || listen(fd, BACKLOG) < 0)
        return hw_fail_sys(err, "cannot listen at '%s'", path);
    return hw_fd_take(&fd);
}

struct clients {
    const struct hw_pipe_clients *c;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    HW_VEC(int) open; /* their descriptors */
    uint64_t last_end_ns;
    bool had_one;
};

struct client {
    struct clients *all;
    struct hw_rpc *rpc;
    int fd;
};

static void *run_client(void *ctx)
{
    struct client *c = ctx;
    struct clients *all = c->all;
    struct hw_error err = {0};
    (void)serve(c->rpc, c->fd, c->fd, &err); /* the client got the error */
    hw_rpc_free(c->rpc);
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->open.n; i++)
        if (all->open.v[i] == c->fd)
            all->open.v[i] = all->open.v[--all->open.n];
    all->last_end_ns = hw_now_monotonic_ns();
    (void)close(c->fd);
    free(c);
    pthread_cond_broadcast(&all->ended);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* Takes ownership of fd. */
static void add_client(struct clients *all, int fd)
{
    struct client *c = calloc(1, sizeof *c);
    bool ok = c != NULL;
    if (ok) {
        *c = (struct client){all, hw_rpc_new(all->c->server), fd};
        ok = c->rpc != NULL;
    }
    pthread_mutex_lock(&all->lock);
    ok = ok && all->open.n < MAX_CLIENTS && hw_vec_push(&all->open, fd) == 0;
    if (ok) {
        ok = hw_detached_run(run_client, c, /* stack_bytes = */ 0);
        if (!ok)
            all->open.n--;
    }
    all->had_one = all->had_one || ok;
    pthread_mutex_unlock(&all->lock);
    if (ok)
        return;
    (void)close(fd);
    if (c)
        hw_rpc_free(c->rpc);
    free(c);
}

static bool idle_too_long(struct clients *all)
{
    pthread_mutex_lock(&all->lock);
    bool waits = all->c->idle_timeout_s && all->open.n == 0 && (all->had_one || all->c->idle_start);
    bool over = waits && hw_now_monotonic_ns() - all->last_end_ns >=
                             (uint64_t)all->c->idle_timeout_s * 1000000000;
    pthread_mutex_unlock(&all->lock);
    return over;
}

int hw_pipe_serve_clients(int fd, const struct hw_pipe_clients *c, struct hw_error *err)
{
    struct clients all = {.c = c, .last_end_ns = hw_now_monotonic_ns()};
    int rc = HW_OK;
    pthread_mutex_init(&all.lock, NULL);
    pthread_cond_init(&all.ended, NULL);
    while (!idle_too_long(&all)) {
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = c->stop_fd, .events = POLLIN}};
        int n = poll(p, 2, c->idle_timeout_s ? 200 : -1);
        if (n > 0 && p[1].revents)
            break;
        if (n <= 0 || !p[0].revents)
            continue;
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            add_client(&all, client);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            (void)poll(&p[1], 1, 100); /* the client still waits: avoids a busy loop */
        else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) {
            rc = hw_fail_sys(err, "cannot accept connections");
            break;
        }
    }
    pthread_mutex_lock(&all.lock);
    for (size_t i = 0; i < all.open.n; i++)
        (void)shutdown(all.open.v[i], SHUT_RDWR);
    while (all.open.n)
        pthread_cond_wait(&all.ended, &all.lock);
    pthread_mutex_unlock(&all.lock);
    hw_vec_done(&all.open);
    pthread_mutex_destroy(&all.lock);
    pthread_cond_destroy(&all.ended);
    return rc;
}
