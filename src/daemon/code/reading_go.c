/*
 * reading_go.c - a Go program's own heap profile, with the names of its functions
 *
 * Which addresses to look at is in the file, so that comes first. Names are made anew at each reading: a
 * few microseconds for each address of code, of which there are some hundred to a few thousand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/text_parts.h"
#include "daemon/code/blocking_reader_job.h"
#include "elf/go_table.h"
#include "proc/file.h"
#include "proc/maps.h"

#include "base/banned.h"

#define MAX_FILES  32u
#define MAX_EXPAND 64u                 /* functions inlined into one */
#define MAX_CPU_NS UINT64_C(100000000) /* for the names */

/* Of one address of code, as the outermost of a stack or not. */
struct named {
    uint32_t first, n; /* frames */
};

struct naming {
    struct hw_go_table *table;
    struct hw_go_profile profile;
    uint64_t bias, until_ns;
    struct hw_map64 of_pc; /* twice the address, 1 = outermost → row of named */
    HW_VEC(struct named) named;
    struct hw_go_frame frames[MAX_EXPAND];
    struct hw_reading_go *out;
};

/* ---- the file ---- */

static bool is_tried(const struct hw_maps *maps, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if ((maps->maps.v[k].flags & HW_MAP_EXEC) &&
            maps->maps.v[k].inode == maps->maps.v[i].inode &&
            maps->maps.v[k].dev_minor == maps->maps.v[i].dev_minor)
            return true;
    return false;
}

/* Where a file's first byte in memory is. */
static uint64_t first_of(const struct hw_maps *maps, const struct hw_map *m)
{
    for (size_t i = 0; i < maps->maps.n; i++)
        if (maps->maps.v[i].inode == m->inode && strcmp(maps->maps.v[i].path, m->path) == 0)
            return maps->maps.v[i].start;
    return m->start;
}

/* The descriptor is the caller's; -1: none of its files has Go's code. */
static int open_file(const struct hw_reading_who *who, const struct hw_maps *maps,
                     const struct hw_map **out)
{
    size_t n = 0;
    for (size_t i = 0; i < maps->maps.n && n < MAX_FILES; i++) {
        const struct hw_map *m = &maps->maps.v[i];
        int fd;
        if (!(m->flags & HW_MAP_EXEC) || m->path[0] != '/' || is_tried(maps, i))
            continue;
        n++;
        if (hw_proc_open_mapping(who->dir, who->uid, m, &fd, NULL) < 0)
            continue;
        *out = m;
        if (hw_go_table_is_in(fd))
            return fd;
        (void)close(fd); /* read only */
    }
    return -1;
}

static int open_table(const struct hw_reading_who *who, struct naming *x, int *fd)
{
    struct hw_error err;
    struct hw_maps maps;
    const struct hw_map *m = NULL;
    if (hw_maps_read(who->dir, &maps, NULL) < 0)
        return HW_EGONE;
    *fd = open_file(who, &maps, &m);
    int rc = *fd < 0 ? hw_fail(&err, HW_ENOTFOUND, 0, "its file was not found")
                     : hw_go_table_open(*fd, &x->table, &err);
    if (rc < 0)
        (void)snprintf(x->out->why, sizeof x->out->why, "%s", err.text);
    if (rc == HW_OK) {
        x->bias = first_of(&maps, m) - hw_go_table_first(x->table);
        x->out->path = strdup(m->path);
    }
    hw_maps_done(&maps);
    return rc;
}

static int read_places(struct naming *x, const struct hw_smaps *s, int mem, int pagemap)
{
    struct hw_go_table *t = x->table;
    uint64_t rate = hw_go_table_rate(t), text, end;
    struct hw_go_places at = {.table = hw_go_table_va(t) + x->bias,
                              .table_bytes = hw_go_table_bytes(t),
                              .data_word = hw_go_table_data_word(t),
                              .rate = rate ? rate + x->bias : 0};
    if (rate && !hw_go_table_word(t, rate, &at.rate_before))
        at.rate = 0;
    int rc = hw_go_profile_read(s, mem, pagemap, &at, &x->profile);
    const struct hw_go_profile *p = &x->profile;
    hw_go_table_text(t, &text, &end);
    hw_go_table_place(t, p->text ? p->text - x->bias : text, p->data ? p->data - x->bias : 0);
    return rc;
}

/* Without symbols the code has to be placed before it says where the rate is. */
static int read_samples(struct naming *x, const struct hw_smaps *s, int mem, int pagemap)
{
    int rc = read_places(x, s, mem, pagemap);
    if (rc < 0 || x->profile.state != HW_GO_PROFILE_UNKNOWN || hw_go_table_rate(x->table) == 0)
        return rc;
    hw_go_profile_done(&x->profile);
    return read_places(x, s, mem, pagemap);
}

/* ---- names ---- */

static int add_frame(struct naming *x, const struct hw_go_frame *f)
{
    struct hw_reading_go_frame row = {.line = f->line};
    struct hw_strings *s = x->out->strings;
    int rc = hw_strings_intern(s, hw_bytes_str(f->function), &row.function);
    if (rc == HW_OK)
        rc = hw_strings_intern(s, hw_bytes_str(f->file), &row.file);
    return rc == HW_OK && hw_vec_push(&x->out->frames, row) < 0 ? HW_ENOMEM : rc;
}

