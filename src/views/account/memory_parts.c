#include "views/account/memory_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text/text_parts.h"
#include "views/account/heap_division.h"
#include "views/account/rounding.h"

#include "base/banned.h"

#define SAME_MOMENT_NS 60e6

struct find {
    const struct hw_profile *p;
    const struct hw_process_view *view;
    struct hw_memory_parts *out;
    struct hw_heap_memory heap;
    HW_VEC(int64_t) times; /* of readings of the process's mappings, sorted */
    bool is_jvm, is_node, is_python;
};

static struct hw_bytes text(const struct find *f, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(f->p->callsites), id);
}

static bool contains(struct hw_bytes s, const char *what)
{
    return memmem(s.p, s.n, what, strlen(what)) != NULL;
}

static double bytes_of(uint64_t kb)
{
    return kb == HW_SMAPS_UNKNOWN ? 0 : (double)kb * 1024;
}

/* ---- which part a mapping is ---- */

static bool is_heap(struct hw_bytes path)
{
    return hw_bytes_start_with(path, "[heap]") || hw_bytes_start_with(path, "[malloc ") ||
           hw_bytes_start_with(path, "[allocator]");
}

static bool is_program(const struct find *f, struct hw_bytes path)
{
    struct hw_bytes base = hw_bytes_base_name(path);
    const struct hw_process *process = &f->p->processes.v[f->view->upid.v];
    struct hw_bytes program = hw_bytes_base_name(text(f, process->name));
    return contains(base, ".so.") || (base.n > 3 && memcmp(base.p + base.n - 3, ".so", 3) == 0) ||
           contains(path, "/bin/") || contains(path, "/sbin/") || contains(path, "/libexec/") ||
           (program.n && hw_bytes_equal(base, program));
}

/* The profiler's memory is only recognized by path if the recorder did not name it
 * ([heapwise...). */
static enum hw_memory_part part_of_file(const struct find *f, struct hw_bytes path)
{
    static const struct {
        const char *begin;
        enum hw_memory_part part;
    } known[] = {{"/memfd:hw-", HW_PART_PROFILER},
                 {"/memfd:heapwise", HW_PART_PROFILER},
                 {"/memfd:libheap", HW_PART_PROFILER}, /* the client, attached */
                 {"/memfd:", HW_PART_SHARED},
                 {"/dev/shm/", HW_PART_SHARED},
                 {"/SYSV", HW_PART_SHARED},
                 {"/dev/zero", HW_PART_SHARED}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hw_bytes_start_with(path, known[i].begin))
            return known[i].part != HW_PART_PROFILER || !f->out->by_owner ? known[i].part
                                                                          : HW_PART_SHARED;
    bool is_ours = hw_bytes_start_with(hw_bytes_base_name(path), "libheapprofd_glibc_preload") ||
                   hw_bytes_start_with(hw_bytes_base_name(path), "libheapwise");
    if (is_ours && !f->out->by_owner)
        return HW_PART_PROFILER;
    return is_program(f, path) ? HW_PART_PROGRAM : HW_PART_FILES;
}

static enum hw_memory_part part_of(const struct find *f, struct hw_bytes path)
{
    static const struct {
        const char *begin;
        enum hw_memory_part part;
    } known[] = {{"[stack", HW_PART_STACKS},       {"[heapwise", HW_PART_PROFILER},
                 {"[jit code]", HW_PART_MANAGED},  {"[go heap]", HW_PART_MANAGED},
                 {"[vdso]", HW_PART_PROGRAM},      {"[vvar", HW_PART_PROGRAM},
                 {"[vsyscall]", HW_PART_PROGRAM},  {"[other files]", HW_PART_FILES},
                 {"[anon:.bss]", HW_PART_PROGRAM}, {"[anon:dalvik", HW_PART_MANAGED},
                 {"[anon:v8", HW_PART_MANAGED},    {"[anon: Go:", HW_PART_MANAGED},
                 {"[anon:Go", HW_PART_MANAGED},    {"[anon:cpython", HW_PART_MANAGED},
                 {"[anon_shmem:", HW_PART_SHARED}, {"[anon:", HW_PART_ANONYMOUS},
                 {"anon_inode:", HW_PART_SHARED}};
    if (path.n && path.p[0] == '/')
        return part_of_file(f, path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hw_bytes_start_with(path, known[i].begin))
            return known[i].part;
    if (path.n == 0)
        return f->is_jvm || f->is_node || f->is_python ? HW_PART_MANAGED : HW_PART_ANONYMOUS;
    return HW_PART_UNEXPLAINED;
}

