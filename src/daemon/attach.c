/*
 * attach.c - preloaded processes that started before any recorder
 *
 * Their library found no socket and stays silent. Its control page is an exported symbol; where we
 * may write the process's memory, the socket's name and a generation are put there, and the next
 * allocation shakes hands. Nothing is stopped, nothing is signalled.
 *
 * A page that is mapped from another recorder's file becomes the process's own by our write. That
 * is done only when that recorder is surely gone: it said so (`ended`), or nobody listens at its
 * socket and its heartbeat has stopped, or the socket is ours (a service started again).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/core.h"
#include "daemon/permission.h"
#include "inject/inject.h"
#include "proc/number.h"

#include "base/banned.h"

#define LIBRARY    "libheapprofd_glibc_preload.so"
#define WAIT_NS    UINT64_C(5000000000)
#define DYING_NS   UINT64_C(1000000000)
#define SLICE_NS   UINT64_C(1000000)
#define FOUND_NS   UINT64_C(300000000) /* a program has begun by then */
#define FOUND_STEP UINT64_C(5000000)
#define RESCAN_NS  UINT64_C(10000000000)
#define SILENT_NS  UINT64_C(2000000000) /* a recorder's heart beats at least every 500 ms */

static bool is_known(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->pid.pid == pid && r->targets.v[i]->phase != HW_PHASE_DONE)
            return true;
    for (size_t i = 0; i < r->conns.n; i++)
        if (r->conns.v[i]->pid == pid && !r->conns.v[i]->closed)
            return true;
    return hw_inject_has(r, pid);
}

static const struct hw_map *find_library(const struct hw_maps *m)
{
    for (size_t i = 0; i < m->maps.n; i++) {
        const char *base = strrchr(m->maps.v[i].path, '/');
        if (base && strcmp(base + 1, LIBRARY) == 0 && (m->maps.v[i].flags & HW_MAP_EXEC))
            return &m->maps.v[i];
    }
    return NULL;
}

/* Everything that runs: nobody wants to read why each of the others is not profiled. */
static bool means_all(const struct hw_session *s)
{
    for (size_t i = 0; i < s->sources.n; i++)
        if (s->sources.v[i].config->all)
            return true;
    return false;
}

static int look(struct hw_session *s, struct hw_attach *a, bool by_number)
{
    struct hw_look_image i;
    struct hw_proc_status st;
    if (hw_proc_status(a->pid.dir, &st) < 0)
        return HW_EGONE;
    a->uid = st.uid;
    int rc = hw_look_image(s->rec->looker, hw_look_at(&a->pid, st.uid), HW_LOOK_ONE_FILE, LIBRARY,
                           NULL, 0, &i);
    if (rc < 0)
        return rc;
    if (i.n_files == 0 && !find_library(&i.maps))
        hw_inject_hook(s, &a->pid, /* quietly = */ !by_number && means_all(s));
    rc = HW_ENOTFOUND;
    if (i.n_files) {
        const struct hw_map *m = &i.maps.maps.v[i.files[0].map];
        int fd = i.files[0].fd;
        i.files[0].fd = -1;
        rc = hw_modules_get(s->rec->modules, fd, &i.files[0].facts, m->path, &a->library);
        if (rc == HW_OK) {
            a->bias = m->start - m->offset - a->library->load_bias;
            hw_modules_want_control(s->rec->modules, a->library);
        }
    }
    hw_look_image_done(&i);
    return rc;
}

void hw_attach_scan(struct hw_session *s)
{
    if (!(s->start.flags & HW_START_LAUNCHED))
        (void)hw_proc_list(&s->scan); /* what was found before a failure is still right */
}

bool hw_attach_busy(const struct hw_recorder *r)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i]->scan.n)
            return true;
    return false;
}

static void scan_one(struct hw_session *s, int32_t pid, uint64_t now)
{
    struct hw_attach a = {.session = s, .since_ns = now};
    bool by_number;
    if (is_known(s->rec, pid) || hw_pid_open(pid, &a.pid, NULL) < 0)
        return;
    if (!hw_session_wants_running(s, &a.pid, &by_number) || look(s, &a, by_number) < 0 ||
        hw_vec_push(&s->rec->attaching, a) < 0)
        hw_pid_done(&a.pid);
}

/* Thousands of processes are tens of milliseconds, just when those that wait shake hands. */
static void scan_slice(struct hw_session *s, uint64_t now)
{
    uint64_t end = hw_now_monotonic_ns() + SLICE_NS;
    while (s->scan.n && hw_now_monotonic_ns() < end)
        scan_one(s, s->scan.v[--s->scan.n], now);
    if (s->scan.n == 0)
        hw_vec_done(&s->scan);
}

