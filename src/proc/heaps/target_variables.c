#include "proc/heaps/target_variables.h"

#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

#define MAX_BYTES (UINT64_C(16) << 20) /* of one mapping */
#define MAX_ALL   (UINT64_C(64) << 20) /* of all: a file may be mapped often */

static int add(struct hw_target_memory *m, const struct hw_smaps_entry *e,
               struct hw_target_variables *out)
{
    uint64_t bytes = e->end - e->start < MAX_BYTES ? e->end - e->start : MAX_BYTES;
    if (bytes > MAX_ALL - out->n_bytes || hw_target_is_late(m))
        return HW_OK;
    struct hw_variables v = {.start = e->start, .n = bytes / 8, .words = calloc(bytes / 8 + 1, 8)};
    if (!v.words)
        return HW_ENOMEM;
    for (uint64_t at = 0; at + HW_TARGET_PAGE <= bytes; at += HW_TARGET_PAGE)
        (void)hw_target_read(m, e->start + at, v.words + at / 8, HW_TARGET_PAGE); /* else zero */
    if (hw_vec_push(&out->v, v) < 0) {
        free(v.words);
        return HW_ENOMEM;
    }
    out->n_bytes += bytes;
    return HW_OK;
}

int hw_target_variables_read(struct hw_target_memory *m, const struct hw_smaps *s,
                             bool (*wants)(const char *path), struct hw_target_variables *out)
{
    int rc = HW_OK;
    *out = (struct hw_target_variables){.v = {0}};
    for (size_t i = 0; rc == HW_OK && i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        if (!wants(e->path) || !hw_target_is_data(e))
            continue;
        rc = add(m, e, out);
        if (rc == HW_OK && i + 1 < s->entries.n && e[1].start == e->end && !e[1].path[0] &&
            hw_target_is_data(&e[1]))
            rc = add(m, &e[1], out);
    }
    if (rc < 0)
        hw_target_variables_done(out);
    return rc;
}

void hw_target_variables_done(struct hw_target_variables *v)
{
    for (size_t i = 0; i < v->v.n; i++)
        free(v->v.v[i].words);
    hw_vec_done(&v->v);
    v->n_bytes = 0;
}
