/*
 * massif's output, for ms_print and massif-visualizer: an empty snapshot at the start, the peak if
 * it was before the dump, and the dump (itself the peak if there was no earlier one). A tree begins
 * with the functions that allocate, with their callers below them:
 *
 *     n2: 1500 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 *      n1: 1000 0x1234: leaf (file.c:7)
 *       n0: 1000 0x1300: caller (module)
 *
 * Our nodes are functions, not addresses, so the address is 0. Nodes below a hundredth of a percent
 * are summed up in one line per level.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text/plural.h"
#include "export/export.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

struct massif {
    const struct hw_export_input *in;
    const struct hw_functions *functions;
    struct hw_flame tree; /* inverted */
    FILE *out;
    struct hw_strbuf name;
    int64_t threshold;
};

static int64_t bytes_of(const struct massif *m, uint32_t node)
{
    return hw_flame_total(&m->tree, node)->space;
}

static void put_plain(FILE *out, const struct hw_strbuf *s)
{
    for (size_t i = 0; i < s->n; i++)
        fputc((unsigned char)s->p[i] < 0x20 ? ' ' : s->p[i], out);
}

static void indent(const struct massif *m, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++)
        fputc(' ', m->out);
}

/* The number of lines below a node; the last one, for the small nodes, has *rest bytes. */
static size_t count_children(const struct massif *m, uint32_t node, int64_t *rest, size_t *n_rest)
{
    size_t n = 0;
    *rest = 0;
    *n_rest = 0;
    for (uint32_t c = m->tree.v.v[node].first_child; c != HW_ID_NONE;
         c = m->tree.v.v[c].next_sibling) {
        if (bytes_of(m, c) >= m->threshold) {
            n++;
        } else {
            *rest += bytes_of(m, c);
            ++*n_rest;
        }
    }
    return n + (*n_rest > 0);
}

static int put_name(struct massif *m, uint32_t function)
{
    const struct hw_callsites *cs = m->in->profile->callsites;
    const struct hw_function *fn = hw_functions_get(m->functions, function);
    hw_strbuf_clear(&m->name);
    hw_function_label(&m->name, cs, fn, m->in->namer);
    if (m->name.failed)
        return HW_ENOMEM;
    put_plain(m->out, &m->name);
    struct hw_bytes module =
        hw_strings_get(hw_callsites_strings(m->in->profile->callsites), fn->module);
    hw_strbuf_clear(&m->name);
    hw_strbuf_add(&m->name, module.p, module.n);
    fputs(" (in ", m->out);
    put_plain(m->out, &m->name);
    fputs(")\n", m->out);
    return m->name.failed ? HW_ENOMEM : HW_OK;
}

static void put_rest(const struct massif *m, uint32_t node, int64_t rest, size_t n_rest)
{
    if (!n_rest)
        return;
    indent(m, m->tree.v.v[node].depth + 1);
    fprintf(m->out, "n0: %" PRId64 " in %zu place%s, all below massif's threshold (0.01%%)\n", rest,
            n_rest, hw_plural(n_rest));
}

static int put_node(struct massif *m, uint32_t node)
{
    int64_t rest;
    size_t n_rest, n = count_children(m, node, &rest, &n_rest);
    indent(m, m->tree.v.v[node].depth);
    fprintf(m->out, "n%zu: %" PRId64 " ", n, bytes_of(m, node));
    if (node == 0) {
        fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n", m->out);
        return HW_OK;
    }
    fputs("0x0: ", m->out);
    return put_name(m, m->tree.v.v[node].function);
}

/* Depth first without recursion: down to the first child, else to the next sibling of the nearest
 * ancestor that has one. The line for the small nodes follows a node's other children. */
static int put_tree(struct massif *m)
{
    uint32_t node = 0;
    int rc = put_node(m, node);
    while (rc == HW_OK && node != HW_ID_NONE) {
        uint32_t next = m->tree.v.v[node].first_child;
        bool down = true;
        for (;;) {
            while (next != HW_ID_NONE && bytes_of(m, next) < m->threshold)
                next = m->tree.v.v[next].next_sibling;
            if (next != HW_ID_NONE)
                break;
            uint32_t above = down ? node : m->tree.v.v[node].parent;
            if (above == HW_ID_NONE)
                break;
            int64_t rest;
            size_t n_rest;
            (void)count_children(m, above, &rest, &n_rest); /* only the rest is used */
            put_rest(m, above, rest, n_rest);
            node = above;
            next = m->tree.v.v[node].next_sibling;
            down = false;
            if (node == 0)
                return HW_OK;
        }
        node = next;
        if (node != HW_ID_NONE)
            rc = put_node(m, node);
    }
    return rc;
}

static void put_snapshot(const struct massif *m, int number, int64_t ms, int64_t bytes,
                         const char *tree)
{
    fprintf(m->out,
            "#-----------\nsnapshot=%d\n#-----------\ntime=%" PRId64 "\nmem_heap_B=%" PRId64
            "\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
            number, ms, bytes, tree);
}

static int64_t ms_of(const struct massif *m, int64_t ts_ns)
{
    int64_t run = hw_sat_sub(ts_ns, m->in->profile->first_ns) / 1000000;
    return run > 0 ? run : 0;
}

static void put_head(struct massif *m)
{
    const struct hw_profile *p = m->in->profile;
    const struct hw_process *process = &p->processes.v[m->in->upid.v];
    struct hw_bytes command = hw_strings_get(hw_callsites_strings(p->callsites),
                                             process->cmdline.v ? process->cmdline : process->name);
    hw_strbuf_add(&m->name, command.p, command.n);
    fputs("desc: heapwise\ncmd: ", m->out);
    put_plain(m->out, &m->name);
    fputs("\ntime_unit: ms\n", m->out);
    put_snapshot(m, 0, 0, 0, "empty");
}

/* kind: "peak" or "detailed"; ms_print and massif-visualizer name one snapshot the peak. */
static int put_moment(struct massif *m, const hw_values *values, int number, int64_t ts_ns,
                      const char *kind)
{
    int rc = hw_flame_build(m->in->profile->callsites, m->functions, values, HW_FLAME_INVERTED,
                            &m->tree);
    if (rc == HW_OK)
        rc = hw_flame_sort(&m->tree, HW_METRIC_SPACE);
    if (rc == HW_OK) {
        m->threshold = bytes_of(m, 0) / 10000 + 1;
        put_snapshot(m, number, ms_of(m, ts_ns), bytes_of(m, 0), kind);
        rc = put_tree(m);
    }
    hw_flame_done(&m->tree);
    return rc;
}

static int put_all(struct massif *m)
{
    const struct hw_export_input *in = m->in;
    int rc = HW_OK, number = 1;
    put_head(m);
    if (in->peak)
        rc = put_moment(m, in->peak, number++, in->peak_ts_ns, "peak");
    return rc < 0 ? rc
                  : put_moment(m, in->values, number, in->ts_ns, in->peak ? "detailed" : "peak");
}

static int massif_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    struct massif m = {.in = in, .out = out};
    struct hw_functions *functions;
    int rc = hw_functions_new(in->profile->callsites, NULL, &functions);
    if (rc == HW_OK) {
        m.functions = functions;
        rc = put_all(&m);
        hw_functions_free(functions);
    }
    hw_strbuf_done(&m.name);
    return rc < 0 ? hw_fail(err, rc, 0, "massif output:") : hw_export_finish(out, err);
}

const struct hw_exporter hw_export_massif = {
    .name = "massif",
    .summary = "massif's output: ms_print, massif-visualizer",
    .extension = ".massif",
    .write = massif_write,
};