bool hw_memory_is_shared(struct hw_bytes path)
{
    static const char *const shared[] = {"/memfd:",   "/dev/shm/",    "/SYSV",
                                         "/dev/zero", "[anon_shmem:", "[heapwise:shared]"};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (hw_bytes_start_with(path, shared[i]))
            return true;
    return false;
}

static void find_runtime(struct find *f, struct hw_bytes path)
{
    static const struct {
        const char *begin;
        enum hw_block_rule rule;
    } allocators[] = {{"libjemalloc", HW_BLOCKS_JEMALLOC},
                      {"libtcmalloc", HW_BLOCKS_TCMALLOC},
                      {"libmimalloc", HW_BLOCKS_MIMALLOC}};
    struct hw_bytes base = hw_bytes_base_name(path);
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        if (hw_bytes_start_with(base, allocators[i].begin))
            f->out->allocator = allocators[i].rule;
    f->is_jvm |= hw_bytes_start_with(base, "libjvm.so");
    f->is_node |= hw_bytes_start_with(base, "libnode.so") ||
                  (base.n == 4 && hw_bytes_start_with(base, "node"));
    f->is_python |= hw_bytes_start_with(base, "libpython") || hw_bytes_start_with(base, "python");
}

/* ---- the reading ---- */

/* The account's counters are bytes: negative ones are ignored as damaged. */
static bool counter_at(const struct find *f, const char *name, int64_t ts_ns, double *out)
{
    int64_t at;
    double v;
    if (!hw_process_counter(f->p, f->view->upid, name, ts_ns, &v, &at) || at != ts_ns || v < 0)
        return false;
    *out = v;
    return true;
}

static double distance(int64_t a, int64_t b)
{
    return fabs((double)a - (double)b);
}

static int by_time(const void *pa, const void *pb)
{
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return a < b ? -1 : a > b;
}

/* A list for bsearch(), since a trace may have any number of readings. */
static int find_times(struct find *f)
{
    const struct hw_process_rows rows = hw_by_process_of(&f->p->smaps_of, f->view->upid);
    bool sorted = true;
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_smaps_row *r = &f->p->smaps.v[rows.v[i]];
        int64_t last = f->times.n ? f->times.v[f->times.n - 1] : INT64_MIN;
        if (f->times.n && last == r->ts_ns)
            continue;
        sorted &= last <= r->ts_ns;
        if (hw_vec_push(&f->times, r->ts_ns) < 0)
            return HW_ENOMEM;
    }
    if (!sorted)
        qsort(f->times.v, f->times.n, sizeof *f->times.v, by_time);
    return HW_OK;
}

static bool has_mappings(const struct find *f, int64_t ts_ns)
{
    return f->times.n && bsearch(&ts_ns, f->times.v, f->times.n, sizeof *f->times.v, by_time);
}

/* Finds the reading nearest to the moment. One much smaller than what was live at the moment does
 * not fit, however near it is: a process grows within milliseconds after its start. */
static bool find_account(struct find *f, int64_t ts_ns, double live)
{
    const struct hw_strings *strings = hw_callsites_strings(f->p->callsites);
    struct hw_bytes want = hw_bytes_str("account.rss");
    const struct hw_process_rows rows = hw_by_process_of(&f->p->counters_of, f->view->upid);
    bool found = false, best_fits = false;
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &f->p->counters.v[rows.v[i]];
        if (!hw_bytes_equal(hw_strings_get(strings, c->name), want))
            continue;
        bool fits = c->value >= live / 2;
        bool nearer = distance(c->ts_ns, ts_ns) <= distance(f->out->ts_ns, ts_ns);
        if (found && (fits != best_fits ? best_fits : !nearer))
            continue;
        if (!has_mappings(f, c->ts_ns))
            continue;
        f->out->ts_ns = c->ts_ns;
        best_fits = fits;
        found = true;
    }
    return found;
}

