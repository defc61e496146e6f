#include "java/holders.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "java/cursor.h"

#include "base/banned.h"

struct hw_java_holders {
    char *text; /* owned */
    HW_VEC(struct hw_java_thread) threads;
    HW_VEC(struct hw_java_frame) frames;
    uint64_t n_lost;
};

/* A row is at least three bytes, so what is pushed is bounded by the text. */
static int parse(struct hw_java_holders *h, struct hw_java_cursor *c)
{
    for (uint64_t left = hw_java_get(c); left && !c->bad; left--) {
        struct hw_java_thread t = {.id = hw_java_get(c), .is_daemon = hw_java_get(c) != 0};
        t.name = hw_java_get_text(c);
        if (!c->bad && hw_vec_push(&h->threads, t) < 0)
            return HW_ENOMEM;
    }
    for (uint64_t left = c->bad ? 0 : hw_java_get(c); left && !c->bad; left--) {
        struct hw_java_frame f = {.function = hw_java_get_text(c)};
        f.file = hw_java_get_text(c);
        uint64_t line = hw_java_get(c);
        f.line = line > INT32_MAX ? 0 : (uint32_t)line;
        uint64_t method = hw_java_get(c);
        if (method <= HW_JAVA_METHOD_NATIVE)
            f.method = (enum hw_java_method)method;
        if (!c->bad && hw_vec_push(&h->frames, f) < 0)
            return HW_ENOMEM;
    }
    if (!c->bad && c->p < c->end)
        h->n_lost = hw_java_get(c);
    return c->bad ? HW_EFORMAT : HW_OK;
}

int hw_java_holders_parse(char *text, size_t n, struct hw_java_holders **out, struct hw_error *err)
{
    struct hw_java_holders *h = calloc(1, sizeof *h);
    struct hw_java_cursor c = {(const uint8_t *)text, (const uint8_t *)text + n, false};
    if (!h) {
        free(text);
        return hw_fail(err, HW_ENOMEM, 0, "threads of a JVM");
    }
    h->text = text;
    int rc = parse(h, &c);
    if (rc < 0) {
        hw_java_holders_free(h);
        return hw_fail(err, rc, 0, "threads of a JVM:");
    }
    *out = h;
    return HW_OK;
}

void hw_java_holders_free(struct hw_java_holders *h)
{
    if (!h)
        return;
    free(h->text);
    hw_vec_done(&h->threads);
    hw_vec_done(&h->frames);
    free(h);
}

uint64_t hw_java_holders_lost(const struct hw_java_holders *h)
{
    return h ? h->n_lost : 0;
}

size_t hw_java_holders_threads(const struct hw_java_holders *h)
{
    return h ? h->threads.n : 0;
}

size_t hw_java_holders_frames(const struct hw_java_holders *h)
{
    return h ? h->frames.n : 0;
}

const struct hw_java_thread *hw_java_holders_thread(const struct hw_java_holders *h, size_t number)
{
    return number && number <= hw_java_holders_threads(h) ? &h->threads.v[number - 1] : NULL;
}

const struct hw_java_frame *hw_java_holders_frame(const struct hw_java_holders *h, size_t number)
{
    return number && number <= hw_java_holders_frames(h) ? &h->frames.v[number - 1] : NULL;
}
