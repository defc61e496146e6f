#include "cli/query/query_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#include "base/banned.h"

enum { PAGE_ROWS = 32 };

void hw_query_out_init(struct hw_query_out *o)
{
    *o = (struct hw_query_out){.width = 32, .terminal = isatty(STDOUT_FILENO) != 0};
}

static void clear_page(struct hw_query_out *o)
{
    for (size_t i = 0; i < o->page.n; i++)
        free(o->page.v[i]);
    hw_vec_clear(&o->page);
}

void hw_query_out_done(struct hw_query_out *o)
{
    clear_page(o);
    hw_vec_done(&o->page);
    hw_strbuf_done(&o->line);
}

static void add_text(struct hw_query_out *o, const void *p, size_t n)
{
    if (o->terminal || o->columns)
        hw_strbuf_add_escaped(&o->line, p, n);
    else
        hw_strbuf_add(&o->line, p, n);
}

static void add_cell(struct hw_query_out *o, const struct hw_sql_cell *c)
{
    const char *quote = o->columns ? "" : "\"";
    switch (c->type) {
    case HW_SQL_NULL:
        hw_strbuf_addf(&o->line, "%s[NULL]%s", quote, quote);
        break;
    case HW_SQL_INT:
        hw_strbuf_addf(&o->line, "%" PRId64, c->i);
        break;
    case HW_SQL_REAL:
        hw_strbuf_addf(&o->line, "%f", c->d);
        break;
    case HW_SQL_TEXT:
        hw_strbuf_adds(&o->line, quote);
        add_text(o, c->p, c->n);
        hw_strbuf_adds(&o->line, quote);
        break;
    case HW_SQL_BLOB:
        hw_strbuf_addf(&o->line, "%s<raw bytes>%s", quote, quote);
        break;
    }
}

/* ---- CSV ---- */

static int put_line(struct hw_query_out *o)
{
    hw_strbuf_addc(&o->line, '\n');
    if (o->line.failed)
        return HW_ENOMEM;
    /* A full disk or closed pipe shows at the end of the command. */
    return fwrite(o->line.p, 1, o->line.n, stdout) == o->line.n ? HW_OK : HW_ESYS;
}

static int csv_begin(struct hw_query_out *o, size_t n, const char *const *names)
{
    hw_strbuf_clear(&o->line);
    if (o->n_results++)
        hw_strbuf_addc(&o->line, '\n');
    if (o->file)
        hw_strbuf_adds(&o->line, "\"trace_file\"");
    for (size_t i = 0; i < n; i++) {
        hw_strbuf_adds(&o->line, i || o->file ? ",\"" : "\"");
        add_text(o, names[i], strlen(names[i]));
        hw_strbuf_addc(&o->line, '"');
    }
    o->head_bytes = o->line.n + 1;
    return put_line(o);
}

static int csv_row(struct hw_query_out *o, size_t n, const struct hw_sql_cell *cells)
{
    hw_strbuf_clear(&o->line);
    if (o->file) {
        hw_strbuf_addc(&o->line, '"');
        add_text(o, o->file, strlen(o->file));
        hw_strbuf_addc(&o->line, '"');
    }
    for (size_t i = 0; i < n; i++) {
        if (i || o->file)
            hw_strbuf_addc(&o->line, ',');
        add_cell(o, &cells[i]);
    }
    return put_line(o);
}

/* ---- columns ---- */

static size_t characters(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* At most max characters of s, in bytes. */
static int cut(const char *s, size_t max)
{
    const char *at = s;
    while (*at && (max > 0 || ((unsigned char)*at & 0xc0) == 0x80)) {
        if (((unsigned char)*at & 0xc0) != 0x80)
            max--;
        at++;
    }
    return (int)(at - s);
}

static int print_page(struct hw_query_out *o)
{
    size_t n = o->n_columns;
    size_t *widths = calloc(n + 1, sizeof *widths);
    if (!widths)
        return HW_ENOMEM;
    for (size_t i = 0; i < o->page.n; i++) {
        size_t w = characters(o->page.v[i]);
        if (w > o->width)
            w = o->width;
        if (w > widths[i % n])
            widths[i % n] = w;
    }
    for (size_t i = 0; i < o->page.n; i++) {
        const char *s = o->page.v[i];
        int bytes = cut(s, widths[i % n]);
        size_t shown = characters(s) < widths[i % n] ? characters(s) : widths[i % n];
        bool last = i % n == n - 1;
        printf("%.*s%*s%s", bytes, s, last ? 0 : (int)(widths[i % n] - shown), "",
               last ? "\n" : " ");
        if (i == n - 1) /* below the heading */
            for (size_t k = 0; k < n; k++) {
                for (size_t j = 0; j < widths[k]; j++)
                    putchar('-');
                putchar(k == n - 1 ? '\n' : ' ');
            }
    }
    free(widths);
    return HW_OK;
}

static int keep(struct hw_query_out *o)
{
    char *text = hw_strbuf_take(&o->line);
    o->line = (struct hw_strbuf){0};
    if (!text || hw_vec_push(&o->page, text) < 0) {
        free(text);
        return HW_ENOMEM;
    }
    return HW_OK;
}

static int table_begin(struct hw_query_out *o, size_t n, const char *const *names)
{
    int rc = HW_OK;
    clear_page(o);
    o->n_results++;
    o->n_columns = n;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        add_text(o, names[i], strlen(names[i]));
        rc = keep(o);
    }
    return rc;
}

/* 1 = the user quits. */
static int ask(struct hw_query_out *o)
{
    char answer[64];
    if (!o->asks)
        return 0;
    fputs("Type 'q' to stop, Enter for more records: ", stdout);
    (void)fflush(stdout);
    return !fgets(answer, sizeof answer, stdin) || answer[0] == 'q';
}

static int turn_page(struct hw_query_out *o)
{
    int rc = print_page(o);
    if (rc == HW_OK)
        rc = ask(o);
    for (size_t i = o->n_columns; i < o->page.n; i++)
        free(o->page.v[i]);
    if (o->page.n > o->n_columns)
        o->page.n = o->n_columns; /* the heading stays for the next page */
    return rc;
}

static int table_row(struct hw_query_out *o, size_t n, const struct hw_sql_cell *cells)
{
    int rc = HW_OK;
    if (o->page.n >= n * (PAGE_ROWS + 1))
        rc = turn_page(o);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        add_cell(o, &cells[i]);
        rc = keep(o);
    }
    return rc;
}

/* ---- the sink ---- */

static int begin(void *ctx, size_t n, const char *const *names)
{
    struct hw_query_out *o = ctx;
    o->suppressed = false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], "suppress_query_output") == 0)
            o->suppressed = true;
    if (o->suppressed)
        return HW_OK;
    return o->columns ? table_begin(o, n, names) : csv_begin(o, n, names);
}

static int row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    struct hw_query_out *o = ctx;
    if (o->suppressed)
        return HW_OK;
    return o->columns ? table_row(o, n, cells) : csv_row(o, n, cells);
}

static int end(void *ctx)
{
    struct hw_query_out *o = ctx;
    if (o->suppressed || !o->columns)
        return HW_OK;
    int rc = print_page(o);
    clear_page(o);
    return rc;
}

struct hw_sql_sink hw_query_out_sink(struct hw_query_out *o)
{
    return (struct hw_sql_sink){begin, row, end, o};
}
