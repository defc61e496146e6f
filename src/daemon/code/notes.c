#include "daemon/code/notes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "daemon/core.h"
#include "trace/process_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { MAX_TEXT = 448 };

/* Without memory there is no note; the user was told all the same. */
static void keep(hw_notes *notes, const char *key, const char *text)
{
    for (size_t i = 0; i < notes->n; i++) {
        struct hw_note *n = &notes->v[i];
        if (strcmp(n->key, key) != 0)
            continue;
        char *fresh = strcmp(n->text, text) == 0 ? NULL : strdup(text);
        if (fresh) {
            free(n->text);
            n->text = fresh;
            n->is_written = false;
        }
        return;
    }
    struct hw_note n = {.key = key, .text = strdup(text)};
    if (!n.text || hw_vec_push(notes, n) < 0)
        free(n.text);
}

__attribute__((format(printf, 3, 4))) static void keepf(hw_notes *notes, const char *key,
                                                        const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    keep(notes, key, text);
}

void hw_note(struct hw_target *t, const char *key, const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap); /* what is too long is cut */
    va_end(ap);
    hw_session_warn(t->session, "pid %d: %s", t->pid.pid, text);
    keep(&t->notes, key, text);
}

static void count_unclear(struct hw_target *t, const struct hw_snapshot *s)
{
    static const struct {
        const char *key, *language, *why;
    } kinds[HW_MANAGED_KIND_COUNT] = {
        [HW_MANAGED_PYTHON] = {"python_unclear", "Python", ""},
        [HW_MANAGED_RUBY] = {"ruby_unclear", "Ruby",
                             ", or could not be read then (a thread without Ruby's lock, or while "
                             "its heap was compacted)"},
        [HW_MANAGED_PHP] = {"php_unclear", "PHP", ""},
    };
    uint32_t kind = t->interpreter ? t->interpreter_kind : HW_MANAGED_PYTHON;
    if (s->frames_unclear && !s->broken)
        keepf(&t->notes, kinds[kind].key,
              "%" PRIu64 " samples of %s show the interpreter's own functions only: its frames did "
              "not fit the native stack%s",
              s->frames_unclear, kinds[kind].language, kinds[kind].why);
}

/* Why Python's objects are not there, or not all. */
static void say_objects(struct hw_target *t, const struct hw_snapshot *s)
{
    const char *why = s->objects == HW_RING_OBJECTS_OTHERS
                          ? "other functions than CPython's own serve them (PYTHONMALLOC=debug or "
                            "tracemalloc, started before)"
                      : s->objects == HW_RING_OBJECTS_UNKNOWN
                          ? "this interpreter's table of allocators is not as expected"
                          : NULL;
    if (why && !s->broken)
        keepf(&t->notes, "python_objects",
              "Python's objects are not recorded (python.alloc): %s; record --python-allocators "
              "shows them as malloc's",
              why);
    if (s->objects == HW_RING_OBJECTS_LOST && !s->broken)
        keepf(&t->notes, "python_objects",
              "Python's objects were recorded until the program replaced its allocators: "
              "python.alloc stays as it was then");
}

/* Adds ": 3 whose stack …, 1 during …"; gives how many they are together. */
static uint64_t add_reasons(struct hw_strbuf *out, const struct hw_snapshot *s)
{
    const struct {
        uint64_t n;
        const char *why;
    } reasons[] = {
        {s->managed_unwalkable, "whose stack the JVM could not walk"},
        {s->managed_collecting, "during garbage collection"},
        {s->managed_anchor, "of threads that entered or left Java just then"},
        {s->managed_not_asked, "in a signal handler, or while the JVM ended"},
        {s->managed_otherwise, "that the JVM refused otherwise"},
        {s->managed_copied, "whose stack was unwound later, from a copy of it"},
    };
    uint64_t sum = 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(reasons); i++) {
        if (reasons[i].n)
            hw_strbuf_addf(out, "%s%" PRIu64 " %s", sum ? ", " : ": ", reasons[i].n,
                           reasons[i].why);
        sum += reasons[i].n;
    }
    return sum;
}

/* How many of its samples lack their Java functions, and why. None: nothing to say. */
static void count_java(struct hw_target *t, const struct hw_snapshot *s)
{
    struct hw_strbuf why = {0}, text = {0};
    if (!t->is_jvm || s->managed_asked == 0 || s->broken)
        return;
    uint64_t lost = add_reasons(&why, s);
    uint64_t early = s->n_samples > s->managed_asked ? s->n_samples - s->managed_asked : 0;
    if (lost)
        hw_strbuf_addf(&text, "%" PRIu64 " of its %" PRIu64 " samples lack their Java functions%s",
                       lost, s->n_samples, why.p && !why.failed ? why.p : "");
    if (early && lost)
        hw_strbuf_addf(&text, "; %" PRIu64 " were", early);
    else if (early)
        hw_strbuf_addf(&text, "%" PRIu64 " of its %" PRIu64 " samples were", early, s->n_samples);
    if (early)
        hw_strbuf_adds(&text, " taken before the library was in the JVM");
    if (text.n && s->managed_none)
        hw_strbuf_addf(&text, "%s %" PRIu64 " in threads that run no Java", early ? "," : ";",
                       s->managed_none);
    if (text.n && !text.failed)
        keepf(&t->notes, "java_frames", "%s", text.p);
    hw_strbuf_done(&why);
    hw_strbuf_done(&text);
    if (s->managed_unnamed)
        keepf(&t->notes, "java_unnamed",
              "%" PRIu64 " frames of Java are without a name: the table in the JVM, which keeps "
              "each function and line it met, is full",
              s->managed_unnamed);
}

int hw_notes_write(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    int rc = HW_OK;
    count_unclear(t, s);
    say_objects(t, s);
    count_java(t, s);
    for (size_t i = 0; i < t->notes.n && rc == HW_OK; i++) {
        struct hw_note *n = &t->notes.v[i];
        char key[64];
        if (n->is_written)
            continue;
        (void)snprintf(key, sizeof key, "note.%d.%s", t->pid.pid, n->key);
        const struct hw_trace_attribute one = {key, n->text};
        struct hw_trace_writer *w = t->session->writer;
        if (!t->session->note_sequence)
            t->session->note_sequence = hw_trace_writer_sequence(w);
        rc = hw_trace_attributes(w, t->session->note_sequence, hw_now_boottime_ns(), &one, 1, err);
        n->is_written = rc == HW_OK;
    }
    return rc;
}

void hw_notes_done(hw_notes *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->v[i].text);
    hw_vec_done(n);
}
