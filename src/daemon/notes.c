#include "daemon/notes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/core.h"
#include "trace/process_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

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

void hw_note(struct hw_target *t, const char *key, const char *fmt, ...)
{
    char text[448];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap); /* what is too long is cut */
    va_end(ap);
    hw_session_warn(t->session, "pid %d: %s", t->pid.pid, text);
    keep(&t->notes, key, text);
}

static void count_unclear(struct hw_target *t, const struct hw_snapshot *s)
{
    char text[160];
    if (s->python_unclear == 0 || s->broken)
        return;
    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " samples of Python show the interpreter's own functions only: its "
                   "frames did not fit the native stack",
                   s->python_unclear);
    keep(&t->notes, "python_unclear", text);
}

int hw_notes_write(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    int rc = HW_OK;
    count_unclear(t, s);
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
