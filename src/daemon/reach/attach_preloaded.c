/*
 * attach_preloaded.c - preloaded processes that started before any recorder
 *
 * Their library found no socket and stays silent. Its control page is an exported symbol; if we may
 * write the process's memory, we put the socket's name and a generation there, and the next
 * allocation makes the handshake. Nothing is stopped, nothing is signalled.
 *
 * A page that is mapped from another recorder's file becomes the process's own by our write. That
 * is done only when that recorder is surely gone: it said so (`ended`), or nobody listens at its
 * socket and its heartbeat does not change while we watch, or the socket is ours (a restarted
 * service).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "config/memlog_modes.h"
#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"
#include "proc/number.h"

#include "base/banned.h"

#define LIBRARY    "libheapprofd_glibc_preload.so"
#define WAIT_NS    UINT64_C(5000000000)
#define DYING_NS   UINT64_C(1000000000)
#define SLICE_NS   UINT64_C(1000000)
#define FOUND_NS   UINT64_C(300000000)  /* a program has begun by then */
#define FOUND_BUSY UINT64_C(5000000000) /* or one that waits for a processor or a disk */
#define FOUND_STEP UINT64_C(5000000)    /* between two checks of it, or half of what has passed */
#define RESCAN_NS  UINT64_C(10000000000)
#define SILENT_NS  UINT64_C(1500000000) /* a recorder's heartbeat comes at least every 500 ms */

static const char other_version[] =
    "it has the client library of another version of heapwise; restart the program";

static bool is_known(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->pid.pid == pid && r->targets.v[i]->phase != HW_PHASE_DONE &&
            hw_pid_alive(&r->targets.v[i]->pid))
            return true;
    return hw_clients_know(r, pid) || hw_inject_has(r, pid);
}

static bool names_some(const struct hw_memlog *m)
{
    for (size_t i = 0; i < m->rules.n; i++)
        if (m->rules.v[i].kind == HW_MEMLOG_ALL)
            return false;
    return m->rules.n != 0;
}

/* Everything that runs: nobody wants to read why each of the others is not profiled. */
static bool means_all(const struct hw_session *s)
{
    for (size_t i = 0; i < s->sources.n; i++)
        if (s->sources.v[i].config->all && !names_some(&s->sources.v[i].config->memlog))
            return true;
    return false;
}

static int look(struct hw_session *s, struct hw_attach *a, bool by_number)
{
    struct hw_reading_image i;
    struct hw_proc_status st;
    if (hw_proc_status(a->pid.dir, &st) < 0)
        return HW_EGONE;
    a->uid = st.uid;
    int rc = hw_reading_image(s->rec->blocking_reader, hw_reading_at(&a->pid, st.uid),
                              HW_READING_ONE_FILE, LIBRARY, NULL, 0, &i);
    if (rc < 0)
        return rc;
    if (i.n_files == 0 && !hw_maps_find_code(&i.maps, LIBRARY))
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
    hw_reading_image_done(&i);
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
    bool waits = hw_clients_called(s->rec, pid);
    if ((!waits && is_known(s->rec, pid)) || hw_pid_open(pid, &a.pid, NULL) < 0)
        return;
    bool wanted = hw_session_wants_running(s, &a.pid, &by_number);
    if (wanted) /* whether its library can be told or not */
        hw_session_silent_add(s, pid);
    if (waits && wanted)
        hw_session_called(s, pid);
    if (waits || !wanted || look(s, &a, by_number) < 0 || hw_vec_push(&s->rec->attaching, a) < 0)
        hw_pid_done(&a.pid);
}

/* Thousands of processes take tens of milliseconds, just when those that wait make the
 * handshake. */
static void scan_slice(struct hw_session *s, uint64_t now)
{
    uint64_t end = hw_now_monotonic_ns() + SLICE_NS;
    while (s->scan.n && hw_now_monotonic_ns() < end)
        scan_one(s, s->scan.v[--s->scan.n], now);
    if (s->scan.n == 0)
        hw_vec_done(&s->scan);
}

