#include "cli/report/report_notes.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/text/text_parts.h"
#include "cli/parts/loss_text.h"
#include "cli/report/report_data.h"
#include "config/command/units.h"
#include "record/build_config.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

enum { MAX_WIDTH = 100, MAX_MODULES = 3 };

struct notes {
    const struct hw_report_data *d;
    FILE *out;
    bool any;
};

static void paint(const struct notes *n, const char *code)
{
    if (n->d->o->color)
        fprintf(n->out, "\033[%sm", code);
}

/* "word: text", wrapped; further lines are aligned with the text. */
static void put_note(struct notes *n, const char *word, const char *colour, const char *text)
{
    size_t indent = strlen(word) + 2, width = n->d->o->width;
    width = width > MAX_WIDTH ? MAX_WIDTH : width < indent + 30 ? indent + 30 : width;
    if (!n->any)
        fputc('\n', n->out);
    n->any = true;
    paint(n, colour);
    fprintf(n->out, "%s: ", word);
    paint(n, "0");
    hw_print_folded(n->out, text, indent, indent, width);
}

static int put_losses(struct notes *n)
{
    struct hw_strbuf text = {0};
    for (size_t i = 0; i < n->d->losses.n && !text.failed; i++) {
        const struct hw_loss *l = &n->d->losses.v[i];
        bool bad = hw_loss_is_incomplete(l);
        hw_strbuf_clear(&text);
        hw_loss_text(&text, n->d->p, l);
        put_note(n, bad ? "incomplete" : "note", bad ? "31" : "33", text.p ? text.p : "");
    }
    if (n->d->others.upids.n && !text.failed) {
        hw_strbuf_clear(&text);
        hw_losses_sum_text(&text, n->d->p, &n->d->others);
        put_note(n, "incomplete", "31", text.p ? text.p : "");
    }
    int rc = text.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&text);
    return rc;
}

/* ---- dumps triggered by a condition or a limit ---- */

static bool is_usual(const char *trigger)
{
    static const char *const usual[] = {"",           "end",     "exit",         "exec",
                                        "continuous", "peak",    "checkpoint",   "signal",
                                        "clone",      "command", "freed-by-exec"};
    for (size_t i = 0; i < HW_ARRAY_LEN(usual); i++)
        if (strcmp(trigger, usual[i]) == 0)
            return true;
    return false;
}

/* A checkpoint is shown and mentioned only if nothing followed it. */
static bool is_shown(const struct hw_profile *p, const struct hw_heap_dump *d)
{
    if (!(d->flags & HW_DUMP_CHECKPOINT))
        return true;
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, d->upid);
    /* Dumps are in order of time. */
    return p->dumps.v[dumps.v[dumps.n - 1]].ts_ns <= d->ts_ns;
}

static int put_triggers(struct notes *n)
{
    enum { MAX_TOLD = 8 };
    const struct hw_report_data *d = n->d;
    struct hw_strbuf text = {0};
    int64_t last = INT64_MIN;
    size_t told = 0;
    const struct hw_process_rows dumps = hw_by_process_of(&d->p->dumps_of, d->upid);
    for (size_t i = 0; i < dumps.n && told < MAX_TOLD; i++) {
        const struct hw_heap_dump *h = &d->p->dumps.v[dumps.v[i]];
        const char *trigger = hw_strings_cstr(hw_callsites_strings(d->p->callsites), h->trigger);
        char clock[HW_UNIT_MAX];
        if (is_usual(trigger) || h->ts_ns == last || !is_shown(d->p, h))
            continue;
        last = h->ts_ns; /* the first of several heaps at one time */
        hw_strbuf_adds(&text, told++ ? ", " : "dumps were made by: ");
        hw_strbuf_add_escaped(&text, trigger, strlen(trigger));
        hw_strbuf_addf(&text, " at %s",
                       hw_fmt_clock(clock, hw_sat_sub(h->ts_ns, d->view.start_ns)));
    }
    int rc = text.failed ? HW_ENOMEM : HW_OK;
    if (rc == HW_OK && told)
        put_note(n, "note", "33", text.p);
    hw_strbuf_done(&text);
    return rc;
}

/* ---- names that are missing ---- */

struct nameless {
    hw_str_id module;
    double value;
};

struct nameless_list {
    struct nameless v[16]; /* a few modules have most of them */
    size_t n;
    double named, nameless;
};

static void add_nameless(struct nameless_list *l, hw_str_id module, double value)
{
    l->nameless += value;
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].module.v == module.v) {
            l->v[i].value += value;
            return;
        }
    if (l->n < HW_ARRAY_LEN(l->v))
        l->v[l->n++] = (struct nameless){module, value};
}

static void put_modules(struct hw_strbuf *text, const struct hw_report_data *d,
                        struct nameless_list *l)
{
    for (size_t k = 0; k < MAX_MODULES; k++) {
        struct nameless *most = NULL;
        for (size_t i = 0; i < l->n; i++)
            if (!most || l->v[i].value > most->value)
                most = &l->v[i];
        if (!most || most->value < 0.1 * l->nameless)
            return;
        struct hw_bytes name = hw_module_base(d->p->callsites, most->module);
        hw_strbuf_adds(text, k ? ", " : " ");
        hw_strbuf_add_escaped(text, name.p, name.n);
        most->value = 0;
    }
}

