/* Any bytes as a trace: imported, checked, and printed as text. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/bytes.h"
#include "import/import.h"
#include "import/perfetto/perfetto_reader.h"
#include "model/profile.h"
#include "trace/check/trace_check.h"
#include "trace/reader.h"
#include "trace/text.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_tree.h"

#include "lib/write_hprof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The same of heap graphs. */
static void walk_graph(const struct hw_heap_graph *g)
{
    for (uint32_t o = 0; o < g->n_objects; o++) {
        if (g->type[o] >= g->n_classes || g->first_ref[o] > g->first_ref[o + 1] ||
            g->first_ref[o + 1] > g->n_refs)
            __builtin_trap();
        for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
            if ((g->ref_owned[r] != HW_ID_NONE && g->ref_owned[r] >= g->n_objects) ||
                g->ref_field[r] >= g->n_fields || hw_ref_owner(g, r) != o)
                __builtin_trap();
    }
    for (uint32_t c = 0; c < g->n_classes; c++)
        if (g->classes[c].superclass != HW_ID_NONE && g->classes[c].superclass >= g->n_classes)
            __builtin_trap();
}

/* Both views have every reachable object. */
static void ask_graph(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    struct hw_dominators d;
    hw_heap_tree tree;
    uint32_t n = 0;
    int64_t count = 0;
    for (uint32_t o = 0; o < g->n_objects; o++)
        n += hw_object_is_reachable(g, o);
    if (hw_dominators_build(g, &d) == 0) {
        if (d.n != n)
            __builtin_trap();
        hw_dominators_done(&d);
    }
    if (hw_heap_tree_flame(p, g, NULL, &tree) == 0) {
        for (size_t i = 0; i < tree.n; i++)
            count += tree.v[i].is_native ? 0 : tree.v[i].count;
        if (count != n)
            __builtin_trap();
        hw_vec_done(&tree);
    }
}

/* Every id of a row must name a row. */
static void walk(const struct hw_profile *p)
{
    for (size_t i = 0; i < p->allocs.n; i++) {
        hw_frame_id path[HW_MAX_CALLSITE_DEPTH];
        size_t depth = hw_callsites_path(p->callsites, (hw_callsite_id){p->allocs.callsite[i]},
                                         path, HW_MAX_CALLSITE_DEPTH);
        for (size_t k = 0; k < depth; k++) {
            const struct hw_frame *f = hw_callsites_get_frame(p->callsites, path[k]);
            if (f->mapping.v != HW_ID_NONE && f->mapping.v >= hw_callsites_n_mappings(p->callsites))
                __builtin_trap();
        }
        if (hw_alloc_dump(&p->allocs, i) >= p->dumps.n)
            __builtin_trap();
    }
    for (size_t i = 0; i < p->graphs.n; i++) {
        walk_graph(p->graphs.v[i]);
        ask_graph(p, p->graphs.v[i]);
    }
    write_hprof(p);
}

static void take(void *ctx, const struct hw_check_finding *f)
{
    size_t *n = ctx;
    if (f->rule >= HW_CHECK_RULE_COUNT || !f->text)
        __builtin_trap();
    ++*n;
}

/* No more findings than asked for, and each is counted. */
static void check(struct hw_trace_reader *r)
{
    size_t told = 0;
    uint64_t counted = 0;
    struct hw_check_options o = {.max_each = 2, .found = take, .ctx = &told};
    struct hw_check_result result;
    if (hw_trace_check(r, &o, &result, NULL) < 0)
        return;
    for (int i = 0; i < HW_CHECK_RULE_COUNT; i++)
        counted += result.n[i] < o.max_each ? result.n[i] : o.max_each;
    if (counted != told)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int null_fd = -1;
    struct hw_profile *p;
    struct hw_trace_reader *r;
    struct hw_bytes file = hw_bytes_of(data, n);
    if (null_fd < 0)
        null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (hw_profile_new(&p) == 0) {
        if (hw_import_perfetto.read(file, p, NULL) == 0 && hw_profile_freeze(p) == 0)
            walk(p);
        hw_profile_free(p);
    }
    if (hw_trace_reader_open_bytes(file, &r, NULL) == 0) {
        check(r);
        hw_trace_reader_rewind(r);
        (void)hw_trace_print_text(r, null_fd, NULL, NULL); /* damage is expected */
        hw_trace_reader_free(r);
    }
    return 0;
}