/* ---- those that started, or got their name, meanwhile ---- */

void hw_attach_found(struct hw_recorder *r, int32_t pid, const char *why)
{
    struct hw_found f = {.since_ns = hw_now_monotonic_ns()};
    for (size_t i = 0; i < r->found.n; i++)
        if (r->found.v[i].pid.pid == pid)
            return;
    if (hw_clients_wake_one(r, pid) || hw_pid_open(pid, &f.pid, NULL) < 0)
        return;
    (void)snprintf(f.why, sizeof f.why, "%s", why);
    if (hw_vec_push(&r->found, f) < 0)
        hw_pid_done(&f.pid);
}

/* Its loader is at work still, or it was prepared and shakes hands by itself; or it has executed
 * another program just now, and we still know the one before. */
static bool is_too_early(const struct hw_recorder *r, const struct hw_found *f, uint64_t now)
{
    struct hw_error err;
    if (now - f->since_ns > FOUND_NS || !hw_pid_alive(&f->pid))
        return false;
    if (is_known(r, f->pid.pid))
        return true;
    int rc = hw_inject_check(&f->pid, &err);
    return rc == HW_EUNSUPPORTED || rc == HW_EBUSY;
}

static void look_at_found(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->found.n;) {
        struct hw_found *f = &r->found.v[i];
        if (now < f->next_ns || is_too_early(r, f, now)) {
            f->next_ns = now < f->next_ns ? f->next_ns : now + FOUND_STEP;
            i++;
            continue;
        }
        for (size_t k = 0; k < r->sessions.n; k++)
            if (!(r->sessions.v[k]->start.flags & HW_START_LAUNCHED))
                scan_one(r->sessions.v[k], f->pid.pid, now);
        hw_pid_done(&f->pid);
        r->found.v[i] = r->found.v[--r->found.n];
    }
}

static bool anybody_listens(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strnlen(name, sizeof to.sun_path - 1);
    memcpy(to.sun_path, name, n);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (name[0] != '@'));
    if (name[0] == '@')
        to.sun_path[0] = '\0';
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 || connect(fd, (struct sockaddr *)&to, size) == 0 || errno == EAGAIN;
}

/* HW_OK = ours to take; HW_EBUSY = another recorder's; HW_EGONE = dead, but not for long enough. */
static int check_owner(const struct hw_recorder *r, const struct hw_control_page *page)
{
    if (page->magic == 0 || page->ended || page->socket_path[0] == '\0' ||
        hw_door_is_ours(r, page->socket_path))
        return HW_OK;
    if (anybody_listens(page->socket_path))
        return HW_EBUSY;
    uint64_t now = hw_now_monotonic_coarse_ns(), beat = page->heartbeat_ns;
    return now > beat && now - beat > SILENT_NS ? HW_OK : HW_EGONE;
}

/* It restricted its calls after it was started: a handshake could be the end of it. */
static bool is_closed_in(const struct hw_attach *a)
{
    struct hw_proc_status st, parent;
    hw_autofd int dir = -1;
    if (hw_proc_status(a->pid.dir, &st) < 0 || st.seccomp == 0)
        return false;
    dir = hw_proc_open_dir(st.ppid);
    if (dir < 0 || hw_proc_status(dir, &parent) < 0)
        return true;
    return hw_filters_of(a->pid.dir, /* all_threads = */ true).n > parent.seccomp_filters;
}

/*
 * Is it still the image that was looked at, and may it be profiled? Asked behind the opening of its
 * memory, which stays that of the image it had then: a process that executes a set-user-id program
 * meanwhile must not get our page, at an address it has chosen, into that one.
 */
static int check_image(const struct hw_attach *a, struct hw_error *err)
{
    struct hw_proc_status st;
    struct hw_look_image i;
    if (hw_proc_status(a->pid.dir, &st) < 0 ||
        hw_look_image(a->session->rec->looker, hw_look_at(&a->pid, a->uid), HW_LOOK_NO_FILES, NULL,
                      NULL, 0, &i) < 0)
        return hw_fail(err, HW_EPERM, 0, "it has ended, or cannot be looked at");
    const struct hw_map *m = find_library(&i.maps);
    bool same = m && m->start - m->offset - a->library->load_bias == a->bias;
    hw_look_image_done(&i);
    if (!same)
        return hw_fail(err, HW_EPERM, 0, "it executes another program by now");
    return hw_permission_profile(&a->session->asking, &a->pid, &st, err);
}

