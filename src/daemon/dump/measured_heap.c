#include "daemon/dump/measured_heap.h"

#include "base/error.h"
#include "base/memory/saturate.h"

#include "base/banned.h"

void hw_measured_heap_done(struct hw_measured_heap *m)
{
    hw_map64_done(&m->of_stack);
    hw_vec_done(&m->sites);
    hw_vec_done(&m->stacks);
}

size_t hw_measured_heap_bytes(const struct hw_measured_heap *m)
{
    return hw_map64_bytes(&m->of_stack) + m->sites.cap * sizeof *m->sites.v +
           m->stacks.cap * sizeof *m->stacks.v;
}

void hw_measured_heap_begin(struct hw_measured_heap *m)
{
    for (size_t i = 0; i < m->sites.n; i++)
        m->sites.v[i] = (struct hw_measured_site){.told = m->sites.v[i].told};
}

int hw_measured_heap_site(struct hw_measured_heap *m, uint32_t stack, struct hw_measured_site **out)
{
    uint64_t *row;
    bool fresh;
    if (hw_vec_reserve(&m->sites, m->sites.n + 1) < 0 ||
        hw_vec_reserve(&m->stacks, m->stacks.n + 1) < 0 ||
        hw_map64_at(&m->of_stack, stack, &row, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        *row = m->sites.n++;
        m->sites.v[*row] = (struct hw_measured_site){0};
        m->stacks.v[m->stacks.n++] = stack;
    }
    *out = &m->sites.v[*row];
    return HW_OK;
}

int hw_measured_heap_add(struct hw_measured_heap *m, uint32_t stack, double bytes, uint64_t blocks)
{
    struct hw_measured_site *site;
    int rc = hw_measured_heap_site(m, stack, &site);
    if (rc < 0)
        return rc;
    site->bytes += bytes;
    site->blocks += blocks;
    return HW_OK;
}

static double more(double v)
{
    return v > 0 ? v : 0;
}

/* True: the figure differs from the reported one. */
static bool tell(struct hw_measured_site *s)
{
    struct hw_totals *t = &s->told;
    uint64_t bytes = hw_sat_uint(s->bytes + 0.5), blocks = bytes ? s->blocks : 0;
    uint64_t old_bytes = hw_totals_live(t), old_blocks = t->alloc_count - t->free_count;
    t->allocated += bytes > old_bytes ? bytes - old_bytes : 0;
    t->freed += bytes < old_bytes ? old_bytes - bytes : 0;
    t->alloc_count += blocks > old_blocks ? blocks - old_blocks : 0;
    t->free_count += blocks < old_blocks ? old_blocks - blocks : 0;
    /* Beyond the samples. */
    double extra = bytes && s->objects > 0 ? s->objects - (double)s->blocks : 0;
    double old_extra = t->extra_alloc - t->extra_free;
    t->extra_alloc += more(extra - old_extra);
    t->extra_free += more(old_extra - extra);
    t->variance = bytes ? s->variance : 0;
    return bytes != old_bytes || blocks != old_blocks;
}

int hw_measured_heap_tell(struct hw_measured_heap *m, struct hw_snap_book *out)
{
    if (hw_vec_reserve(&out->cells, m->sites.n) < 0)
        return HW_ENOMEM;
    out->n_samples = 0;
    for (size_t i = 0; i < m->sites.n; i++) {
        if (tell(&m->sites.v[i]))
            out->cells.v[out->cells.n++] =
                (struct hw_snap_cell){m->stacks.v[i], m->sites.v[i].told};
        out->n_samples += m->sites.v[i].told.alloc_count;
    }
    return HW_OK;
}
