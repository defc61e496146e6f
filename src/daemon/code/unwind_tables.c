#include "daemon/code/unwind_tables.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/code/modules.h"

#include "base/banned.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define LEAST_ROOM (256u * 1024u)
#define OWN_LEAST  (1024u * 1024u)
#define OWN_SHARE  16 /* of our own RLIMIT_AS, if any; there may be many targets */

static uint64_t own_room(void)
{
    struct rlimit lim;
    uint64_t size = HW_TABLES_BYTES;
    if (getrlimit(RLIMIT_AS, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
        while (size > OWN_LEAST && size > lim.rlim_cur / OWN_SHARE)
            size /= 2;
    return size;
}

int hw_tables_init(struct hw_tables *t, uint32_t arch, uint32_t room_kib)
{
    uint64_t room = room_kib ? (uint64_t)room_kib * 1024 & ~UINT64_C(4095) : HW_TABLES_BYTES;
    if (room > HW_TABLES_BYTES)
        room = HW_TABLES_BYTES;
    if (room < LEAST_ROOM)
        room = LEAST_ROOM;
    *t = (struct hw_tables){.fd = -1, .generation = 1, .size = own_room()};
    t->room = t->used_far = room < t->size ? room : t->size;
    t->fd = memfd_create("hw-tables", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (t->fd < 0 || ftruncate(t->fd, (off_t)HW_TABLES_BYTES) < 0)
        goto fail;
    t->map = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->fd, 0);
    if (t->map == MAP_FAILED) {
        t->map = NULL;
        goto fail;
    }
    struct hw_tables_dir *d = (struct hw_tables_dir *)(void *)t->map;
    d->magic = HW_TABLES_MAGIC;
    d->version = HW_TABLE_VERSION;
    d->arch = arch;
    t->used = sizeof *d;
    atomic_store_explicit(&d->used, t->used, memory_order_relaxed);
    if (fcntl(t->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) <
        0)
        goto fail;
    return HW_OK;
fail:
    hw_tables_done(t);
    return HW_ESYS;
}

void hw_tables_done(struct hw_tables *t)
{
    if (t->map)
        (void)munmap(t->map, t->size); /* cannot fail on a mapping of ours */
    if (t->fd >= 0)
        (void)close(t->fd); /* memory only */
    t->map = NULL;
    t->fd = -1;
    hw_map64_done(&t->offsets);
    hw_vec_done(&t->last);
}

static int append(struct hw_tables *t, uint64_t *used, uint64_t end, const void *p, size_t n,
                  uint64_t *off)
{
    uint64_t at = (*used + 63) & ~UINT64_C(63);
    if (at > end || n > end - at)
        return HW_ELIMIT;
    memcpy(t->map + at, p, n);
    *used = at + n;
    *off = at;
    return HW_OK;
}

static int table_offset(struct hw_tables *t, const struct hw_module_file *f, uint64_t *off)
{
    uint64_t key = (uint64_t)(uintptr_t)f;
    if (hw_map64_get(&t->offsets, key, off))
        return HW_OK;
    /* An eighth of the room is kept for lists. */
    int rc = append(t, &t->used, t->room - t->room / 8, f->table, f->table_bytes, off);
    if (rc < 0)
        rc = append(t, &t->used_far, t->size, f->table, f->table_bytes, off);
    return rc < 0 ? rc : hw_map64_put(&t->offsets, key, *off);
}

static struct hw_module make_module(struct hw_tables *t, const struct hw_table_range *r)
{
    struct hw_module m = {.lo = r->lo,
                          .hi = r->hi,
                          .bias = r->bias,
                          .flags = HW_MODULE_NO_TABLE,
                          .file = (uint32_t)((uintptr_t)r->file >> 4)};
    if (!r->file)
        return m;
    if (r->file->table_state == HW_TABLE_READY && table_offset(t, r->file, &m.table_off) == HW_OK)
        m.flags = 0;
    if (r->file->table_state == HW_TABLE_COMPILING || r->file->table_state == HW_TABLE_WANTED)
        m.flags = HW_MODULE_PENDING;
    return m;
}

/* Was code replaced? Every range published before must still exist, or have been empty. */
static bool was_replaced(const struct hw_tables *t, const struct hw_module *now, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < t->last.n; i++) {
        const struct hw_module *old = &t->last.v[i];
        while (k < n && now[k].hi <= old->lo)
            k++;
        if (k == n || now[k].lo != old->lo || now[k].hi != old->hi || now[k].bias != old->bias ||
            now[k].file != old->file)
            return true;
        if (old->table_off != now[k].table_off || (old->flags & ~now[k].flags & HW_MODULE_NO_TABLE))
            return true; /* a table came: cached "no rule" answers are invalid, too */
    }
    return false;
}

int hw_tables_publish(struct hw_tables *t, const struct hw_table_range *ranges, size_t n)
{
    size_t bytes = sizeof(struct hw_module_snapshot) + n * sizeof(struct hw_module);
    struct hw_module_snapshot *s = malloc(bytes);
    if (!s)
        return HW_ENOMEM;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < n; i++)
        s->modules[i] = make_module(t, &ranges[i]);
    s->n_modules = (uint32_t)n;
    if (t->last.n == n && n > 0 && memcmp(t->last.v, s->modules, n * sizeof s->modules[0]) == 0) {
        free(s);
        return 0;
    }
    if (was_replaced(t, s->modules, n))
        t->generation++;
    s->generation = t->generation;
    uint64_t off;
    int rc = append(t, &t->used, t->room, s, bytes, &off);
    if (rc == HW_OK)
        rc = hw_vec_reserve(&t->last, n);
    if (rc == HW_OK) {
        memcpy(t->last.v, s->modules, n * sizeof s->modules[0]);
        t->last.n = n;
        struct hw_tables_dir *d = (struct hw_tables_dir *)(void *)t->map;
        atomic_store_explicit(&d->used, t->used, memory_order_relaxed);
        /* Release: pairs with the acquire in hw_tables_snapshot(); and used is seen with it. */
        atomic_store_explicit(&d->snapshot_off, off, memory_order_release);
    }
    free(s);
    return rc < 0 ? rc : 1;
}

void hw_tables_seen(struct hw_tables *t, uint32_t closes)
{
    struct hw_tables_dir *d = (struct hw_tables_dir *)(void *)t->map;
    /* Release: a reader that sees the number sees the list that it is about. */
    atomic_store_explicit(&d->closes_seen, closes, memory_order_release);
}