/* Readings made for the account are preferred to others (--smaps). */
static bool find_reading(struct find *f, int64_t ts_ns, double live)
{
    struct hw_memory_parts *m = f->out;
    double best = INFINITY;
    m->by_owner = find_account(f, ts_ns, live);
    const struct hw_process_rows rows = hw_by_process_of(&f->p->smaps_of, f->view->upid);
    for (size_t i = 0; !m->by_owner && i < rows.n; i++) {
        const struct hw_smaps_row *r = &f->p->smaps.v[rows.v[i]];
        if (distance(r->ts_ns, ts_ns) >= best)
            continue;
        best = distance(r->ts_ns, ts_ns);
        m->ts_ns = r->ts_ns;
    }
    return m->by_owner || best < INFINITY;
}

static const char *find_unsaid_python(const struct find *f)
{
    static const char late[] =
        "Python's arenas were not read in time: it was beginning or ending, or was too short";
    double state;
    if (!hw_process_counter(f->p, f->view->upid, "python.heap.state", f->out->ts_ns, &state, NULL))
        return f->out->has_objects
                   ? late
                   : "this recording has nothing of Python's arenas; sys._debugmallocstats tells "
                     "the program";
    return state == 1            ? NULL
           : state == 3          ? "Python's arenas changed while they were read"
           : state == 4          ? "Python's arenas are too many to be read in a tenth of a second"
           : f->out->has_objects ? late
                                 : "Python's arenas were not found: another version than 3.10 to "
                                   "3.13, PYTHONMALLOC, or built without them";
}

static const char *find_unsaid_go(const struct find *f)
{
    double state;
    if (hw_process_counter(f->p, f->view->upid, "go.heap.state", f->out->ts_ns, &state, NULL))
        return state == 1 ? NULL
                          : "Go's statistics were not found, or changed meanwhile: heapwise knows "
                            "those of Go 1.19 and its like";
    return f->out->parts[HW_PART_MANAGED].rss > 0
               ? "its runtime tells the program only what is in use (Go: runtime/metrics)"
               : NULL;
}

static const char *find_unsaid_v8(const struct find *f)
{
    double state;
    if (!hw_process_counter(f->p, f->view->upid, "v8.heap.state", f->out->ts_ns, &state, NULL))
        return "this recording has nothing of V8's spaces; v8.getHeapSpaceStatistics tells the "
               "program";
    return state == 1   ? NULL
           : state == 2 ? "V8's spaces are known of 10.2, 11.3 and 12.4 (Node.js 18, 20, 22) only"
           : state == 4 ? "V8's heap is too large to be read in a tenth of a second"
                        : "V8's spaces changed while they were read, or were not found";
}

/* What the runtime does not tell from outside about its heaps. */
static const char *find_unsaid(const struct find *f)
{
    double v;
    bool known = counter_at(f, "jvm.heap.used", f->out->ts_ns, &v);
    bool has_code =
        known && hw_process_counter(f->p, f->view->upid, "jvm.code.used", f->out->ts_ns, &v, NULL);
    return has_code             ? "garbage collector, threads: the JVM tells them to jcmd only "
                                  "(VM.native_memory)"
           : f->is_jvm && known ? "code cache, garbage collector, threads: the JVM tells them to "
                                  "jcmd only (VM.native_memory)"
           : f->is_jvm    ? "the JVM's own figures cannot be read: it runs with -XX:-UsePerfData "
                            "or -XX:+PerfDisableSharedMem"
           : f->is_node   ? find_unsaid_v8(f)
           : f->is_python ? find_unsaid_python(f)
                          : find_unsaid_go(f);
}

static void add(struct hw_part_bytes *to, const struct hw_part_bytes *b)
{
    to->rss += b->rss;
    to->pss += b->pss;
    to->swap += b->swap;
}

