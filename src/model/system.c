#include "model/system.h"

#include "base/error.h"
#include "model/profile.h"

#include "base/banned.h"

int hw_profile_thread(struct hw_profile *p, hw_upid upid, int64_t tid, hw_str_id name,
                      uint32_t *row)
{
    uint64_t *at;
    bool fresh;
    if (tid < 0 || tid > INT32_MAX)
        return HW_EINVAL;
    if (hw_vec_reserve(&p->threads.rows, p->threads.rows.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(&p->threads.by_tid, (uint64_t)upid.v << 32 | (uint64_t)tid, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = p->threads.rows.n;
        p->threads.rows.v[p->threads.rows.n++] = (struct hw_thread){
            .tid = tid, .upid = upid, .is_main = p->processes.v[upid.v].pid == tid};
    }
    if (name.v)
        p->threads.rows.v[*at].name = name;
    if (row)
        *row = (uint32_t)*at;
    return HW_OK;
}
