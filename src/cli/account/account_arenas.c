#include "cli/account/account_arenas.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "config/command/units.h"

#include "base/banned.h"

enum { COL_BYTES = 11, COL_THREADS = 9 };

static void put_figures(const struct hw_malloc_arena *a)
{
    const int64_t figures[] = {a->system_bytes, a->in_use_bytes, a->free_bytes,      a->top_bytes,
                               a->cached_bytes, a->fast_bytes,   a->returnable_bytes};
    char buf[HW_UNIT_MAX];
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        printf("%*s", COL_BYTES,
               figures[i] < 0 || (i && a->state) ? "-" : hw_fmt_bytes(buf, (double)figures[i]));
    printf("%*lld  ", COL_THREADS, (long long)a->threads);
}

static void put_row(const struct hw_malloc_arena *a)
{
    put_figures(a);
    if (a->is_main)
        printf("main");
    else
        printf("%u", (unsigned)a->number);
    if (a->state)
        printf(": %s", hw_arena_why(a));
    putchar('\n');
}

void hw_account_arenas_put(const struct hw_arenas *a, const char *at_text, size_t top)
{
    size_t n = top && top < a->n ? top : a->n;
    hw_autofree const struct hw_malloc_arena **rows = calloc(a->n + 1, sizeof *rows);
    if (!hw_arenas_are_worth_a_table(a) || !rows)
        return;
    hw_arenas_by_unused(a, rows);
    printf("\nmalloc's arenas at %s, by what is not in use (RETURNS: what malloc_trim would give "
           "back)\n",
           at_text);
    printf("%*s%*s%*s%*s%*s%*s%*s%*s  ARENA\n", COL_BYTES, "SYSTEM", COL_BYTES, "IN USE", COL_BYTES,
           "FREE", COL_BYTES, "TOP", COL_BYTES, "CACHED", COL_BYTES, "FAST", COL_BYTES, "RETURNS",
           COL_THREADS, "THREADS");
    for (size_t i = 0; i < n; i++)
        put_row(rows[i]);
    if (n < a->n)
        printf("%*s  %zu more (--top 0: all)\n", 7 * COL_BYTES + COL_THREADS, "", a->n - n);
    if (a->n - a->n_unknown > 1) {
        put_figures(&a->sum);
        printf("all%s\n", a->n_unknown ? " that are known" : "");
    }
}

void hw_account_arenas_json(const struct hw_arenas *a, int64_t at_ns, struct hw_json *j)
{
    if (a->n == 0)
        return;
    hw_json_kv_int(j, "arenas_at_ns", at_ns);
    hw_json_key(j, "arenas");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->n; i++) {
        const struct hw_malloc_arena *r = &a->v[i];
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "arena", r->number);
        hw_json_kv_bool(j, "main", r->is_main);
        hw_json_kv_int(j, "threads", r->threads);
        if (r->system_bytes >= 0)
            hw_json_kv_int(j, "system_bytes", r->system_bytes);
        if (r->state == HW_ARENA_KNOWN) {
            hw_json_kv_int(j, "in_use_bytes", r->in_use_bytes);
            hw_json_kv_int(j, "free_bytes", r->free_bytes);
            hw_json_kv_int(j, "top_bytes", r->top_bytes);
            if (r->cached_bytes >= 0) /* else in use */
                hw_json_kv_int(j, "cached_bytes", r->cached_bytes);
            hw_json_kv_int(j, "fast_bytes", r->fast_bytes);
            hw_json_kv_int(j, "returnable_bytes", r->returnable_bytes);
            hw_json_kv_int(j, "resident_bytes", r->resident_bytes);
        } else {
            hw_json_kv_str(j, "unknown", hw_arena_why(r));
        }
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}