/* A stripped program shows one row "git+0x28961b" where a reader expects names. */
static int put_nameless(struct notes *n)
{
    const struct hw_report_data *d = n->d;
    struct nameless_list l = {0};
    for (size_t i = 0; i < d->sites.n; i++) {
        const struct hw_function *fn = hw_functions_get(d->functions, d->sites.v[i].function);
        double value = fabs((double)hw_value_get(&d->sites.v[i].now, d->o->metric));
        if (fn->name.v || !fn->module.v)
            l.named += value;
        else
            add_nameless(&l, fn->module, value);
    }
    if (l.nameless == 0 || l.nameless < 0.2 * (l.named + l.nameless))
        return HW_OK;
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "%.0f%% of the table is code without names, of",
                   100 * l.nameless / (l.named + l.nameless));
    put_modules(&text, d, &l);
    hw_strbuf_adds(&text,
                   ": stripped files. `heapwise symbolize` names it once their debug symbols "
                   "are installed (a -dbgsym or -debuginfo package, or "
                   "PERFETTO_BINARY_PATH); see `heapwise explain no-names`");
    int rc = text.failed ? HW_ENOMEM : HW_OK;
    if (rc == HW_OK)
        put_note(n, "note", "33", text.p);
    hw_strbuf_done(&text);
    return rc;
}

/* ---- names that may be wrong ---- */

static size_t rows_named_like(const struct hw_report_data *d, const char *part)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_rows; i++) {
        const struct hw_function *fn = hw_functions_get(d->functions, d->sites.v[i].function);
        const char *name = hw_strings_cstr(hw_callsites_strings(d->p->callsites), fn->name);
        n += strstr(name, part) != NULL;
    }
    return n;
}

static void put_shared_names(struct notes *n)
{
    if (rows_named_like(n->d, HW_FOLDED_MARK))
        put_note(n, "note", "33",
                 "[folded]: the code of several functions is one, and the name may be another's; "
                 "see `heapwise explain folded`");
    if (rows_named_like(n->d, "[DEDUPED]"))
        put_note(n, "note", "33",
                 "[DEDUPED]: a method that shares its code with others; see `heapwise explain "
                 "deduped`");
}

/* ---- memory that is not malloc's ---- */

static bool has_module(const struct hw_report_data *d, const char *base)
{
    size_t n = hw_functions_count(d->functions);
    for (uint32_t i = 0; i < n; i++)
        if (hw_bytes_equal(
                hw_module_base(d->p->callsites, hw_functions_get(d->functions, i)->module),
                hw_bytes_str(base)))
            return true;
    return false;
}

static bool has_python_allocators(const struct hw_report_data *d)
{
    const struct hw_strings *strings = hw_callsites_strings(d->p->callsites);
    return strstr(hw_strings_cstr(strings, d->p->config_text), HW_ATTRIBUTE_PYTHON) != NULL;
}

static bool is_go_instead(const struct hw_report_data *d)
{
    const struct hw_process_rows of = hw_series_of(&d->list, d->upid);
    bool is_behind = false;
    for (size_t i = 0; i < of.n; i++)
        is_behind |= hw_series_is_behind(&d->list.v.v[of.v[i]]);
    return is_behind && d->view.kind == HW_HEAP_OBJECTS;
}

static void put_runtimes(struct notes *n)
{
    if (is_go_instead(n->d))
        put_note(
            n, "note", "33",
            "these figures are of go.alloc, what the program's Go code allocates: malloc's, of "
            "its C code, are next to nothing beside it (--heap libc.malloc)");
    const char *name = hw_base_name(hw_report_process_name(n->d, n->d->upid));
    if (strncmp(name, "python", 6) == 0 && !has_python_allocators(n->d) &&
        !hw_process_has_heap(n->d->p, n->d->upid, HW_PYTHON_HEAP))
        put_note(n, "note", "33",
                 "python keeps objects up to 512 bytes in arenas of its own (pymalloc), which "
                 "this recording lacks: they are the heap " HW_PYTHON_HEAP
                 ", or with --python-allocators malloc's");
    if (n->d->n_rows && hw_series_has(&n->d->list, n->d->p, n->d->upid, HW_PYTHON_HEAP))
        put_note(n, "note", "33", HW_FREE_LISTS_TEXT);
    if (has_module(n->d, "libjvm.so"))
        put_note(n, "note", "33",
                 hw_heap_graph_of(n->d->p, n->d->upid)
                     ? "malloc's heap is the JVM's own memory: Java objects, class data and "
                       "compiled code come from mmap; 'record --heap java.alloc' shows who "
                       "allocates the objects"
                     : "malloc's heap is the JVM's own memory: Java objects, class data and "
                       "compiled code come from mmap; 'heapwise java dump' shows the objects, "
                       "'record --heap java.alloc' who allocates them");
    if (strcmp(name, "node") == 0 || strcmp(name, "nodejs") == 0)
        put_note(n, "note", "33",
                 "JavaScript objects are V8's, in memory from mmap, and are not in this report; "
                 "buffers and native modules are; 'heapwise node dump' shows the objects");
}

