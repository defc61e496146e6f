#include "fleet/push/make_entries.h"

#include "base/error.h"
#include "fleet/push/posts.h"
#include "fleet/push/sample_rows.h"
#include "fleet/store/table_schema.h"

#include "base/banned.h"

static int take_rows(void *ctx, const struct hw_sample_rows_batch *b, struct hw_error *err)
{
    const struct hw_entry_maker *m = ctx;
    struct hw_entry e = {.form = HW_STORE_CLICKHOUSE,
                         .n_rows = b->n_samples,
                         .n_columns = hw_fleet_table_columns(HW_FLEET_SAMPLES)};
    hw_strbuf_add(&e.body, b->samples.p, b->samples.n);
    hw_strbuf_add(&e.stacks, b->stacks.p, b->stacks.n);
    int rc = e.body.failed || e.stacks.failed ? hw_fail(err, HW_ENOMEM, 0, "rows") : HW_OK;
    if (rc == 0) {
        hw_entry_seal(&e);
        rc = m->take(m->ctx, &e, err);
    }
    hw_entry_done(&e);
    return rc;
}

static int make_rows(const struct hw_profile *p, const struct hw_entry_maker *m,
                     struct hw_error *err)
{
    struct hw_entry_maker copy = *m; /* the sink's context is not const */
    const struct hw_sample_rows_options o = {.labels = m->labels,
                                             .namer = m->namer,
                                             .known = m->known,
                                             .wall_ns = m->wall_ns,
                                             .take = take_rows,
                                             .ctx = &copy};
    return hw_sample_rows_make(p, &o, err);
}

int hw_entries_make(const struct hw_profile *p, const struct hw_entry_maker *m,
                    struct hw_error *err)
{
    return m->form == HW_STORE_CLICKHOUSE ? make_rows(p, m, err) : hw_posts_make(p, m, err);
}