/* ---- processes that started, or got their name, meanwhile ---- */

void hw_attach_found(struct hw_recorder *r, int32_t pid, const char *why, bool grown)
{
    struct hw_attach_candidate f = {.since_ns = hw_now_monotonic_ns() - (grown ? FOUND_NS + 1 : 0)};
    for (size_t i = 0; i < r->found.n; i++)
        if (r->found.v[i].pid.pid == pid) { /* it executes another one: all begins anew */
            r->found.v[i].since_ns = f.since_ns;
            r->found.v[i].next_ns = 0;
            return;
        }
    if (grown && is_known(r, pid)) /* it had a sample by then, as most that live long do */
        return;
    if (hw_clients_wake_one(r, pid) || hw_pid_open(pid, &f.pid, NULL) < 0)
        return;
    (void)snprintf(f.why, sizeof f.why, "%s", why);
    if (hw_vec_push(&r->found, f) < 0)
        hw_pid_done(&f.pid);
}

/* On a busy machine the loader is not done for a long time; a process that sleeps has begun. */
static bool is_at_work(const struct hw_pid *pid)
{
    struct hw_proc_stat st;
    return hw_proc_stat(pid->dir, &st) == HW_OK && (st.state == 'R' || st.state == 'D');
}

/* Its loader is still working, or it was prepared and makes the handshake by itself; or it has
 * just executed another program, and we still know the old one. */
static bool is_too_early(const struct hw_recorder *r, const struct hw_attach_candidate *f,
                         uint64_t now)
{
    struct hw_proc_status st;
    struct hw_error err;
    bool young = now - f->since_ns <= FOUND_NS;
    if (now - f->since_ns > FOUND_BUSY || !hw_pid_alive(&f->pid))
        return false;
    if (!young && !is_at_work(&f->pid))
        return false;
    if (is_known(r, f->pid.pid))
        return young;
    if (hw_proc_status(f->pid.dir, &st) < 0)
        return false;
    int rc = hw_reading_inject(r->blocking_reader, &f->pid, st.uid, &err);
    return rc == HW_EUNSUPPORTED || rc == HW_ETIMEOUT || (rc == HW_EBUSY && young);
}

static void look_at_found(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->found.n;) {
        struct hw_attach_candidate *f = &r->found.v[i];
        if (now < f->next_ns) {
            i++;
            continue;
        }
        if (is_too_early(r, f, now)) {
            uint64_t half = (now - f->since_ns) / 2;
            f->next_ns = now + (half > FOUND_STEP ? half : FOUND_STEP);
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

uint64_t hw_attach_found_ns(const struct hw_recorder *r)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < r->found.n; i++)
        next = r->found.v[i].next_ns < next ? r->found.v[i].next_ns : next;
    return next;
}

/* HW_OK = ours to take; HW_EBUSY = another recorder's; HW_EGONE = dead, but not for long enough. */
static int check_owner(const struct hw_recorder *r, struct hw_attach *a,
                       const struct hw_control_page *page)
{
    if (page->magic == 0 || page->ended || page->socket_path[0] == '\0' ||
        hw_namespace_socket_is_ours(r, page->socket_path))
        return HW_OK;
    int rc = hw_reading_listens(r->blocking_reader, hw_reading_at(&a->pid, a->uid),
                                page->socket_path, &a->holder);
    if (rc != 0)
        return rc < 0 ? rc : HW_EBUSY;
    uint64_t now = hw_now_monotonic_ns();
    if (a->beat_ns == 0 || page->heartbeat != a->beat) {
        a->beat = page->heartbeat;
        a->beat_ns = now;
    }
    return now - a->beat_ns > SILENT_NS ? HW_OK : HW_EGONE;
}

/* Its filters are those with which it made the handshake before, or was armed. A process that
 * lies about it can only be killed by its own filter. */
