#include "cli/report/report_managed.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "cli/report/report_data.h"
#include "config/command/units.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

enum { MAX_CLASSES = 5, WIDTH = 11 };

struct managed {
    const struct hw_report_data *d;
    const struct hw_heap_graph *g;
    struct hw_heap_sum all; /* reachable */
    struct {
        uint32_t class;
        struct hw_heap_sum sum;
    } v[MAX_CLASSES]; /* the largest by self size */
    size_t n;
};

static void put_in_order(struct managed *m, uint32_t class, const struct hw_heap_sum *sum)
{
    size_t at = m->n;
    while (at > 0 && m->v[at - 1].sum.size < sum->size)
        at--;
    if (at == MAX_CLASSES || sum->size == 0)
        return;
    m->n += m->n < MAX_CLASSES;
    memmove(&m->v[at + 1], &m->v[at], (m->n - at - 1) * sizeof m->v[0]);
    m->v[at].class = class;
    m->v[at].sum = *sum;
}

static int gather(const struct hw_report_data *d, struct managed *m)
{
    *m = (struct managed){.d = d, .g = hw_heap_graph_of(d->p, d->upid)};
    if (!m->g)
        return HW_OK;
    hw_autofree struct hw_class_sum *sums = calloc((size_t)m->g->n_classes + 1, sizeof *sums);
    int rc = sums ? hw_heap_class_sums(m->g, NULL, sums) : HW_ENOMEM;
    for (uint32_t c = 0; rc == HW_OK && c < m->g->n_classes; c++)
        put_in_order(m, c, &sums[c].reachable);
    m->all = hw_heap_graph_sum(m->g).reachable;
    return rc;
}

static struct hw_bytes class_name(const struct managed *m, size_t i)
{
    return hw_strings_get(hw_callsites_strings(m->d->p->callsites),
                          hw_class_shown_name(&m->g->classes[m->v[i].class]));
}

static struct hw_bytes jvms_words(const struct managed *m)
{
    return hw_strings_get(hw_callsites_strings(m->d->p->callsites), m->g->oome_message);
}

/* ---- text ---- */

static void put_text(FILE *out, struct hw_bytes text)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, text.p, text.n);
    fputs(b.p ? b.p : "", out);
    hw_strbuf_done(&b);
}

static void put_command(const struct managed *m, const char *form, FILE *out)
{
    const char *path = m->d->o->path;
    fprintf(out, "heapwise graph%s ", form);
    put_text(out, hw_bytes_str(path ? path : "TRACE"));
}

static void put_out_of_memory(const struct managed *m, FILE *out)
{
    char bytes[HW_UNIT_MAX], count[HW_UNIT_MAX];
    struct hw_bytes words = jvms_words(m);
    fputs("\nits managed heap ran out of memory", out);
    if (words.n) {
        fputs(" (", out);
        put_text(out, words);
        fputc(')', out);
    }
    fprintf(out, ", with %s in %s reachable objects:\n%*s%*s  class\n",
            hw_fmt_bytes(bytes, (double)m->all.size), hw_fmt_count(count, (double)m->all.count),
            WIDTH, "own", WIDTH, "objects");
    for (size_t i = 0; i < m->n; i++) {
        fprintf(out, "%*s%*s  ", WIDTH, hw_fmt_bytes(bytes, (double)m->v[i].sum.size), WIDTH,
                hw_fmt_count(count, (double)m->v[i].sum.count));
        put_text(out, class_name(m, i));
        fputc('\n', out);
    }
    fputs("what keeps them alive: ", out);
    put_command(m, " --dominators", out);
    fputs("\nbelow is what malloc gave, outside of that heap\n", out);
}

static void put_beside(const struct managed *m, FILE *out)
{
    enum { SHOWN = 2 };
    char bytes[HW_UNIT_MAX], count[HW_UNIT_MAX];
    fprintf(out, "not in these figures: managed heap   %s in %s reachable objects",
            hw_fmt_bytes(bytes, (double)m->all.size), hw_fmt_count(count, (double)m->all.count));
    for (size_t i = 0; i < m->n && i < SHOWN; i++) {
        fputs(i ? ", " : "; ", out);
        put_text(out, class_name(m, i));
        fprintf(out, " %s", hw_fmt_bytes(bytes, (double)m->v[i].sum.size));
    }
    fputs("   (", out);
    put_command(m, "", out);
    fputs(")\n", out);
}

int hw_report_managed_text(const struct hw_report_data *d, FILE *out)
{
    struct managed m;
    int rc = gather(d, &m);
    if (rc < 0 || !m.g)
        return rc;
    if (m.g->is_oome)
        put_out_of_memory(&m, out);
    else
        put_beside(&m, out);
    return HW_OK;
}

/* ---- JSON ---- */

static void put_sum(struct hw_json *j, const struct hw_heap_sum *s)
{
    hw_json_kv_int(j, "objects", s->count);
    hw_json_kv_int(j, "size", s->size);
    hw_json_kv_int(j, "native", s->native);
}

int hw_report_managed_json(const struct hw_report_data *d, struct hw_json *j)
{
    struct managed m;
    int rc = gather(d, &m);
    if (rc < 0 || !m.g)
        return rc;
    hw_json_key(j, "managed_heap");
    hw_json_begin_object(j);
    hw_json_kv_int(j, "ts_ns", m.g->ts_ns);
    hw_json_kv_bool(j, "out_of_memory", m.g->is_oome);
    put_sum(j, &m.all);
    hw_json_key(j, "classes");
    hw_json_begin_array(j);
    for (size_t i = 0; i < m.n; i++) {
        struct hw_bytes name = class_name(&m, i);
        hw_json_begin_object(j);
        hw_json_key(j, "class");
        hw_json_strn(j, name.p, name.n);
        put_sum(j, &m.v[i].sum);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    return HW_OK;
}
