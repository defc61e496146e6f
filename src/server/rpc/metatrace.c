#include "server/rpc/metatrace.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/vec.h"
#include "base/text/utf8.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

#define P(name) HW_F_TracePacket_##name
#define E(name) HW_F_TrackEvent_##name
#define T(name) HW_F_TrackDescriptor_##name

enum { MAX_EVENTS = 256 << 10, MAX_TEXT = 4096, SEQUENCE = 1 };

struct event {
    const char *name; /* NULL: the end of a span */
    char *text;       /* owned; NULL = none */
    uint64_t ns;
    int tid;
};

struct hw_metatrace {
    pthread_mutex_t lock;
    bool enabled;
    HW_VEC(struct event) events;
};

int hw_metatrace_new(struct hw_metatrace **out)
{
    struct hw_metatrace *m = calloc(1, sizeof *m);
    if (!m)
        return HW_ENOMEM;
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return HW_OK;
}

static void clear(struct hw_metatrace *m)
{
    for (size_t i = 0; i < m->events.n; i++)
        free(m->events.v[i].text);
    hw_vec_done(&m->events);
}

void hw_metatrace_free(struct hw_metatrace *m)
{
    if (!m)
        return;
    clear(m);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void hw_metatrace_enable(struct hw_metatrace *m)
{
    pthread_mutex_lock(&m->lock);
    clear(m);
    m->enabled = true;
    pthread_mutex_unlock(&m->lock);
}

static void add(struct hw_metatrace *m, const char *name, struct hw_bytes text)
{
    struct event e = {name, NULL, hw_now_boottime_ns(), (int)syscall(SYS_gettid)};
    pthread_mutex_lock(&m->lock);
    /* Half is reserved for the ends of open spans. */
    size_t max = name ? MAX_EVENTS / 2 : MAX_EVENTS;
    if (m->enabled && m->events.n < max) {
        if (text.n)
            e.text = strndup((const char *)text.p, text.n < MAX_TEXT ? text.n : MAX_TEXT);
        if (hw_vec_push(&m->events, e) < 0)
            free(e.text);
    }
    pthread_mutex_unlock(&m->lock);
}

void hw_metatrace_begin(struct hw_metatrace *m, const char *name, struct hw_bytes text)
{
    if (m)
        add(m, name, text);
}

void hw_metatrace_end(struct hw_metatrace *m)
{
    if (m)
        add(m, NULL, hw_bytes_of(NULL, 0));
}

/* ---- the trace ---- */

static void put_track(struct hw_pb *w, int tid)
{
    hw_pb_begin(w, HW_F_Trace_packet);
    hw_pb_uint(w, P(trusted_packet_sequence_id), SEQUENCE);
    hw_pb_begin(w, P(track_descriptor));
    hw_pb_uint(w, T(uuid), (uint64_t)tid);
    hw_pb_begin(w, T(process));
    hw_pb_uint(w, HW_F_ProcessDescriptor_pid, (uint64_t)getpid());
    hw_pb_str(w, HW_F_ProcessDescriptor_process_name, "trace processor");
    hw_pb_end(w);
    hw_pb_begin(w, T(thread));
    hw_pb_uint(w, HW_F_ThreadDescriptor_pid, (uint64_t)getpid());
    hw_pb_uint(w, HW_F_ThreadDescriptor_tid, (uint64_t)tid);
    hw_pb_end(w);
    hw_pb_end(w);
    hw_pb_end(w);
}

static void put_event(struct hw_pb *w, const struct event *e)
{
    hw_pb_begin(w, HW_F_Trace_packet);
    hw_pb_uint(w, P(timestamp), e->ns);
    hw_pb_uint(w, P(trusted_packet_sequence_id), SEQUENCE);
    hw_pb_begin(w, P(track_event));
    hw_pb_uint(w, E(track_uuid), (uint64_t)e->tid);
    hw_pb_uint(w, E(type),
               e->name ? HW_V_TrackEvent_Type_TYPE_SLICE_BEGIN
                       : HW_V_TrackEvent_Type_TYPE_SLICE_END);
    if (e->name)
        hw_pb_str(w, E(name), e->name);
    if (e->text && hw_utf8_valid(e->text, strlen(e->text))) {
        hw_pb_begin(w, E(debug_annotations));
        hw_pb_str(w, HW_F_DebugAnnotation_name, "text");
        hw_pb_str(w, HW_F_DebugAnnotation_string_value, e->text);
        hw_pb_end(w);
    }
    hw_pb_end(w);
    hw_pb_end(w);
}

static void put_all(const struct hw_metatrace *m, struct hw_pb *w)
{
    HW_VEC(int) tids = {0};
    for (size_t i = 0; i < m->events.n; i++) {
        const struct event *e = &m->events.v[i];
        size_t k = 0;
        while (k < tids.n && tids.v[k] != e->tid)
            k++;
        if (k == tids.n && hw_vec_push(&tids, e->tid) == 0)
            put_track(w, e->tid);
        put_event(w, e);
    }
    hw_vec_done(&tids);
}

int hw_metatrace_take(struct hw_metatrace *m, struct hw_strbuf *out)
{
    struct hw_pb w = {0};
    pthread_mutex_lock(&m->lock);
    bool was = m->enabled;
    m->enabled = false;
    if (was)
        put_all(m, &w);
    clear(m);
    pthread_mutex_unlock(&m->lock);
    hw_strbuf_add(out, w.buf.p, w.buf.n);
    bool failed = hw_pb_failed(&w) || out->failed;
    hw_pb_done(&w);
    if (!was)
        return HW_EINVAL;
    return failed ? HW_ENOMEM : HW_OK;
}
