/* model_print TRACE: the imported model as text, for the golden files beside. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "import/import.h"
#include "model/profile.h"

static const char *text(const struct hw_profile *p, hw_str_id id)
{
    return hw_strings_cstr(hw_callsites_strings(p->callsites), id);
}

static void print_stack(const struct hw_profile *p, hw_callsite_id id)
{
    hw_frame_id path[64];
    size_t n = hw_callsites_path(p->callsites, id, path, 64);
    for (size_t i = 0; i < n && i < 64; i++) {
        const struct hw_frame *f = hw_callsites_get_frame(p->callsites, path[i]);
        const char *map = "-";
        if (f->mapping.v != HW_ID_NONE)
            map = text(p, hw_callsites_get_mapping(p->callsites, f->mapping)->path);
        printf("%s%s@%s+0x%llx", i ? ";" : "", text(p, f->name), map,
               (unsigned long long)f->rel_pc);
    }
    putchar('\n');
}

static void print_symbols(const struct hw_profile *p)
{
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(p->callsites);
    for (uint32_t i = 0; i < hw_callsites_n_frames(p->callsites); i++) {
        const struct hw_symbol_line *line;
        size_t n = hw_symbol_sets_get(sets, (hw_frame_id){i}, &line);
        const struct hw_frame *f = hw_callsites_get_frame(p->callsites, (hw_frame_id){i});
        hw_str_id original = hw_symbol_sets_get_deobfuscated(sets, (hw_frame_id){i});
        for (size_t k = 0; k < n; k++)
            printf("symbol 0x%llx %s %s:%u\n", (unsigned long long)f->rel_pc,
                   text(p, line[k].function), text(p, line[k].file), line[k].line);
        if (original.v)
            printf("deobfuscated %s %s\n", text(p, f->name), text(p, original));
    }
}

static void print_dump(const struct hw_profile *p, uint32_t d)
{
    const struct hw_heap_dump *h = &p->dumps.v[d];
    size_t first, n;
    printf("dump pid %lld heap %s ts %lld start %lld interval %llu flags %u trigger '%s'\n",
           (long long)p->processes.v[h->upid.v].pid, text(p, h->heap_name), (long long)h->ts_ns,
           (long long)h->start_ts_ns, (unsigned long long)h->interval_bytes, h->flags,
           text(p, h->trigger));
    hw_profile_dump_rows(p, d, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        struct hw_alloc_row row = hw_alloc_row_of(&p->allocs, d, i), *r = &row;
        printf("  samples %lld count %lld size %lld idle %lld ", (long long)r->samples,
               (long long)r->count, (long long)r->size, (long long)r->idle);
        if (r->type.v)
            printf("type %s ", text(p, r->type));
        print_stack(p, r->callsite);
    }
}

static void print_classes(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    for (uint32_t c = 0; c < g->n_classes; c++) {
        const struct hw_heap_class *k = &g->classes[c];
        printf("  class %u '%s' %s location '%s' superclass %d classloader %d\n", c,
               text(p, k->name), hw_class_kind_name((enum hw_class_kind)k->kind),
               text(p, k->location), (int)k->superclass, (int)k->classloader);
    }
}

static void print_graph(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    printf("graph pid %lld ts %lld%s heap size %lld reason '%s'\n",
           (long long)p->processes.v[g->upid.v].pid, (long long)g->ts_ns,
           g->truncated ? " truncated" : "", (long long)g->heap_size, text(p, g->dump_reason));
    if (g->is_oome)
        printf("  out of memory: %lld asked for, %lld free, %lld until then, '%s'\n",
               (long long)g->oome_allocation_size, (long long)g->oome_total_free,
               (long long)g->oome_free_until, text(p, g->oome_message));
    for (size_t i = 0; i < g->threads.n; i++) {
        printf("  thread ");
        print_stack(p, g->threads.v[i].callsite);
    }
    print_classes(p, g);
    for (uint32_t o = 0; o < g->n_objects; o++) {
        printf("  object %u class %u size %lld native %lld %s%s%s%s\n", o, g->type[o],
               (long long)hw_object_size(g, o), (long long)hw_object_native_size(g, o),
               hw_object_heap_type(g, o) ? hw_heap_type_name(hw_object_heap_type(g, o)) : "-",
               hw_object_is_root(g, o) ? " " : "",
               hw_object_is_root(g, o) ? hw_root_type_name(hw_object_root_type(g, o)) : "",
               hw_object_is_reachable(g, o) ? " reachable" : "");
        for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
            const struct hw_heap_field *f = &g->fields[g->ref_field[r]];
            printf("    '%s' of type '%s' -> %d%s\n", text(p, f->name), text(p, f->type_name),
                   (int)g->ref_owned[r], hw_ref_owner(g, r) == o ? "" : " WRONG OWNER");
        }
    }
}

static void print_samples(const struct hw_profile *p)
{
    for (size_t i = 0; i < p->cpu.samples.n; i++) {
        const struct hw_cpu_sample *s = &p->cpu.samples.v[i];
        const char *unwound = hw_unwind_error_name(s->unwind_error);
        printf("cpu sample ts %lld tid %lld cpu %u session %u %s %s ", (long long)s->ts_ns,
               s->thread ? (long long)p->threads.rows.v[s->thread - 1].tid : 0, s->cpu, s->session,
               hw_cpu_mode_name(s->mode), unwound ? unwound : "-");
        if (s->callsite.v == HW_ID_NONE)
            puts("no stack");
        else
            print_stack(p, s->callsite);
    }
    for (size_t i = 0; i < p->cpu.counts.n; i++) {
        const struct hw_cpu_count *c = &p->cpu.counts.v[i];
        const struct hw_cpu_track *t = &p->cpu.tracks.v[c->track];
        printf("cpu count ts %lld %s of cpu %u session %u%s: %.0f\n", (long long)c->ts_ns,
               text(p, t->name), t->cpu, t->session, t->is_timebase ? " (timebase)" : "", c->value);
    }
}

static void print_model(const struct hw_profile *p)
{
    for (size_t i = 0; i < p->processes.n; i++)
        printf("process %lld '%s' cmdline '%s' uid %lld ppid %lld\n",
               (long long)p->processes.v[i].pid, text(p, p->processes.v[i].name),
               text(p, p->processes.v[i].cmdline), (long long)p->processes.v[i].uid,
               (long long)p->processes.v[i].ppid);
    for (uint32_t i = 0; i < hw_callsites_n_mappings(p->callsites); i++) {
        const struct hw_mapping *m = hw_callsites_get_mapping(p->callsites, (hw_mapping_id){i});
        printf("mapping %s build id of %zu bytes\n", text(p, m->path),
               hw_strings_get(hw_callsites_strings(p->callsites), m->build_id).n);
    }
    print_symbols(p);
    for (uint32_t i = 0; i < p->dumps.n; i++)
        print_dump(p, i);
    for (size_t i = 0; i < p->graphs.n; i++)
        print_graph(p, p->graphs.v[i]);
    print_samples(p);
    for (size_t i = 0; i < p->counters.n; i++)
        printf("counter %s ts %lld value %.0f\n", text(p, p->counters.v[i].name),
               (long long)p->counters.v[i].ts_ns, p->counters.v[i].value);
    for (size_t i = 0; i < p->smaps.n; i++)
        printf("smaps '%s' ts %lld size %llu rss %llu\n", text(p, p->smaps.v[i].path),
               (long long)p->smaps.v[i].ts_ns, (unsigned long long)p->smaps.v[i].size_kb,
               (unsigned long long)p->smaps.v[i].rss_kb);
    for (size_t i = 0; i < p->stats.n; i++)
        printf("stat %s key %lld severity %d value %lld\n", text(p, p->stats.v[i].name),
               (long long)p->stats.v[i].key, (int)p->stats.v[i].severity,
               (long long)p->stats.v[i].value);
    for (size_t i = 0; i < p->metadata.n; i++)
        if (strcmp(text(p, p->metadata.v[i].name), "trace_type") != 0 &&
            strcmp(text(p, p->metadata.v[i].name), "trace_size_bytes") != 0) /* of any trace */
            printf("metadata %s '%s' %lld\n", text(p, p->metadata.v[i].name),
                   text(p, p->metadata.v[i].text), (long long)p->metadata.v[i].number);
    printf("time %lld..%lld\n%s", (long long)p->first_ns, (long long)p->last_ns,
           text(p, p->config_text));
}

int main(int argc, char **argv)
{
    struct hw_profile *p;
    struct hw_error err;
    if (argc != 2)
        return 2;
    if (hw_import_file(argv[1], &p, &err) < 0) {
        printf("error: %s\n",
               err.text + (strrchr(err.text, '\'') ? strrchr(err.text, '\'') - err.text + 1 : 0));
        return 0;
    }
    print_model(p);
    hw_profile_free(p);
    return 0;
}