static bool was_let_through(const struct hw_control_page *page, const struct hw_filters *now)
{
    return (page->magic == HW_CONTROL_MAGIC || page->magic == 0) &&
           page->sandbox == HW_SANDBOX_NONE && now->seccomp == SECCOMP_MODE_FILTER && now->n != 0 &&
           now->n < page->filters;
}

/* It restricted its calls after it was started: a handshake could kill it. */
static bool is_closed_in(const struct hw_attach *a, const struct hw_control_page *page)
{
    struct hw_proc_status st, parent;
    hw_autofd int dir = -1;
    if (hw_proc_status(a->pid.dir, &st) < 0 || st.seccomp == 0)
        return false;
    struct hw_filters now = hw_filters_of(a->pid.dir, /* all_threads = */ true);
    if (was_let_through(page, &now))
        return false;
    dir = hw_proc_open_dir(st.ppid);
    if (dir < 0 || hw_proc_status(dir, &parent) < 0)
        return true;
    return now.n > parent.seccomp_filters;
}

/*
 * Is it still the image that was inspected, and may it be profiled? Checked after opening its
 * memory, which stays that of the image it had then: a process that executes a set-user-id program
 * meanwhile must not get our page, at an address it has chosen, into that one.
 */
static int check_image(const struct hw_attach *a, struct hw_error *err)
{
    struct hw_proc_status st;
    struct hw_reading_image i;
    if (hw_proc_status(a->pid.dir, &st) < 0 ||
        hw_reading_image(a->session->rec->blocking_reader, hw_reading_at(&a->pid, a->uid),
                         HW_READING_NO_FILES, NULL, NULL, 0, &i) < 0)
        return hw_fail(err, HW_EPERM, 0, "it has ended, or cannot be inspected");
    const struct hw_map *m = hw_maps_find_code(&i.maps, LIBRARY);
    bool same = m && m->start - m->offset - a->library->load_bias == a->bias;
    hw_reading_image_done(&i);
    if (!same)
        return hw_fail(err, HW_EPERM, 0, "it has executed another program");
    return hw_permission_profile(&a->session->asking, &a->pid, &st, err);
}

static int write_page(struct hw_recorder *r, struct hw_attach *a, struct hw_error *err)
{
    hw_autofd int mem = -1;
    struct hw_control_page page;
    struct hw_namespace_socket *ns_socket;
    struct hw_reading_who who = hw_reading_at(&a->pid, a->uid);
    uint64_t at = a->library->control_va + a->bias;
    int rc = hw_reading_read_mem(r->blocking_reader, who, at, &page, sizeof page, &mem);
    if (rc == HW_EPERM)
        return hw_fail(err, rc, 0,
                       "the memory of process %d may not be written: that takes ptrace access; run "
                       "as its user or as root",
                       a->pid.pid);
    if (rc < 0)
        return hw_fail(err, rc, 0, "the library's page in process %d cannot be read", a->pid.pid);
    rc = check_image(a, err);
    if (rc < 0)
        return rc;
    if (page.magic != 0 && (page.magic != HW_CONTROL_MAGIC || !hw_wire_may_be_served(page.version)))
        return hw_fail(err, HW_EVERSION, 0, other_version);
    if (is_closed_in(a, &page))
        return hw_fail(
            err, HW_EPERM, 0,
            "it restricts its system calls (seccomp), and no recorder was running when it could "
            "have said which it allows; restart it while a recorder is running");
    rc = check_owner(r, a, &page);
    if (rc == HW_ETIMEOUT || rc == HW_ENOMEM)
        return hw_fail(err, rc, 0, "its present recorder cannot be determined: %s",
                       hw_errc_text(rc));
    if (rc < 0)
        return hw_session_held_elsewhere(a->session, a->holder, rc, err);
    page.magic = HW_CONTROL_MAGIC;
    page.ended = 0;
    page.heartbeat++;
    if (page.version == 0) /* no recorder has told it one so far; its hello says what it speaks */
        page.version = HW_WIRE_VERSION;
    rc = hw_namespace_socket_for(r, &a->pid, &ns_socket, err);
    if (rc < 0)
        return rc;
    memcpy(page.socket_path, hw_namespace_socket_name(r, ns_socket), sizeof page.socket_path);
    /* The generation last: a thread that sees it must see the name. */
    size_t head = offsetof(struct hw_control_page, heartbeat);
    rc = hw_reading_write_mem(r->blocking_reader, who, mem, at + head, (char *)&page + head,
                              offsetof(struct hw_control_page, pad) - head);
    uint32_t generation = ++r->next_generation + 0x40000000u; /* not one it has seen from others */
    if (rc == HW_OK)
        rc = hw_reading_write_mem(r->blocking_reader, who, mem, at, &generation, sizeof generation);
    return rc < 0 ? hw_fail(err, rc, 0, "the library's page in process %d cannot be written",
                            a->pid.pid)
                  : HW_OK;
}

