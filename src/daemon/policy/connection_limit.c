#include "daemon/policy/connection_limit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"

#include "base/banned.h"

static const char reason[] =
    "the programs of user %u have as many connections as one user gets (a quarter of all): further "
    "ones are not profiled; end some, or raise the limit (ulimit -n, LimitNOFILE= of the service)";

/* NULL: it is one too many. */
static struct hw_refused_user *find(struct hw_recorder *r, uint32_t uid)
{
    for (size_t i = 0; i < r->n_refused_users; i++)
        if (r->refused_users[i].uid == uid)
            return &r->refused_users[i];
    if (r->n_refused_users == HW_ARRAY_LEN(r->refused_users))
        return NULL;
    struct hw_refused_user *u = &r->refused_users[r->n_refused_users++];
    *u = (struct hw_refused_user){.uid = uid};
    return u;
}

void hw_connection_limit_refused(struct hw_recorder *r, uint32_t uid)
{
    struct hw_refused_user *u = find(r, uid);
    r->n_refused++;
    if (u && u->n++ == 0)
        hw_log(WARN, reason, uid);
    for (size_t i = 0; i < r->sessions.n; i++) {
        struct hw_session *s = r->sessions.v[i];
        if (s->told_share || !s->control || hw_permission_session(s->uid, uid) < 0)
            continue;
        s->told_share = true;
        hw_session_warn(s, reason, uid);
    }
}

uint64_t hw_connection_limit_count(const struct hw_recorder *r, uint32_t uid)
{
    for (size_t i = 0; uid != 0 && i < r->n_refused_users; i++)
        if (r->refused_users[i].uid == uid)
            return r->refused_users[i].n;
    return uid == 0 ? r->n_refused : 0;
}
