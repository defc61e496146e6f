#include "daemon/code/frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/arch.h"
#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/text/text_parts.h"
#include "unwind/walk.h"

#include "base/banned.h"

#define MAX_NAMELESS 100000u

#define CLIENT_NAME "libheapprofd_glibc_preload.so"

int hw_frames_init(struct hw_frames *f, uint32_t arch)
{
    *f = (struct hw_frames){.pc_step = arch == HW_ARCH_ARM64 ? 4 : 1};
    hw_managed_frames_init(&f->managed);
    return hw_callsites_new(&f->cs);
}

void hw_frames_done(struct hw_frames *f)
{
    hw_callsites_free(f->cs);
    f->cs = NULL;
    hw_map64_done(&f->frame_ids);
    hw_vec_done(&f->ranges);
    hw_unmapped_done(&f->gone);
    hw_vec_done(&f->of_stack);
    hw_vec_done(&f->unnamed);
    hw_vec_done(&f->frame_seen);
    hw_vec_done(&f->nameless);
    hw_vec_done(&f->path);
    hw_managed_frames_done(&f->managed);
}

/* ---- ranges ---- */

static bool has_prefix(const char *path, char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hw_starts_with(path, prefixes[i]))
            return true;
    return false;
}

static bool is_client(const char *path)
{
    const char *base = strrchr(path, '/');
    if (!base)
        return false;
    base += hw_starts_with(base, "/memfd:") ? strlen("/memfd:") : 1; /* attached */
    return strcmp(base, CLIENT_NAME) == 0;
}

static const struct hw_frame_range *find_now(const struct hw_frames *f, uint64_t pc)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, f->ranges.n, f->ranges.v[mid].hi <= pc);
    return lo < f->ranges.n && f->ranges.v[lo].lo <= pc ? &f->ranges.v[lo] : NULL;
}

static const struct hw_frame_range *find_same(const struct hw_frames *f, const struct hw_map *m)
{
    const struct hw_frame_range *r = find_now(f, m->start);
    bool same =
        r && r->lo == m->start && r->hi == m->end && r->inode == m->inode && r->offset == m->offset;
    return same ? r : NULL;
}

static int make_mapping(struct hw_frames *f, const struct hw_map *m, struct hw_frame_range *r)
{
    struct hw_strings *s = hw_callsites_strings(f->cs);
    struct hw_mapping row = {.start = m->start, .end = m->end, .exact_offset = m->offset};
    int rc = hw_strings_intern(s, hw_bytes_str(m->path[0] ? m->path : "[anon]"), &row.path);
    if (rc == HW_OK && r->file)
        rc = hw_strings_intern(s, hw_bytes_of(r->file->build_id, r->file->build_id_len),
                               &row.build_id);
    if (r->file)
        row.load_bias = r->file->load_bias;
    r->bias = m->start - m->offset - row.load_bias;
    return rc < 0 ? rc : hw_callsites_mapping(f->cs, &row, &r->mapping);
}

static int range_of(struct hw_frames *f, const struct hw_map *m, char *const *prefixes, size_t n,
                    hw_frames_open *open, void *ctx, struct hw_frame_range *out)
{
    const struct hw_frame_range *same = find_same(f, m);
    if (same) {
        *out = *same;
        return HW_OK;
    }
    *out = (struct hw_frame_range){.lo = m->start,
                                   .hi = m->end,
                                   .inode = m->inode,
                                   .offset = m->offset,
                                   .filtered = has_prefix(m->path, prefixes, n),
                                   .ours = is_client(m->path),
                                   .file = m->path[0] == '/' ? open(ctx, m) : NULL};
    out->generated = out->file ? !out->file->is_elf : m->path[0] != '/' && m->path[0] != '[';
    out->generated |= strncmp(m->path, "[anon", 5) == 0; /* memory with a name */
    return make_mapping(f, m, out);
}

static bool range_equal(const struct hw_frame_range *a, const struct hw_frame_range *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->file == b->file && a->bias == b->bias;
}