/* C code has no names here: it is left out, as in Go's own profile. */
static int name_pc(struct naming *x, uint64_t pc, bool is_last, struct named *out)
{
    uint64_t *row;
    bool fresh;
    if (pc >> 48) {
        *out = (struct named){0};
        return HW_OK;
    }
    if (hw_map64_at(&x->of_pc, pc << 1 | is_last, &row, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh) {
        *out = x->named.v[*row];
        return HW_OK;
    }
    *row = x->named.n;
    if (hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) > x->until_ns)
        return HW_ETIMEOUT;
    size_t n = hw_go_table_frames(x->table, pc - x->bias, is_last, x->frames, MAX_EXPAND);
    *out = (struct named){(uint32_t)x->out->frames.n, (uint32_t)n};
    int rc = hw_vec_push(&x->named, *out) < 0 ? HW_ENOMEM : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = add_frame(x, &x->frames[i]);
    return rc;
}

static bool is_runtimes(const struct naming *x, uint32_t frame)
{
    const char *name = hw_strings_cstr(x->out->strings, x->out->frames.v[frame].function);
    return hw_starts_with(name, "runtime.") || hw_starts_with(name, "internal/runtime/");
}

/* What the runtime does on its way to an allocation is left out, unless there is nothing else; and what every goroutine
 * begins with. */
static void leave_out(struct naming *x, struct hw_reading_go_site *site)
{
    uint32_t *stack = x->out->stack.v + site->first, hidden = 0;
    if (site->n > 1 &&
        strcmp(hw_strings_cstr(x->out->strings, x->out->frames.v[stack[site->n - 1]].function),
               "runtime.goexit") == 0)
        site->n--;
    while (hidden < site->n && is_runtimes(x, stack[hidden]))
        hidden++;
    if (hidden == site->n)
        return;
    site->first += hidden;
    site->n -= hidden;
}

static int add_site(struct naming *x, const struct hw_go_bucket *b)
{
    struct hw_reading_go *g = x->out;
    struct hw_reading_go_site site = {.size = b->size,
                                      .allocated = b->allocated,
                                      .freed = b->freed,
                                      .first = (uint32_t)g->stack.n};
    for (uint32_t i = 0; i < b->n; i++) {
        struct named named;
        int rc = name_pc(x, x->profile.pcs.v[b->first + i], i + 1 == b->n, &named);
        if (rc < 0)
            return rc;
        if (hw_vec_reserve(&g->stack, g->stack.n + named.n) < 0)
            return HW_ENOMEM;
        for (uint32_t k = 0; k < named.n; k++)
            g->stack.v[g->stack.n++] = named.first + k;
    }
    site.n = (uint32_t)g->stack.n - site.first;
    if (site.n > 0)
        leave_out(x, &site);
    return hw_vec_push(&g->sites, site) < 0 ? HW_ENOMEM : HW_OK;
}

static void clear(struct hw_reading_go *g)
{
    hw_strings_free(g->strings);
    g->strings = NULL;
    hw_vec_done(&g->frames);
    hw_vec_done(&g->stack);
    hw_vec_done(&g->sites);
}

static int name_all(struct naming *x)
{
    const struct hw_go_profile *p = &x->profile;
    struct hw_reading_go *g = x->out;
    x->until_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) + MAX_CPU_NS;
    int rc = hw_strings_new(&g->strings);
    for (size_t i = 0; rc == HW_OK && i < p->buckets.n; i++)
        rc = add_site(x, &p->buckets.v[i]);
    return rc;
}

/* ---- both ---- */

static int read_profile(const struct hw_reading_who *who, const struct hw_smaps *s, int mem,
                        int pagemap, struct naming *x)
{
    struct hw_reading_go *g = x->out;
    hw_autofd int fd = -1;
    int rc = open_table(who, x, &fd);
    if (rc == HW_OK)
        rc = read_samples(x, s, mem, pagemap);
    if (rc == HW_OK) {
        g->state = x->profile.state;
        g->rate = x->profile.rate;
        g->is_before_collections = x->profile.is_before_collections;
    }
    if (rc == HW_OK && g->state == HW_GO_PROFILE_UNKNOWN)
        (void)snprintf(g->why, sizeof g->why,
                       "where %s keeps its sampling rate was not found in its file",
                       hw_go_table_version(x->table));
    if (rc == HW_OK && g->state == HW_GO_PROFILE_KNOWN)
        rc = name_all(x);
    if (rc == HW_ETIMEOUT)
        g->state = HW_GO_PROFILE_LIMIT;
    return rc;
}

struct hw_reading_go *hw_reading_go_new(const struct hw_reading_who *who, const struct hw_smaps *s,
                                        int mem, int pagemap)
{
    struct hw_reading_go *g = calloc(1, sizeof *g);
    struct naming *x = g ? calloc(1, sizeof *x) : NULL;
    if (!x) {
        free(g);
        return NULL;
    }
    g->state = HW_GO_PROFILE_UNKNOWN;
    x->out = g;
    if (read_profile(who, s, mem, pagemap, x) < 0)
        clear(g);
    hw_go_table_close(x->table);
    hw_go_profile_done(&x->profile);
    hw_map64_done(&x->of_pc);
    hw_vec_done(&x->named);
    free(x);
    return g;
}

void hw_reading_go_free(struct hw_reading_go *g)
{
    if (!g)
        return;
    clear(g);
    free(g->path);
    free(g);
}
