/*
 * Marks: moments that a user named while a session ran. They are packets of the session's file and
 *        change nothing else: no dump is made, no process is told.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "base/text/utf8.h"
#include "daemon/core.h"
#include "trace/process_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

#define MAX_MARKS 10000u /* a loop that marks must not fill the disk */

/* When it happened, by the asker's clock; the message may have taken a while. */
static uint64_t when(const struct hw_session *s, uint64_t asked_ns)
{
    uint64_t now = hw_now_boottime_ns(), age = hw_now_monotonic_ns() - s->started_ns;
    bool within = asked_ns <= now && now - asked_ns <= age;
    return within ? asked_ns : now;
}

static void write_mark(struct hw_session *s, uint64_t boottime_ns, const char *text)
{
    struct hw_error err = {0};
    bool first = s->mark_sequence == 0;
    if (first)
        s->mark_sequence = hw_trace_writer_sequence(s->writer);
    int rc = hw_trace_mark(s->writer, s->mark_sequence, boottime_ns, text, first, &err);
    if (rc < 0)
        hw_session_write_failed(s, rc, &err);
}

void hw_handle_mark(struct hw_control_conn *c, uint64_t id, struct hw_bytes body)
{
    struct hw_control_mark m;
    struct hw_strbuf text = {0};
    struct hw_session *s = hw_control_session(c, id);
    if (!s || s->stopping) {
        hw_control_fail(c, s ? "the recording is ending: no mark was made" : "no such session");
        return;
    }
    if (body.n <= sizeof m || body.n - sizeof m > HW_MARK_MAX_BYTES) {
        hw_control_fail(c, "a mark needs a name of 1 to 200 bytes");
        return;
    }
    if (s->n_marks == MAX_MARKS) {
        hw_control_fail(c, "this recording already has 10000 marks, which is the limit");
        return;
    }
    memcpy(&m, body.p, sizeof m);
    hw_utf8_add_clean(&text, body.p + sizeof m, body.n - sizeof m);
    if (text.failed)
        hw_control_fail(c, "no memory for a mark");
    else
        write_mark(s, when(s, m.boottime_ns), text.p);
    s->n_marks += !text.failed;
    hw_strbuf_done(&text);
}
