/* A target's mappings: read when they are due, and the unwind tables of what they execute. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory/lower_bound.h"
#include "daemon/code/interpreter_place.h"
#include "daemon/core.h"
#include "daemon/java/java_agent_load.h"
#include "daemon/target_parts.h"

#include "base/banned.h"

#define MS          UINT64_C(1000000)
#define MAPS_EVERY  (100 * MS)
#define MAPS_ASKED  (2 * MS)    /* a thread of the target may be waiting for the answer */
#define MAPS_REST   50          /* times the CPU time of a reading, for who asks again and again */
#define MAPS_BURST  (4000 * MS) /* 80 ms of reading: 400 plug-ins */
#define HOLE_REST   10u         /* times as long as a look at its threads took: none */
#define SHARED_REST 100u        /* times the CPU time of a look at its shared mappings */
#define MAX_FILES   8192u       /* of one target, in its whole life */

struct opening {
    struct hw_target *t;
    struct hw_reading_image *image;
    const struct hw_frames *parent; /* of a child's first reading */
};

static struct hw_reading_file *find_file(struct hw_reading_image *i, size_t map)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, i->n_files, i->files[mid].map < map);
    return lo < i->n_files && i->files[lo].map == map ? &i->files[lo] : NULL;
}

/* Its parent's, if it lies there in the child. */
static struct hw_module_file *find_inherited(const struct hw_frames *parent, const struct hw_map *m)
{
    if (!parent)
        return NULL;
    size_t n = parent->ranges.n;
    size_t lo = HW_LOWER_BOUND(mid, 0, n, parent->ranges.v[mid].lo < m->start);
    const struct hw_frame_range *r = lo < n ? &parent->ranges.v[lo] : NULL;
    bool same =
        r && r->lo == m->start && r->hi == m->end && r->inode == m->inode && r->offset == m->offset;
    return same ? r->file : NULL;
}

static struct hw_module_file *open_module(void *ctx, const struct hw_map *m)
{
    struct opening *o = ctx;
    struct hw_target *t = o->t;
    struct hw_module_file *file;
    if (t->files.n >= MAX_FILES)
        return NULL; /* each is a descriptor of ours */
    struct hw_reading_file *f = find_file(o->image, (size_t)(m - o->image->maps.maps.v));
    if (!f) {
        file = find_inherited(o->parent, m);
        return file && hw_map64_put(&t->files, (uint64_t)(uintptr_t)file, 1) == 0 ? file : NULL;
    }
    int fd = f->fd;
    f->fd = -1;
    if (hw_modules_get(t->rec->modules, fd, &f->facts, m->path, &file) < 0)
        return NULL;
    if (hw_map64_put(&t->files, (uint64_t)(uintptr_t)file, 1) < 0)
        return NULL; /* one that is not counted */
    hw_modules_want_table(t->rec->modules, file);
    return file;
}

static bool publish_tables(struct hw_target *t)
{
    hw_table_ranges ranges = {0};
    int rc = hw_frames_table_ranges(&t->frames, &ranges);
    if (rc == HW_OK)
        rc = hw_tables_publish(&t->tables, ranges.v, ranges.n);
    if (rc < 0)
        hw_log(WARN, "pid %d: unwind tables: %s", t->pid.pid, hw_errc_text(rc));
    if (hw_tables_overflow(&t->tables) && !t->session->told_room) {
        t->session->told_room = true;
        hw_session_warn(
            t->session,
            "pid %d ('%s') may map little (ulimit -v, or it locks its memory): %llu KiB "
            "go to unwind tables, and stacks that need more are copied, which is slower. Raise the "
            "limit (ulimit -v, ulimit -l) for the recording; said once, for all processes",
            t->pid.pid, t->name, (unsigned long long)t->tables.room / 1024);
    }
    hw_vec_done(&ranges);
    t->frames.generation = (uint16_t)t->tables.generation;
    return rc >= 0;
}

/* dlcloses that the target began, and whether all of them were over. Read before its mappings
 * are: those are then right for samples that were taken before the next one begins. */
static bool closes(const struct hw_target *t, uint32_t *begun)
{
    const struct hw_ring_shm *shm = t->feed ? t->feed->ring.shm : NULL;
    uint32_t ended = shm ? atomic_load(&shm->closes_ended) : 0;
    *begun = shm ? atomic_load(&shm->closes_begun) : 0;
    return *begun == ended;
}

bool hw_target_tables_ready(const struct hw_target *t)
{
    for (size_t i = 0; i < t->frames.ranges.n; i++) {
        const struct hw_module_file *f = t->frames.ranges.v[i].file;
        if (f && (f->table_state == HW_TABLE_COMPILING || f->interpreters_asked))
            return false;
    }
    return true;
}

static uint64_t maps_debt(const struct hw_target *t, uint64_t now)
{
    uint64_t rested = now > t->maps_ns ? now - t->maps_ns : 0;
    return t->maps_debt_ns > rested ? t->maps_debt_ns - rested : 0;
}

/* Programs that load plug-ins ask often for a short while, a hostile one for ever: reading the
 * list of its 65,000 mappings takes longer than the pause. */
static bool may_read_maps(const struct hw_target *t, uint64_t now, uint64_t every)
{
    return now - t->maps_ns >= every && maps_debt(t, now) <= MAPS_BURST;
}

bool hw_target_is_shown(const struct hw_target *t)
{
    return hw_permission_shows(&t->session->asking, t->pid.pid, t->pid.dir);
}

