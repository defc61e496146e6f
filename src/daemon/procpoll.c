#include "daemon/core.h"
#include <stdlib.h>
int hw_proc_poll_new(struct hw_session *s, struct hw_proc_poll **out)
{
    (void)s;
    *out = NULL;
    return HW_OK;
}
void hw_proc_poll_free(struct hw_proc_poll *p)
{
    (void)p;
}
void hw_proc_poll_tick(struct hw_proc_poll *p, uint64_t now)
{
    (void)p;
    (void)now;
}
void hw_proc_poll_target(struct hw_session *s, const struct hw_target *t)
{
    (void)s;
    (void)t;
}