/* False: try again. */
static bool finish(struct hw_recorder *r, struct hw_attach *a, bool first, bool last)
{
    struct hw_error err;
    int rc = HW_OK;
    if (is_known(r, a->pid.pid) || !hw_pid_alive(&a->pid))
        return true;
    if (!a->library->control_known)
        rc = hw_fail(&err, HW_ETIMEOUT, 0,
                     "the client library's file could not be read in time; try again");
    else if (a->library->control_va == 0)
        rc = hw_fail(&err, HW_EVERSION, 0, other_version);
    else
        rc = write_page(r, a, &err);
    /* A recorder that was killed a moment ago may not be gone yet. */
    if ((rc == HW_EGONE && !last) || (rc == HW_EBUSY && first && !hw_holder_has_command(a->holder)))
        return false;
    if (!hw_pid_alive(&a->pid)) /* what failed there says nothing */
        return true;
    bool again = rc == HW_EBUSY || (rc == HW_ETIMEOUT && a->session->start.flags & HW_START_RESCAN);
    if (rc == HW_EBUSY)
        hw_session_reject(a->session, &a->pid, err.text);
    else if (rc < 0 && !again)
        hw_session_fail(a->session, a->pid.pid, err.text);
    else if (rc == HW_OK)
        hw_session_called(a->session, a->pid.pid);
    if (again)
        hw_session_try_again(a->session, a->pid.pid);
    return true;
}

/* What another recorder had may be free by now. The finder of starting programs reports the
 * others; only without it all of /proc is scanned. What cannot be had at all is not tried again. */
static void scan_again(struct hw_session *s, uint64_t now)
{
    const struct hw_exec_watch *finder = &s->rec->starts;
    bool all = finder->lost || finder->order < 0;
    if (!(s->start.flags & HW_START_RESCAN) || s->closed || s->stopping || s->scan.n)
        return;
    if ((all || s->again.n) && s->next_scan_ns == 0)
        s->next_scan_ns = now + RESCAN_NS;
    if (s->next_scan_ns == 0 || now < s->next_scan_ns)
        return;
    s->next_scan_ns = 0;
    hw_pid_list again = s->again; /* those that another recorder still has are added again */
    s->again = (hw_pid_list){0};
    if (all)
        hw_attach_scan(s);
    for (size_t i = 0; !all && i < again.n; i++)
        (void)hw_vec_push(&s->scan, again.v[i]); /* without memory it is not asked again */
    hw_vec_done(&again);
    for (size_t i = s->scan.n; i-- > 0;)
        if (hw_session_was_refused(s, s->scan.v[i]))
            s->scan.v[i] = s->scan.v[--s->scan.n];
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
    hw_vec_done(&s->again);
    for (size_t i = 0; i < r->attaching.n;) {
        if (r->attaching.v[i].session == s) {
            hw_pid_done(&r->attaching.v[i].pid);
            r->attaching.v[i] = r->attaching.v[--r->attaching.n];
        } else {
            i++;
        }
    }
}
