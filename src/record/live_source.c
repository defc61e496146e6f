#include "record/live_source.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "record/controller.h"
#include "record/service.h"

#include "base/banned.h"

enum { LOOK_MS = 11000 };

struct hw_live_source {
    struct hw_controller *controller;
    int32_t pid;
    uint64_t id;
    char name[256], ref[24];
};

/* Keeps the connection to the recorder that has the process. */
static bool take(struct hw_recorders *all, struct hw_live_source *s)
{
    for (size_t r = 0; r < all->all.n; r++)
        for (size_t i = 0; i < all->all.v[r].state.sessions.n; i++) {
            const struct hw_service_session *x = &all->all.v[r].state.sessions.v[i];
            for (size_t k = 0; k < x->targets.n; k++) {
                if (x->targets.v[k].pid != s->pid)
                    continue;
                s->controller = all->all.v[r].controller;
                all->all.v[r].controller = NULL;
                s->id = x->id;
                (void)snprintf(s->name, sizeof s->name, "%s", x->targets.v[k].name);
                (void)snprintf(s->ref, sizeof s->ref, "%s", x->ref);
                return true;
            }
        }
    return false;
}

int hw_live_source_open(int32_t recorder, int32_t pid, struct hw_live_source **out,
                        struct hw_error *err)
{
    struct hw_recorders all;
    struct hw_live_source *s = calloc(1, sizeof *s);
    if (!s)
        return hw_fail(err, HW_ENOMEM, 0, "look");
    s->pid = pid;
    int rc = recorder ? hw_recorders_query_one(&all, recorder, err) : hw_recorders_query(&all, err);
    if (rc == HW_OK) {
        if (!take(&all, s))
            rc = hw_fail(err, HW_ENOTFOUND, 0, "process %d is not being recorded", pid);
        hw_recorders_done(&all);
    }
    if (rc < 0)
        hw_live_source_free(s);
    else
        *out = s;
    return rc;
}

void hw_live_source_free(struct hw_live_source *s)
{
    if (!s)
        return;
    hw_controller_free(s->controller);
    free(s);
}

int hw_live_source_fetch(struct hw_live_source *s, int *fd, struct hw_control_live *facts,
                         struct hw_error *err)
{
    struct hw_controller_event e;
    int rc = hw_controller_live(s->controller, s->pid, err);
    if (rc == HW_OK)
        rc = hw_controller_wait(s->controller, HW_CTL_LIVE_REPLY, LOOK_MS, &e, err);
    if (rc < 0)
        return rc;
    if (!hw_controller_body(&e, facts, sizeof *facts))
        return hw_fail(err, HW_EFORMAT, 0, "the recorder's answer is too short");
    *fd = hw_controller_take_fd(s->controller);
    return *fd < 0 ? hw_fail(err, HW_EFORMAT, 0, "the recorder sent no data of the process")
                   : HW_OK;
}

struct hw_controller *hw_live_source_controller(const struct hw_live_source *s)
{
    return s->controller;
}

uint64_t hw_live_source_id(const struct hw_live_source *s)
{
    return s->id;
}

const char *hw_live_source_name(const struct hw_live_source *s)
{
    return s->name;
}

const char *hw_live_source_ref(const struct hw_live_source *s)
{
    return s->ref;
}