static int keep_gone(struct hw_frames *f, const struct hw_frame_range *now, size_t n)
{
    for (size_t i = 0, k = 0; i < f->ranges.n; i++) {
        while (k < n && now[k].hi <= f->ranges.v[i].lo)
            k++;
        if (k < n && range_equal(&now[k], &f->ranges.v[i]))
            continue;
        f->ranges.v[i].last_generation = f->generation;
        if (hw_unmapped_push(&f->gone, &f->ranges.v[i]) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_frames_update(struct hw_frames *f, const struct hw_maps *maps, char *const *prefixes,
                     size_t n_prefixes, hw_frames_open *open, void *ctx)
{
    HW_VEC(struct hw_frame_range) now = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < maps->maps.n; i++) {
        const struct hw_map *m = &maps->maps.v[i];
        struct hw_frame_range r;
        if (!(m->flags & HW_MAP_EXEC) || m->start >> 63) /* vsyscall */
            continue;
        rc = range_of(f, m, prefixes, n_prefixes, open, ctx, &r);
        if (rc == HW_OK && hw_vec_push(&now, r) < 0)
            rc = HW_ENOMEM;
    }
    bool same = now.n == f->ranges.n;
    for (size_t i = 0; same && i < now.n; i++)
        same = range_equal(&now.v[i], &f->ranges.v[i]);
    if (rc == HW_OK && !same)
        rc = keep_gone(f, now.v, now.n);
    if (rc < 0 || same) {
        hw_vec_done(&now);
        return rc;
    }
    hw_vec_done(&f->ranges);
    memcpy(&f->ranges, &now, sizeof f->ranges); /* the same shape, another anonymous type */
    hw_map64_done(&f->frame_ids);               /* an address may mean another function now */
    return 1;
}

static const struct hw_frame_range *find_range(struct hw_frames *f, uint64_t pc)
{
    const struct hw_frame_range *now = find_now(f, pc);
    return now ? now : hw_unmapped_last(&f->gone, pc);
}

/* What was there when the tables had an older generation. */
static const struct hw_frame_range *find_older(struct hw_frames *f, uint64_t pc,
                                               uint16_t generation)
{
    const struct hw_frame_range *then = hw_unmapped_since(&f->gone, pc, generation);
    return then ? then : find_range(f, pc);
}

bool hw_frames_covers(const struct hw_frames *f, uint64_t pc)
{
    return find_now(f, pc - f->pc_step) != NULL;
}

int hw_frames_table_ranges(const struct hw_frames *f, hw_table_ranges *out)
{
    hw_vec_clear(out);
    for (size_t i = 0; i < f->ranges.n; i++) {
        const struct hw_frame_range *r = &f->ranges.v[i];
        if (hw_vec_push(out, (struct hw_table_range){r->lo, r->hi, r->bias, r->file}) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* ---- frames ---- */

static int intern_named(struct hw_frames *f, const char *name, hw_frame_id *out)
{
    struct hw_frame row = {.mapping = {HW_ID_NONE}};
    int rc = hw_strings_intern(hw_callsites_strings(f->cs), hw_bytes_str(name), &row.name);
    return rc < 0 ? rc : hw_callsites_frame(f->cs, &row, out);
}

/* Each frame without a name yet is put on one of the lists once. */
static int note_unnamed(struct hw_frames *f, hw_frame_id id, const struct hw_frame_range *r,
                        uint64_t at, uint64_t time_ns)
{
    if (id.v < f->frame_seen.n && f->frame_seen.v[id.v])
        return HW_OK;
    if (hw_vec_reserve(&f->frame_seen, (size_t)id.v + 1) < 0)
        return HW_ENOMEM;
    while (f->frame_seen.n <= id.v)
        f->frame_seen.v[f->frame_seen.n++] = false;
    f->frame_seen.v[id.v] = true;
    if (!r || r->generated)
        return f->nameless.n - f->nameless_at < MAX_NAMELESS &&
                       hw_vec_push(&f->nameless, (struct hw_nameless){id, at, time_ns}) < 0
                   ? HW_ENOMEM
                   : HW_OK;
    if (!r->file)
        return HW_OK;
    if (r->filtered) {
        hw_str_id name;
        int rc = hw_strings_intern(hw_callsites_strings(f->cs), hw_bytes_str("FILTERED"), &name);
        if (rc == HW_OK)
            hw_callsites_set_frame_name(f->cs, id, name);
        return rc;
    }
    struct hw_unnamed u = {id, r->file, at - r->bias};
    return hw_vec_push(&f->unnamed, u) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- generated code ---- */

bool hw_frames_any_generated(struct hw_frames *f, const struct hw_stack *s)
{
    for (uint32_t i = 0; i < s->n_frames; i++) {
        const struct hw_frame_range *r = find_range(f, s->pcs[i] - f->pc_step);
        if (!hw_stack_is_managed(s, i) && (!r || r->generated))
            return true;
    }
    return false;
}

static int intern_str(struct hw_frames *f, const char *text, hw_str_id *out)
{
    return hw_strings_intern(hw_callsites_strings(f->cs), hw_bytes_str(text), out);
}

/* One mapping for all of it: its place changes with every page that is added. */
static int generated_row(struct hw_frames *f, const struct hw_jit_range *r, uint64_t at,
                         struct hw_frame *row)
{
    struct hw_mapping m = {0};
    const struct hw_jit_line *line = hw_jit_line_of(r, at);
    *row = (struct hw_frame){.rel_pc = at, .line = line ? line->line : 0};
    int rc = intern_str(f, "[jit]", &m.path);
    if (rc == HW_OK)
        rc = hw_callsites_mapping(f->cs, &m, &row->mapping);
    if (rc == HW_OK)
        rc = intern_str(f, r->entry->name, &row->name);
    return rc == HW_OK && line ? intern_str(f, line->file, &row->file) : rc;
}

bool hw_frames_nameless(const struct hw_frames *f, uint64_t *since_ns)
{
    if (f->nameless_at == f->nameless.n)
        return false;
    *since_ns = f->nameless.v[f->nameless_at].time_ns;
    return true;
}

/* What `left` of them could not be named goes after those that are done. */
static void keep_nameless(struct hw_frames *f, size_t left, size_t end)
{
    size_t at = end - left;
    memmove(f->nameless.v + at, f->nameless.v + f->nameless_at, left * sizeof *f->nameless.v);
    f->nameless_at = at;
    if (at < f->nameless.n / 2)
        return;
    f->nameless.n -= at;
    memmove(f->nameless.v, f->nameless.v + at, f->nameless.n * sizeof *f->nameless.v);
    f->nameless_at = 0;
}

/* A target has 100,000 of these and asks with each stack: nothing is looked up twice among the
 * same names. */
void hw_frames_name_generated(struct hw_frames *f, uint64_t until_ns, bool forget)
{
    size_t entries = f->jit ? f->jit->n_entries : 0, left = 0, i = f->nameless_at;
    bool known = entries == f->looked_entries && until_ns <= f->looked_until_ns;
    if (known && !forget)
        return;
    for (; i < f->nameless.n && f->nameless.v[i].time_ns <= until_ns; i++) {
        struct hw_nameless u = f->nameless.v[i];
        const struct hw_jit_range *r = known || !f->jit ? NULL : hw_jit_code_find(f->jit, u.pc);
        struct hw_frame row;
        if (r && generated_row(f, r, u.pc, &row) == HW_OK)
            hw_callsites_set_frame(f->cs, u.frame, &row);
        else if (!forget)
            f->nameless.v[f->nameless_at + left++] = u;
    }
    keep_nameless(f, left, i);
    f->looked_entries = entries;
    f->looked_until_ns = until_ns;
}

#define NO_FRAME UINT32_MAX /* the client's own */

static int frame_at(struct hw_frames *f, uint64_t pc, bool exact, const struct hw_stack *s,
                    hw_frame_id *out)
{
    uint16_t generation = s->generation;
    uint64_t at = exact ? pc : pc - f->pc_step, known;
    bool now = generation == f->generation || generation == 0; /* 0: not known */
    if (now && hw_map64_get(&f->frame_ids, at, &known)) {
        out->v = (uint32_t)known;
        return HW_OK;
    }
    const struct hw_frame_range *r = now ? find_range(f, at) : find_older(f, at, generation);
    if (r && r->ours) {
        out->v = NO_FRAME;
        return HW_OK;
    }
    struct hw_frame row = {.mapping = {HW_ID_NONE}, .rel_pc = at};
    if (r) {
        row.mapping = r->mapping;
        row.rel_pc = at - r->bias;
    }
    bool generated = !r || r->generated;
    const struct hw_jit_range *j = generated && f->jit ? hw_jit_code_find(f->jit, at) : NULL;
    int rc = j ? generated_row(f, j, at, &row) : HW_OK;
    if (rc == HW_OK)
        rc = hw_callsites_frame(f->cs, &row, out);
    if (rc == HW_OK && !j)
        rc = note_unnamed(f, *out, r, at, s->time_ns);
    if (rc == HW_OK && now && !generated && at != HW_MAP64_NO_KEY)
        rc = hw_map64_put(&f->frame_ids, at, out->v);
    return rc;
}

/* Codes of the format (doc/formats/trace.md) for why our walk ended. */
static const char *error_frame(uint32_t stop)
{
    switch (stop) {
    case HW_STOP_LIMIT:
        return "ERROR MAX_FRAME_EXCEEDED";
    case HW_STOP_NO_MODULE:
        return "ERROR INVALID_MAP";
    case HW_STOP_UNSUP:
    case HW_STOP_SIGNALS:
        return "ERROR UNSUPPORTED";
    case HW_STOP_BOUNDS:
        return "ERROR MEMORY_INVALID";
    case HW_CONSUMER_STOP_LOST:
        return "ERROR READING REGISTERS";
    case HW_CONSUMER_STOP_NOT_WALKED:
        return "ERROR TOO MANY MAPPINGS";
    default: /* no table, no plausible frame; also numbers from outside */
        return "ERROR UNWIND_INFO";
    }
}

/* As hw_callsites_intern, starting where the path differs from the last stack's. */
static int intern_path(struct hw_frames *f, const hw_frame_id *root_first, size_t n,
                       hw_callsite_id *leaf)
{
    size_t same = 0;
    while (same < n && same < f->path.n && f->path.v[same].frame.v == root_first[same].v)
        same++;
    f->path.n = same;
    hw_callsite_id at = same ? f->path.v[same - 1].callsite : (hw_callsite_id){HW_ID_NONE};
    if (hw_vec_reserve(&f->path, n) < 0)
        return HW_ENOMEM;
    for (size_t i = same; i < n; i++) {
        int rc = hw_callsites_child(f->cs, at, root_first[i], &at);
        if (rc < 0)
            return rc;
        f->path.v[f->path.n++] = (struct hw_path_step){root_first[i], at};
    }
    *leaf = at;
    return HW_OK;
}

bool hw_frames_named(const struct hw_frames *f, const struct hw_stack *s)
{
    for (uint32_t i = 0; s->mixed && i < s->n_frames; i++)
        if (hw_stack_is_managed(s, i) && !hw_managed_frames_has(&f->managed, s->pcs[i]))
            return false;
    return true;
}

int hw_frames_resolve(struct hw_frames *f, const struct hw_stack *s)
{
    hw_frame_id root_first[HW_MAX_FRAMES + 1];
    size_t n = 0;
    int rc = HW_OK;
    if (!hw_stop_is_complete(s->stop) || s->n_frames == 0)
        rc = intern_named(f, error_frame(s->stop), &root_first[n++]);
    for (uint32_t i = s->n_frames; rc == HW_OK && i > 0; i--) {
        uint64_t at = s->pcs[i - 1];
        rc = hw_stack_is_managed(s, i - 1)
                 ? hw_managed_frames_get(&f->managed, f->cs, at, &root_first[n])
                 : frame_at(f, at, hw_stack_is_exact(s, i - 1), s, &root_first[n]);
        n += rc == HW_OK && root_first[n].v != NO_FRAME;
    }
    hw_callsite_id leaf = {HW_ID_NONE};
    if (rc == HW_OK && n == 0)
        rc = intern_named(f, error_frame(HW_CONSUMER_STOP_LOST), &root_first[n++]);
    if (rc == HW_OK)
        rc = intern_path(f, root_first, n, &leaf);
    if (hw_vec_reserve(&f->of_stack, (size_t)s->index + 1) < 0)
        return HW_ENOMEM;
    while (f->of_stack.n <= s->index)
        f->of_stack.v[f->of_stack.n++] = (hw_callsite_id){HW_ID_NONE};
    f->of_stack.v[s->index] = leaf;
    return rc;
}

hw_callsite_id hw_frames_of(const struct hw_frames *f, uint32_t stack)
{
    return stack < f->of_stack.n ? f->of_stack.v[stack] : (hw_callsite_id){HW_ID_NONE};
}

/* ---- names ---- */

bool hw_frames_name(struct hw_frames *f, struct hw_modules *ms)
{
    size_t left = 0;
    for (size_t i = 0; i < f->unnamed.n; i++) {
        struct hw_unnamed u = f->unnamed.v[i];
        const char *name;
        hw_str_id id;
        if (!hw_module_name(ms, u.file, u.va, &name))
            f->unnamed.v[left++] = u;
        else if (name &&
                 hw_strings_intern(hw_callsites_strings(f->cs), hw_bytes_str(name), &id) == HW_OK)
            hw_callsites_set_frame_name(f->cs, u.frame, id);
    }
    f->unnamed.n = left;
    if (left)
        hw_modules_request_names(ms);
    return left == 0;
}

void hw_frames_give_up_names(struct hw_frames *f)
{
    hw_vec_clear(&f->unnamed);
}

size_t hw_frames_bytes(const struct hw_frames *f)
{
    return hw_callsites_bytes(f->cs) + hw_map64_bytes(&f->frame_ids) +
           hw_map64_bytes(&f->managed.frames) + f->ranges.cap * sizeof *f->ranges.v +
           hw_unmapped_bytes(&f->gone) + f->of_stack.cap * sizeof *f->of_stack.v +
           f->unnamed.cap * sizeof *f->unnamed.v + f->frame_seen.cap * sizeof *f->frame_seen.v +
           f->nameless.cap * sizeof *f->nameless.v;
}