static int write_page(struct hw_recorder *r, const struct hw_attach *a, struct hw_error *err)
{
    hw_autofd int mem = -1;
    struct hw_control_page page;
    struct hw_door *door;
    struct hw_look_who who = hw_look_at(&a->pid, a->uid);
    uint64_t at = a->library->control_va + a->bias;
    int rc = hw_look_read_mem(r->looker, who, at, &page, sizeof page, &mem);
    if (rc == HW_EPERM)
        return hw_fail(err, rc, 0, "memory of process %d (ptrace access is needed)", a->pid.pid);
    if (rc < 0)
        return hw_fail(err, rc, 0, "control page of process %d cannot be read", a->pid.pid);
    rc = check_image(a, err);
    if (rc < 0)
        return rc;
    if (page.magic != 0 && page.magic != HW_CONTROL_MAGIC)
        return hw_fail(err, HW_EVERSION, 0, "process %d has another version of the library",
                       a->pid.pid);
    rc = check_owner(r, &page);
    if (rc < 0)
        return hw_fail(err, rc, 0, "process %d is registered with another recorder", a->pid.pid);
    page.magic = HW_CONTROL_MAGIC;
    page.ended = 0;
    page.heartbeat_ns = hw_now_monotonic_coarse_ns();
    page.version = HW_WIRE_VERSION;
    rc = hw_door_for(r, &a->pid, &door, err);
    if (rc < 0)
        return rc;
    memcpy(page.socket_path, hw_door_name(r, door), sizeof page.socket_path);
    /* The generation last: who sees it must see the name. */
    size_t head = offsetof(struct hw_control_page, heartbeat_ns);
    rc = hw_look_write_mem(r->looker, who, mem, at + head, (char *)&page + head,
                           offsetof(struct hw_control_page, pad) - head);
    uint32_t generation = ++r->next_generation + 0x40000000u; /* not one it has seen from others */
    if (rc == HW_OK)
        rc = hw_look_write_mem(r->looker, who, mem, at, &generation, sizeof generation);
    return rc < 0 ? hw_fail(err, rc, 0, "control page of process %d cannot be written", a->pid.pid)
                  : HW_OK;
}

/* False: to be tried again. */
static bool finish(struct hw_recorder *r, struct hw_attach *a, bool first, bool last)
{
    struct hw_error err;
    int rc = HW_OK;
    if (is_known(r, a->pid.pid) || !hw_pid_alive(&a->pid))
        return true;
    if (!a->library->control_known)
        rc = hw_fail(&err, HW_ETIMEOUT, 0, "the library's file could not be read in time");
    else if (a->library->control_va == 0)
        rc = hw_fail(&err, HW_EVERSION, 0, "it has another version of the library");
    else if (is_closed_in(a))
        rc = hw_fail(&err, HW_EPERM, 0, "it restricts its system calls (seccomp)");
    else
        rc = write_page(r, a, &err);
    /* A recorder that was killed a moment ago may not be gone yet. */
    if ((rc == HW_EGONE && !last) || (rc == HW_EBUSY && first))
        return false;
    if (rc < 0)
        hw_session_warn(a->session, "process %d is not profiled: %s", a->pid.pid, err.text);
    return true;
}

static bool was_refused(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->refused.n; i++)
        if (s->refused.v[i] == pid)
            return true;
    return false;
}

/* What another recorder had may be free by now. What cannot be had at all is not tried again. */
static void scan_again(struct hw_session *s, uint64_t now)
{
    if (!(s->start.flags & HW_START_RESCAN) || s->closed || s->stopping || s->scan.n ||
        now < s->next_scan_ns)
        return;
    if (s->next_scan_ns)
        hw_attach_scan(s);
    for (size_t i = s->scan.n; i-- > 0;)
        if (was_refused(s, s->scan.v[i]))
            s->scan.v[i] = s->scan.v[--s->scan.n];
    s->next_scan_ns = now + RESCAN_NS;
}

void hw_attach_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->sessions.n; i++) {
        scan_again(r->sessions.v[i], now);
        scan_slice(r->sessions.v[i], now);
    }
    look_at_found(r, now);
    for (size_t i = 0; i < r->attaching.n;) {
        struct hw_attach *a = &r->attaching.v[i];
        bool first = now - a->since_ns < DYING_NS, last = now - a->since_ns >= WAIT_NS;
        if ((!a->library->control_known && !last) || !finish(r, a, first, last)) {
            i++;
            continue;
        }
        hw_pid_done(&a->pid);
        r->attaching.v[i] = r->attaching.v[--r->attaching.n];
    }
}

void hw_attach_forget(struct hw_session *s)
{
    struct hw_recorder *r = s->rec;
    hw_vec_done(&s->scan);
    for (size_t i = 0; i < r->attaching.n;) {
        if (r->attaching.v[i].session == s) {
            hw_pid_done(&r->attaching.v[i].pid);
            r->attaching.v[i] = r->attaching.v[--r->attaching.n];
        } else {
            i++;
        }
    }
}
