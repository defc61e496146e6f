/*
 * mapped_tables.h - the part of the tables' file that is mapped
 */
#ifndef HW_CLIENT_RING_MAPPED_TABLES_H
#define HW_CLIENT_RING_MAPPED_TABLES_H

#include "client/client.h"

bool hw_tables_map(struct hw_client_session *s, int fd,
                   uint64_t room); /* fd: it is as long as that */
void hw_tables_unmap(const struct hw_client_session *s);
const struct hw_tables_view *hw_tables_grow(struct hw_client_session *s, uint64_t used);

/* A view of everything published, if possible. In a visit, which keeps it there. */
static inline const struct hw_tables_view *hw_tables_view(struct hw_client_session *s)
{
    uint32_t n = atomic_load_explicit(&s->n_views, memory_order_acquire);
    const struct hw_tables_view *v = &s->views[n - 1];
    const struct hw_tables_dir *d = v->at;
    uint64_t used = atomic_load_explicit(&d->used, memory_order_acquire);
    return hw_likely(used <= v->n_bytes) ? v : hw_tables_grow(s, used);
}

/* The newest list of modules, NULL = none yet. */
static inline const struct hw_module_snapshot *hw_tables_modules(struct hw_client_session *s)
{
    const struct hw_tables_view *v = hw_tables_view(s);
    return hw_tables_snapshot_in(v->at, v->n_bytes);
}

/* Is the newest list of modules valid for this thread? After a dlclose it is not, until the
 * recorder has read the mappings again. */
static inline bool hw_modules_settled(const struct hw_client_session *s)
{
    const struct hw_tables_dir *d = s->tables;
    uint32_t begun = atomic_load_explicit(&s->ring.shm->closes_begun, memory_order_acquire);
    return begun - hw_here.n_closing == atomic_load_explicit(&d->closes_seen, memory_order_acquire);
}

#endif