/* Mappings recorded one by one have no total, but all its parts. */
static double resident_of(const struct hw_smaps_row *r)
{
    return r->rss_kb ? bytes_of(r->rss_kb)
                     : bytes_of(r->private_clean_kb) + bytes_of(r->private_dirty_kb) +
                           bytes_of(r->shared_clean_kb) + bytes_of(r->shared_dirty_kb);
}

static void add_heap(struct find *f, const struct hw_smaps_row *r, const struct hw_part_bytes *b,
                     double size)
{
    struct hw_bytes path = text(f, r->path);
    add(&f->heap.all, b);
    f->heap.own += bytes_of(r->private_clean_kb) + bytes_of(r->private_dirty_kb);
    f->heap.size += size;
    f->heap.is_glibc &= !hw_bytes_start_with(path, "[allocator]");
    if (!hw_bytes_start_with(path, "[malloc block]"))
        return;
    f->heap.blocks_size += size;
    f->heap.blocks_resident += b->rss + b->swap;
}

static int add_entry(struct find *f, const struct hw_smaps_row *r, const struct hw_part_bytes *b)
{
    struct hw_memory_parts *m = f->out;
    struct hw_part_entry e = {.part = part_of(f, text(f, r->path)),
                              .name = r->path,
                              .bytes = *b,
                              .size = bytes_of(r->size_kb),
                              .n_mappings =
                                  r->aggregate_count == HW_SMAPS_UNKNOWN ? 1 : r->aggregate_count};
    add(&m->parts[e.part], b);
    return hw_vec_push(&m->entries, e) < 0 ? HW_ENOMEM : HW_OK;
}

static int by_name(const void *pa, const void *pb)
{
    const struct hw_part_entry *a = pa, *b = pb;
    return a->name.v < b->name.v ? -1 : a->name.v > b->name.v;
}

/* Merges entries of the same name. */
static void merge_entries(struct hw_memory_parts *m)
{
    size_t n = 0;
    if (m->entries.n)
        qsort(m->entries.v, m->entries.n, sizeof *m->entries.v, by_name);
    for (size_t i = 0; i < m->entries.n; i++) {
        struct hw_part_entry *last = n ? &m->entries.v[n - 1] : NULL, *e = &m->entries.v[i];
        if (!last || last->name.v != e->name.v) {
            m->entries.v[n++] = *e;
            continue;
        }
        add(&last->bytes, &e->bytes);
        last->size += e->size;
        last->n_mappings += e->n_mappings;
    }
    m->entries.n = n;
}

static int add_mappings(struct find *f)
{
    const struct hw_process_rows rows = hw_by_process_of(&f->p->smaps_of, f->view->upid);
    const struct hw_smaps_row *v = f->p->smaps.v;
    int rc = HW_OK;
    for (size_t i = 0; i < rows.n; i++)
        if (v[rows.v[i]].ts_ns == f->out->ts_ns)
            find_runtime(f, text(f, v[rows.v[i]].path));
    for (size_t i = 0; rc == HW_OK && i < rows.n; i++) {
        const struct hw_smaps_row *r = &v[rows.v[i]];
        struct hw_part_bytes b = {resident_of(r), bytes_of(r->pss_kb), bytes_of(r->swap_kb)};
        if (r->ts_ns != f->out->ts_ns)
            continue;
        add(&f->out->total, &b);
        struct hw_bytes path = text(f, r->path);
        if (is_heap(path))
            add_heap(f, r, &b, bytes_of(r->size_kb));
        else
            rc = add_entry(f, r, &b);
    }
    merge_entries(f->out);
    return rc;
}

static int by_part(const void *pa, const void *pb)
{
    const struct hw_part_entry *a = pa, *b = pb;
    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    double x = a->bytes.rss + a->bytes.swap, y = b->bytes.rss + b->bytes.swap;
    return x > y ? -1 : x < y ? 1 : a->name.v < b->name.v ? -1 : a->name.v > b->name.v;
}

/* ---- inside the allocator ---- */

/* Takes the sum that the recorder had at the reading, else (older recorders) that of ts_ns, scaled to the live bytes of
 * the reading. False: there is none, or nothing is live at this moment. */
