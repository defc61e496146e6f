/* rows_write.h - RowBinary written by hand, and a source that answers with it */
#ifndef HW_TESTS_UNIT_FLEET_ROWS_WRITE_H
#define HW_TESTS_UNIT_FLEET_ROWS_WRITE_H

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "fleet/query/fleet_result.h"

static inline void put_u64(struct hw_strbuf *b, uint64_t v)
{
    hw_strbuf_add(b, &v, sizeof v);
}

static inline void put_u32(struct hw_strbuf *b, uint32_t v)
{
    hw_strbuf_add(b, &v, sizeof v);
}

static inline void put_real(struct hw_strbuf *b, double v)
{
    hw_strbuf_add(b, &v, sizeof v);
}

static inline void put_text(struct hw_strbuf *b, const char *s)
{
    hw_strbuf_addc(b, (char)strlen(s)); /* < 128 */
    hw_strbuf_adds(b, s);
}

/* "main;work;leaf", all in /bin/app, file a.c, lines 1, 2, 3 */
static inline void put_stack(struct hw_strbuf *b, uint64_t hash, const char *stack)
{
    struct hw_strbuf part[4] = {0};
    char n = 0;
    for (const char *p = stack; *p; n++) {
        char name[64];
        size_t len = strcspn(p, ";");
        memcpy(name, p, len);
        name[len] = 0;
        put_text(&part[0], name);
        put_text(&part[1], "/bin/app");
        put_text(&part[2], "a.c");
        put_u32(&part[3], (uint32_t)n + 1);
        p += len + (p[len] == ';');
    }
    put_u64(b, hash);
    for (int i = 0; i < 4; i++) {
        hw_strbuf_addc(b, n);
        hw_strbuf_add(b, part[i].p, part[i].n);
        hw_strbuf_done(&part[i]);
    }
}

static inline void put_moments(struct hw_strbuf *b, uint64_t dumps, uint64_t processes)
{
    put_u64(b, dumps);
    put_u64(b, processes);
    put_u64(b, 1);    /* hosts */
    put_u64(b, 100);  /* rows */
    put_u32(b, 1000); /* first */
    put_u32(b, 2000); /* last */
    put_u32(b, 4096);
}

/* Answers by what a statement has in it. */
struct canned {
    const char *word;
    struct hw_strbuf reply;
};

struct canned_source {
    struct canned v[8];
    size_t n;
};

static inline int canned_ask(void *ctx, const char *sql, struct hw_strbuf *reply,
                             struct hw_error *err)
{
    const struct canned_source *s = ctx;
    for (size_t i = 0; i < s->n; i++) {
        if (!strstr(sql, s->v[i].word))
            continue;
        hw_strbuf_add(reply, s->v[i].reply.p, s->v[i].reply.n);
        return HW_OK;
    }
    return hw_fail(err, HW_EGONE, 0, "nothing to say to: %s", sql);
}

static inline struct hw_strbuf *canned_add(struct canned_source *s, const char *word)
{
    s->v[s->n] = (struct canned){.word = word};
    return &s->v[s->n++].reply;
}

static inline void canned_done(struct canned_source *s)
{
    for (size_t i = 0; i < s->n; i++)
        hw_strbuf_done(&s->v[i].reply);
}

#endif
