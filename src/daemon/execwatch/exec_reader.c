/*
 * exec_reader.c - how long other processes' memory keeps a reader waiting
 *
 * Arguments may lie in memory that answers when somebody else likes (userfaultfd, a file of FUSE).
 * If it never answers, the time limit ends the read, and the process is left alone; if it always
 * answers shortly before that, it would delay everybody's execs again and again. So the waits of
 * each user are added up, and a user who has used up the allowed share is skipped for a while. Only
 * waits count, which the kernel shows by the reader's own context switches: a reader that lost its
 * processor to others has not waited for memory.
 */
#include "daemon/execwatch/exec_reader.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"

#include "base/banned.h"

#define MS       UINT64_C(1000000)
#define SHORT_NS (1 * MS)     /* a page from a fast disk; not worth finding out whose it was */
#define MOST_NS  (200 * MS)   /* of one user in one window */
#define WINDOW   (10000 * MS) /* starts with the first wait */
#define ALONE_NS (60000 * MS) /* how long the user is skipped then */

uint32_t hw_exec_user_of(int32_t tid)
{
    char path[32];
    struct stat st = {0};
    (void)snprintf(path, sizeof path, "/proc/%d", tid);
    (void)stat(path, &st); /* it has been killed: as root's, who is not blamed */
    return st.st_uid;
}

static long n_waits(void)
{
    struct rusage u = {0};
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail with these arguments; one thread */
    return u.ru_nvcsw;
}

void hw_exec_reading_begin(struct hw_exec_reader *r, int32_t tid, struct hw_exec_reading *out)
{
    *out =
        (struct hw_exec_reading){.tid = tid, .n_waits = n_waits(), .at_ns = hw_now_monotonic_ns()};
    atomic_store_explicit(&r->at, tid, memory_order_relaxed); /* for the guard, once we end */
}

static struct hw_exec_waits *find(struct hw_exec_reader *r, uint32_t uid)
{
    struct hw_exec_waits *oldest = r->users;
    for (size_t i = 0; i < HW_EXEC_WAITERS; i++) {
        struct hw_exec_waits *w = &r->users[i];
        if (w->uid == uid && w->since_ns)
            return w;
        if (w->since_ns < oldest->since_ns)
            oldest = w;
    }
    *oldest = (struct hw_exec_waits){.uid = uid};
    return oldest;
}

static void add(struct hw_exec_reader *r, uint32_t uid, uint64_t began_ns, uint64_t now)
{
    struct hw_exec_waits *w = find(r, uid);
    if (w->since_ns == 0 || now - w->since_ns > WINDOW) {
        w->since_ns = began_ns;
        w->waited_ns = 0;
    }
    w->waited_ns += now - began_ns;
    if (w->waited_ns > MOST_NS)
        w->alone_until_ns = r->any_until_ns = now + ALONE_NS;
}

void hw_exec_reading_end(struct hw_exec_reader *r, const struct hw_exec_reading *x)
{
    atomic_store_explicit(&r->at, 0, memory_order_relaxed);
    uint64_t now = hw_now_monotonic_ns();
    if (now - x->at_ns < SHORT_NS || n_waits() == x->n_waits)
        return;
    uint32_t uid = hw_exec_user_of(x->tid);
    if (uid)
        add(r, uid, x->at_ns, now);
}

bool hw_exec_reader_avoids(const struct hw_exec_reader *r, int32_t tid)
{
    uint64_t now = hw_now_monotonic_ns();
    if (now >= r->any_until_ns)
        return false;
    uint32_t uid = hw_exec_user_of(tid);
    for (size_t i = 0; i < HW_EXEC_WAITERS; i++)
        if (r->users[i].uid == uid && now < r->users[i].alone_until_ns)
            return true;
    return false;
}