static bool use_recorded_rounding(struct find *f, const hw_values *values, struct hw_heap_use *u)
{
    double live = 0, rounding = 0;
    f->out->rounding_by_sample = hw_rounding_is_recorded(f->p, f->view->upid);
    if (f->out->live_ts_ns == f->out->ts_ns &&
        counter_at(f, "account.rounding", f->out->ts_ns, &rounding)) {
        u->rounding = u->least_rounding = rounding;
        return true;
    }
    for (size_t i = 0; i < values->n; i++) {
        live += (double)values->v[i].v.space;
        rounding += (double)values->v[i].v.rounding;
    }
    if (!f->out->rounding_by_sample || live <= 0)
        return false;
    u->rounding = u->least_rounding = fmax(0, u->live * rounding / live);
    return true;
}

/* Estimates by site, as each has its own sizes; if nothing is live, from all it ever allocated. */
static void estimate_rounding(const struct find *f, const hw_values *values, struct hw_heap_use *u)
{
    enum hw_rounding how = f->heap.is_glibc ? HW_ROUNDING_GLIBC : HW_ROUNDING_CLASSES;
    double bytes = 0, rounding = 0, least = 0;
    for (int all = 0; all < 2 && bytes <= 0; all++) {
        for (size_t i = 0; i < values->n; i++) {
            const struct hw_value *v = &values->v[i].v;
            double space = (double)(all ? v->alloc_space : v->space);
            double objects = (double)(all ? v->alloc_objects : v->objects);
            if (space <= 0 || objects <= 0)
                continue;
            bytes += space;
            rounding += objects * hw_rounding_of(how, space / objects);
            least += objects * hw_rounding_least(how, space / objects);
        }
    }
    u->rounding = bytes > 0 ? u->live * rounding / bytes : 0;
    u->least_rounding = bytes > 0 ? u->live * least / bytes : 0;
}

static bool started_before(const struct find *f)
{
    const struct hw_process_rows dumps = hw_by_process_of(&f->p->dumps_of, f->view->upid);
    if (dumps.n)
        return !(f->p->dumps.v[dumps.v[0]].flags & HW_DUMP_FROM_STARTUP);
    /* Without a dump nothing is known of its blocks: it was running already and allocated nothing,
     * or it is a forked child of an unrecorded parent, whose heap it has. */
    return true;
}

/* The allocator's own figure includes what is older. It is compared with what was live when the
 * allocator was asked, which may be long before the reading (it is asked at a sample). If the
 * recorder did not write that, the figure only counts if it is of the same moment. */
static void find_older(const struct find *f, struct hw_heap_use *u)
{
    double in_use, blocks = 0, live = u->live, rounding = u->rounding;
    int64_t at;
    if (!started_before(f)) {
        u->older_known = true;
        return;
    }
    if (!hw_process_counter(f->p, f->view->upid, "malloc_info.in_use", f->out->ts_ns, &in_use, &at))
        return;
    (void)counter_at(f, "malloc_info.mmap", at, &blocks);
    if (counter_at(f, "account.in_use.live", at, &live)) {
        if (!counter_at(f, "account.in_use.rounding", at, &rounding))
            rounding = u->live > 0 ? u->rounding * live / u->live : 0;
    } else if (distance(at, f->out->live_ts_ns) > SAME_MOMENT_NS) {
        return;
    }
    u->older_known = true;
    u->older = fmax(0, in_use + blocks - live - rounding);
    f->out->older_ts_ns = at;
}

/* A program that allocates while its mappings are read has more live bytes afterwards than the
 * mappings show. The live bytes while reading are between those before and after: as many as
 * fit. */
static void fit_live(const struct find *f, struct hw_heap_use *u)
{
    const struct hw_heap_memory *h = &f->heap;
    double before, used = u->live + u->older + u->least_rounding;
    double excess = used - hw_heap_untouched(h, u) - h->all.rss - h->all.swap;
    if (excess <= 0 || u->live <= 0 ||
        !counter_at(f, "account.live.before", f->out->ts_ns, &before))
        return;
    double fits = u->live - excess / (1 + u->least_rounding / u->live);
    double share = fmin(1, fmax(before, fits) / u->live);
    u->live *= share;
    u->rounding *= share;
    u->least_rounding *= share;
}

