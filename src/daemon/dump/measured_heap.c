#include "daemon/dump/measured_heap.h"

#include "base/error.h"

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
    for (size_t i = 0; i < m->sites.n; i++) {
        m->sites.v[i].bytes = 0;
        m->sites.v[i].blocks = 0;
    }
}

int hw_measured_heap_add(struct hw_measured_heap *m, uint32_t stack, double bytes, uint64_t blocks)
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
    m->sites.v[*row].bytes += bytes;
    m->sites.v[*row].blocks += blocks;
    return HW_OK;
}

/* True: the figure differs from the reported one. */
static bool tell(struct hw_measured_site *s)
{
    struct hw_totals *t = &s->told;
    uint64_t bytes = (uint64_t)(s->bytes + 0.5), blocks = bytes ? s->blocks : 0;
    uint64_t old_bytes = hw_totals_live(t), old_blocks = t->alloc_count - t->free_count;
    t->allocated += bytes > old_bytes ? bytes - old_bytes : 0;
    t->freed += bytes < old_bytes ? old_bytes - bytes : 0;
    t->alloc_count += blocks > old_blocks ? blocks - old_blocks : 0;
    t->free_count += blocks < old_blocks ? old_blocks - blocks : 0;
    return bytes != old_bytes || blocks != old_blocks;
}

int hw_measured_heap_tell(struct hw_measured_heap *m, struct hw_snap_book *out)
{
    if (hw_vec_reserve(&out->cells, m->sites.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < m->sites.n; i++)
        if (tell(&m->sites.v[i]))
            out->cells.v[out->cells.n++] =
                (struct hw_snap_cell){m->stacks.v[i], m->sites.v[i].told};
    return HW_OK;
}