static int look_at_maps(struct hw_target *t, const struct hw_frames *known_of,
                        struct hw_reading_image *out)
{
    HW_VEC(struct hw_reading_known) known = {0};
    for (size_t i = 0; i < known_of->ranges.n; i++) {
        const struct hw_frame_range *r = &known_of->ranges.v[i];
        if (!r->file && known_of != &t->frames)
            continue; /* it may be readable now */
        if (hw_vec_push(&known, (struct hw_reading_known){r->lo, r->hi, r->inode, r->offset}) < 0)
            break; /* opened once more */
    }
    int rc = hw_reading_image(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid),
                              HW_READING_ALL_FILES, NULL, known.v, known.n, out);
    hw_vec_done(&known);
    return rc;
}

/* Adds the CPU time of the reading. */
static int read_maps(struct hw_target *t, uint64_t *cpu_ns)
{
    struct hw_reading_image image;
    uint32_t begun;
    bool quiet = closes(t, &begun);
    const struct hw_frames *parent = t->frames.ranges.n ? NULL : hw_target_frames_of_parent(t);
    int rc = look_at_maps(t, parent ? parent : &t->frames, &image);
    if (rc < 0)
        return rc; /* it has ended: what is known stays */
    *cpu_ns += image.cpu_ns;
    if (image.maps.maps.n == 0 || !hw_target_is_shown(t)) { /* a zombie's list is empty */
        hw_reading_image_done(&image);
        return HW_OK;
    }
    struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    struct opening o = {t, &image, parent};
    rc = hw_frames_update(&t->frames, &image.maps, c->skip_symbol_prefix.v, c->skip_symbol_prefix.n,
                          open_module, &o);
    if (rc < 0)
        hw_log(WARN, "pid %d: mappings: %s", t->pid.pid, hw_errc_text(rc));
    hw_maps_done(&t->maps);
    t->maps = image.maps;
    image.maps = (struct hw_maps){0};
    hw_reading_image_done(&image);
    hw_java_entrance_tell(t);
    hw_interpreters_tell(t);
    if (publish_tables(t) && rc >= 0 && quiet)
        hw_tables_seen(&t->tables, begun);
    return HW_OK;
}

int hw_target_refresh_maps(struct hw_target *t, uint64_t now)
{
    uint64_t debt = maps_debt(t, now), before = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID), cpu_ns = 0;
    t->maps_due = false;
    int rc = read_maps(t, &cpu_ns);
    cpu_ns += hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    t->maps_ns = now;
    t->maps_debt_ns = debt + MAPS_REST * cpu_ns;
    return rc;
}

void hw_target_unknown_code(struct hw_target *t)
{
    uint64_t now = hw_now_monotonic_ns();
    if (!may_read_maps(t, now, MAPS_EVERY))
        return;
    t->map_reparses++;
    (void)hw_target_refresh_maps(t, now); /* else what is known has to do */
}

void hw_target_answer_maps(struct hw_target *t)
{
    if (!t->maps_answer_due || !t->with_thread || !hw_target_tables_ready(t))
        return;
    t->maps_answer_due = false;
    (void)hw_drain_maps_done(t->rec->drain, t->feed, t->key,
                             t->maps_ask); /* else its deadline passes */
}

void hw_target_refresh_if_due(struct hw_target *t, uint64_t now)
{
    uint32_t begun;
    if (!t->maps_due || !may_read_maps(t, now, closes(t, &begun) ? MAPS_ASKED : MAPS_EVERY / 4))
        return;
    t->map_reparses++;
    (void)hw_target_refresh_maps(t, now); /* else what is known has to do */
}

void hw_target_maps_wanted(struct hw_target *t, uint32_t ask)
{
    t->maps_ask = ask;
    t->maps_due = t->maps_answer_due = true;
    if (t->phase == HW_PHASE_RUNNING)
        hw_target_refresh_if_due(t, hw_now_monotonic_ns());
}

/* What cannot be read is answered all the same: nobody knows, then. */
void hw_target_shared_if_due(struct hw_target *t, uint64_t now)
{
    struct hw_shared_maps maps = {0};
    uint64_t cpu_ns = 0;
    if (!t->shared_due || now < t->shared_next_ns || !t->with_thread)
        return;
    t->shared_due = false;
    (void)hw_reading_shared(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid), &maps,
                            &cpu_ns);
    t->shared_next_ns = hw_now_monotonic_ns() + SHARED_REST * cpu_ns;
    if (!hw_target_is_shown(t)) /* it may have executed a set-user-id program */
        hw_shared_maps_done(&maps);
    (void)hw_drain_shared_done(t->rec->drain, t->feed, t->key, t->shared_ask,
                               &maps); /* else its deadline passes */
}

void hw_target_shared_wanted(struct hw_target *t, uint32_t ask)
{
    t->shared_ask = ask;
    t->shared_due = true;
    hw_target_shared_if_due(t, hw_now_monotonic_ns());
}

/* Whoever lies about it waits for its own profile only, and a look takes a small part of our time.
 */
void hw_target_hole(struct hw_target *t, int32_t tid)
{
    uint64_t began = hw_now_monotonic_ns();
    if (!t->with_thread || began < t->hole_next_ns)
        return;
    if (hw_proc_has_thread(t->pid.dir, tid) == 0)
        (void)hw_drain_hole_left(t->rec->drain, t->feed, t->key,
                                 (uint32_t)tid); /* else it asks again */
    uint64_t now = hw_now_monotonic_ns();
    t->hole_next_ns = now + HOLE_REST * (now - began);
}

void hw_target_module_changed(struct hw_target *t, const struct hw_module_file *m)
{
    for (size_t i = 0; i < t->frames.ranges.n; i++) {
        if (t->frames.ranges.v[i].file != m)
            continue;
        (void)publish_tables(t);
        hw_interpreters_tell(t);
        hw_target_answer_maps(t);
        return;
    }
}