/* Whether a script's values are malloc's, because of USE_ZEND_ALLOC=0: the engine's own stack, which
 * it allocates like them, or most of what was allocated. */
static bool php_uses_malloc(const struct hw_report_data *d)
{
    struct hw_strings *strings = hw_callsites_strings(d->p->callsites);
    double of_scripts = 0;
    for (size_t i = 0; d->view.kind == HW_HEAP_NATIVE && i < d->sites.n; i++) {
        const struct hw_function *fn = hw_functions_get(d->functions, d->sites.v[i].function);
        double allocated = (double)d->sites.v[i].now.alloc_space;
        if (allocated > 0 &&
            hw_bytes_equal(hw_strings_get(strings, fn->name), hw_bytes_str("zend_vm_stack_init")))
            return true;
        if (fn->language == HW_FUNCTION_MANAGED)
            of_scripts += allocated;
    }
    return of_scripts > (double)d->now.total.alloc_space / 2;
}

/* The table has little but what the interpreter needed to start. */
void hw_report_notes_above(const struct hw_report_data *d, FILE *out)
{
    struct notes n = {.d = d, .out = out};
    if (strncmp(hw_base_name(hw_report_process_name(d, d->upid)), "php", 3) == 0 &&
        !php_uses_malloc(d))
        put_note(
            &n, "note", "33",
            "php keeps a script's values in chunks of 2 MiB from mmap: '--heap mmap.anon' shows "
            "who needed another chunk, or a value as large; with USE_ZEND_ALLOC=0 in its "
            "environment each value comes from malloc and is in this report");
}

/* ---- frames that say why a stack ends ---- */

static bool is_error(const struct hw_report_data *d, uint32_t function)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(d->p->callsites),
                                          hw_functions_get(d->functions, function)->name);
    return hw_bytes_start_with(name, "ERROR ");
}

static void put_errors(struct notes *n)
{
    const struct hw_report_data *d = n->d;
    bool any = false;
    for (size_t i = 0; i < d->n_rows; i++) {
        uint32_t function = d->sites.v[i].function;
        const struct hw_callers *c = &d->names.callers[function];
        any |= is_error(d, function);
        for (size_t k = 0; k < c->n; k++)
            any |= is_error(d, c->function[k]);
    }
    if (any)
        put_note(n, "note", "33",
                 "ERROR in the table: the stack could not be read beyond that point, for the "
                 "reason after it (heapwise explain cut-stacks)");
}

/* ---- what the recorder noted about the process ---- */

static int put_recorded(struct notes *n)
{
    const struct hw_report_data *d = n->d;
    const struct hw_strings *strings = hw_callsites_strings(d->p->callsites);
    struct hw_strbuf start = {0}, text = {0};
    hw_strbuf_addf(&start, "trace_attribute.note.%lld.",
                   (long long)d->p->processes.v[d->upid.v].pid);
    for (size_t i = 0; i < d->p->metadata.n && !start.failed && !text.failed; i++) {
        const struct hw_metadata_row *m = &d->p->metadata.v[i];
        struct hw_bytes name = hw_strings_get(strings, m->name),
                        said = hw_strings_get(strings, m->text);
        if (name.n <= start.n || memcmp(name.p, start.p, start.n) != 0 || said.n == 0)
            continue;
        hw_strbuf_clear(&text);
        hw_strbuf_add_escaped(&text, said.p, said.n);
        put_note(n, "note", "33", text.p ? text.p : "");
    }
    int rc = start.failed || text.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&start);
    hw_strbuf_done(&text);
    return rc;
}

/* "live 0 B" alone looks like a measurement. */
static void put_nothing(struct notes *n)
{
    const struct hw_report_data *d = n->d;
    if (d->n_samples == 0 && d->n_lost == 0 && d->now.total.alloc_space == 0 && d->beside.n == 0)
        put_note(n, "note", "33",
                 "no allocation of this process was seen: it made almost none (--exact sees all), "
                 "or its calls bypass the library: its allocator is linked into it, or "
                 "LD_PRELOAD names another one before libheapprofd_glibc_preload.so, which must "
                 "be the first");
}

int hw_report_notes(const struct hw_report_data *d, FILE *out)
{
    struct notes n = {.d = d, .out = out};
    int rc = put_losses(&n);
    if (rc == HW_OK)
        rc = put_recorded(&n);
    if (rc == HW_OK)
        rc = put_triggers(&n);
    put_shared_names(&n);
    if (rc == HW_OK)
        rc = put_nameless(&n);
    put_errors(&n);
    put_nothing(&n);
    put_runtimes(&n);
    return rc;
}