/* The gaps that alignment leaves around large blocks are never touched: they do not count at
 * all. */
static void subtract_gaps(struct find *f)
{
    struct hw_heap_memory *h = &f->heap;
    double gaps;
    if (!counter_at(f, "account.gaps", f->out->ts_ns, &gaps))
        return;
    gaps = fmin(gaps, fmax(0, h->blocks_size - h->blocks_resident));
    h->blocks_size -= gaps;
    h->size -= gaps;
}

static struct hw_heap_use find_use(struct find *f, const hw_values *values, int64_t ts_ns)
{
    struct hw_memory_parts *m = f->out;
    struct hw_value live = {0};
    for (size_t i = 0; i < values->n; i++)
        hw_value_add(&live, &values->v[i].v);
    /* A damaged trace may have freed more than was allocated. */
    struct hw_heap_use u = {.live = fmax(0, (double)live.space)};
    m->live_ts_ns = ts_ns;
    if (counter_at(f, "account.live", m->ts_ns, &u.live))
        m->live_ts_ns = m->ts_ns;
    m->error = hw_value_error(&live, HW_METRIC_SPACE, f->view->interval_bytes);
    if (live.space > 0)
        m->error *= sqrt(u.live / (double)live.space);
    if (!use_recorded_rounding(f, values, &u))
        estimate_rounding(f, values, &u);
    find_older(f, &u);
    fit_live(f, &u);
    m->requested = u.live;
    return u;
}

/* ---- what was not read ---- */

static void add_unread(struct find *f)
{
    struct hw_memory_parts *m = f->out;
    double rss, swap, cut;
    m->is_cut = counter_at(f, "account.is_cut", m->ts_ns, &cut);
    if (m->is_cut && counter_at(f, "account.rss", m->ts_ns, &rss) &&
        counter_at(f, "account.swap", m->ts_ns, &swap)) {
        struct hw_part_bytes left = {.rss = fmax(0, rss - m->total.rss),
                                     .swap = fmax(0, swap - m->total.swap)};
        left.pss = left.rss;
        add(&m->parts[HW_PART_UNEXPLAINED], &left);
        add(&m->total, &left);
    }
    m->page_tables = -1;
    (void)counter_at(f, "account.page_tables", m->ts_ns, &m->page_tables);
}

int hw_memory_parts_find(const struct hw_profile *p, const struct hw_process_view *v, int64_t ts_ns,
                         const hw_values *values, struct hw_memory_parts *out)
{
    struct find f = {.p = p, .view = v, .out = out, .heap = {.is_glibc = true}};
    *out = (struct hw_memory_parts){.page_tables = -1,
                                    .has_objects = hw_process_has_heap(p, v->upid, HW_PYTHON_HEAP)};
    static const hw_values none = {0};
    if (v->kind != HW_HEAP_NATIVE) /* what is live in a managed heap is a part of that */
        values = &none;
    struct hw_value live = {0};
    for (size_t i = 0; i < values->n; i++)
        hw_value_add(&live, &values->v[i].v);
    int rc = find_times(&f);
    if (rc == HW_OK && !find_reading(&f, ts_ns, (double)live.space))
        rc = HW_ENOTFOUND;
    hw_vec_done(&f.times);
    if (rc == HW_OK)
        rc = add_mappings(&f);
    if (rc < 0) {
        hw_memory_parts_done(out);
        return rc;
    }
    subtract_gaps(&f);
    struct hw_heap_use use = find_use(&f, values, ts_ns);
    hw_heap_divide(&f.heap, &use, out);
    out->unsaid = find_unsaid(&f);
    if (out->allocator == HW_BLOCKS_UNKNOWN && out->by_owner && f.heap.is_glibc)
        out->allocator = HW_BLOCKS_GLIBC;
    add_unread(&f);
    if (out->entries.n)
        qsort(out->entries.v, out->entries.n, sizeof *out->entries.v, by_part);
    return HW_OK;
}

void hw_memory_parts_done(struct hw_memory_parts *m)
{
    hw_vec_done(&m->entries);
}
