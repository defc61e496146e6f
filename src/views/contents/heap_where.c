#include "views/contents/heap_where.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

enum subject { CLASS, BYTES, RETAINED, LENGTH, FIELD };
enum op { EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST, CONTAINS, N_OPS };
enum value_type { TEXT, INTEGER, REAL, NOTHING };
enum { UNKNOWN, YES, NO }; /* of a name: is it the field's? */

static const char *const op_names[N_OPS] = {"=", "!=", "<", "<=", ">", ">=", "~"};

struct condition {
    enum subject subject;
    enum op op;
    enum value_type type;
    struct hw_bytes name, text; /* of the copy */
    int64_t integer;
    double real;
    uint8_t *is_name; /* by string: UNKNOWN, YES, NO; of fields */
    bool has_field;   /* any object has it */
};

struct hw_heap_where {
    char *copy;
    HW_VEC(struct condition) all;
};

/* ---- the text ---- */

struct scanner {
    const char *p, *text;
    struct hw_error *err;
};

static void skip_spaces(struct scanner *s)
{
    while (isspace((unsigned char)*s->p))
        s->p++;
}

static int refuse(const struct scanner *s, const char *what)
{
    return hw_fail(s->err, HW_EINVAL, 0, "'%s': %s at '%s'", s->text, what,
                   *s->p ? s->p : "the end");
}

static bool is_op_char(char c)
{
    return c && strchr("=!<>~", c) != NULL;
}

static int scan_name(struct scanner *s, struct hw_bytes *out)
{
    skip_spaces(s);
    const char *from = s->p;
    while (*s->p && !isspace((unsigned char)*s->p) && !is_op_char(*s->p))
        s->p++;
    *out = hw_bytes_of((const uint8_t *)from, (size_t)(s->p - from));
    return out->n ? HW_OK : refuse(s, "a class or field is missing");
}

static int scan_op(struct scanner *s, enum op *out)
{
    size_t best = 0;
    skip_spaces(s);
    for (int op = 0; op < N_OPS; op++) {
        size_t n = strlen(op_names[op]);
        if (n > best && strncmp(s->p, op_names[op], n) == 0) {
            *out = (enum op)op;
            best = n;
        }
    }
    s->p += best;
    return best ? HW_OK : refuse(s, "one of = != < <= > >= ~ is missing");
}

static int scan_value(struct scanner *s, struct hw_bytes *out, bool *is_quoted)
{
    skip_spaces(s);
    char quote = *s->p == '\'' || *s->p == '"' ? *s->p : '\0';
    const char *from = quote ? ++s->p : s->p;
    *is_quoted = quote != '\0';
    while (*s->p && (quote ? *s->p != quote : !isspace((unsigned char)*s->p)))
        s->p++;
    *out = hw_bytes_of((const uint8_t *)from, (size_t)(s->p - from));
    if (quote && *s->p != quote)
        return refuse(s, "a quote is not closed");
    s->p += quote != '\0';
    return out->n || quote ? HW_OK : refuse(s, "a value is missing");
}

/* "and", or the end. */
static int scan_and(struct scanner *s, bool *more)
{
    skip_spaces(s);
    *more = *s->p != '\0';
    if (!*more)
        return HW_OK;
    if (strncasecmp(s->p, "and", 3) != 0 || !isspace((unsigned char)s->p[3]))
        return refuse(s, "'and' is missing");
    s->p += 3;
    return HW_OK;
}

static bool is_word(struct hw_bytes b, const char *word)
{
    return hw_bytes_equal(b, hw_bytes_str(word));
}

static enum subject subject_of(struct hw_bytes name)
{
    return is_word(name, "class")       ? CLASS
           : is_word(name, "@bytes")    ? BYTES
           : is_word(name, "@retained") ? RETAINED
           : is_word(name, "@length")   ? LENGTH
                                        : FIELD;
}

/* What a word means that is not quoted: a number, true, false, null, else a text. */
static void read_value(struct condition *c)
{
    char text[64], *end;
    size_t n = c->text.n;
    int shift = 0;
    c->type = TEXT;
    if (n == 0 || n >= sizeof text)
        return;
    memcpy(text, c->text.p, n);
    text[n] = '\0';
    if (is_word(c->text, "null"))
        c->type = NOTHING;
    if (is_word(c->text, "true") || is_word(c->text, "false")) {
        c->type = INTEGER;
        c->integer = text[0] == 't';
    }
    if (!strchr("0123456789+-.", text[0]))
        return;
    if (c->subject == BYTES || c->subject == RETAINED) {
        char unit = (char)toupper((unsigned char)text[n - 1]);
        shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
        text[shift ? n - 1 : n] = '\0';
    }
    errno = 0;
    int64_t integer = strtoll(text, &end, 10);
    if (*text && !*end && !errno &&
        !__builtin_mul_overflow(integer, INT64_C(1) << shift, &integer)) {
        c->type = INTEGER;
        c->integer = integer;
        return;
    }
    c->real = strtod(text, &end) * (double)(INT64_C(1) << shift);
    if (*text && !*end)
        c->type = REAL;
}

static int refuse_condition(const struct scanner *s, const struct condition *c, const char *what)
{
    return hw_fail(s->err, HW_EINVAL, 0, "'%s', '%.*s': %s", s->text, (int)c->name.n,
                   (const char *)c->name.p, what);
}

static int check(const struct scanner *s, const struct condition *c)
{
    bool is_ordered = c->op >= LESS && c->op <= AT_LEAST;
    if (c->name.p[0] == '@' && c->subject == FIELD)
        return refuse_condition(s, c, "only @bytes, @retained and @length begin with @");
    if ((c->subject == BYTES || c->subject == RETAINED || c->subject == LENGTH) &&
        c->type != INTEGER && c->type != REAL)
        return refuse_condition(s, c, "its value has to be a number");
    if (is_ordered && (c->subject == CLASS || c->type == TEXT || c->type == NOTHING))
        return refuse_condition(s, c, "texts and null have no order: = != ~");
    if (c->op == CONTAINS && c->type != TEXT)
        return refuse_condition(s, c, "~ takes a text; a number has to be quoted");
    return HW_OK;
}

static int scan_condition(struct scanner *s, struct condition *c)
{
    bool is_quoted = false;
    int rc = scan_name(s, &c->name);
    if (rc == HW_OK)
        rc = scan_op(s, &c->op);
    if (rc == HW_OK)
        rc = scan_value(s, &c->text, &is_quoted);
    if (rc < 0)
        return rc;
    c->subject = subject_of(c->name);
    if (!is_quoted && c->subject != CLASS)
        read_value(c);
    return check(s, c);
}

int hw_heap_where_parse(const char *text, struct hw_heap_where **out, struct hw_error *err)
{
    struct hw_heap_where *w = calloc(1, sizeof *w);
    if (w)
        w->copy = strdup(text);
    if (!w || !w->copy) {
        hw_heap_where_free(w);
        return hw_fail(err, HW_ENOMEM, 0, "conditions:");
    }
    struct scanner s = {w->copy, w->copy, err};
    int rc = HW_OK;
    for (bool more = true; rc == HW_OK && more;) {
        struct condition c = {.type = TEXT};
        rc = scan_condition(&s, &c);
        if (rc == HW_OK)
            rc = scan_and(&s, &more);
        if (rc == HW_OK && hw_vec_push(&w->all, c) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "conditions:");
    }
    if (rc < 0) {
        hw_heap_where_free(w);
        return rc;
    }
    *out = w;
    return HW_OK;
}

void hw_heap_where_free(struct hw_heap_where *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->all.n; i++)
        free(w->all.v[i].is_name);
    hw_vec_done(&w->all);
    free(w->copy);
    free(w);
}

/* ---- one object ---- */

static bool holds(enum op op, int order)
{
    switch (op) {
    case EQUAL:
        return order == 0;
    case UNEQUAL:
        return order != 0;
    case LESS:
        return order < 0;
    case AT_MOST:
        return order <= 0;
    case MORE:
        return order > 0;
    case AT_LEAST:
        return order >= 0;
    case CONTAINS:
    case N_OPS:
        break;
    }
    return false;
}

static bool integer_holds(const struct condition *c, int64_t v)
{
    if (c->type == INTEGER)
        return holds(c->op, (v > c->integer) - (v < c->integer));
    return c->type == REAL && holds(c->op, ((double)v > c->real) - ((double)v < c->real));
}

static bool real_holds(const struct condition *c, double v)
{
    double want = c->type == INTEGER ? (double)c->integer : c->real;
    if (c->type == TEXT || c->type == NOTHING)
        return false;
    if (v != v) /* no number: unequal to all */
        return c->op == UNEQUAL;
    return holds(c->op, (v > want) - (v < want));
}

static bool contains(struct hw_bytes in, struct hw_bytes what)
{
    return what.n == 0 || (in.n >= what.n && memmem(in.p, in.n, what.p, what.n) != NULL);
}

static bool text_holds(const struct condition *c, struct hw_bytes v)
{
    if (c->op == CONTAINS)
        return contains(v, c->text);
    return holds(c->op, hw_bytes_equal(v, c->text) ? 0 : 1);
}

/* "java.util.HashMap.size", or only its end "size". */
static bool is_field(struct condition *c, const struct hw_strings *strings, hw_str_id id)
{
    if (c->is_name[id.v] == UNKNOWN) {
        struct hw_bytes full = hw_strings_get(strings, id), want = c->name;
        bool fits = full.n >= want.n && memcmp(full.p + full.n - want.n, want.p, want.n) == 0 &&
                    (full.n == want.n || full.p[full.n - want.n - 1] == '.');
        c->is_name[id.v] = fits ? YES : NO;
    }
    return c->is_name[id.v] == YES;
}

static bool primitive_holds(const struct condition *c, const struct hw_heap_primitive *v)
{
    if (v->type == 'F' || v->type == 'D')
        return real_holds(c, v->real);
    if (v->type == 'C' && c->type == TEXT) /* one letter, as far as it is ASCII */
        return c->text.n == 1 &&
               integer_holds(
                   &(struct condition){.op = c->op, .type = INTEGER, .integer = c->text.p[0]},
                   v->integer);
    return integer_holds(c, v->integer);
}

static bool target_holds(const struct condition *c, const struct hw_strings *strings,
                         const struct hw_heap_graph *g, uint32_t to)
{
    const struct hw_heap_data *d = to == HW_ID_NONE ? NULL : hw_object_data(g, to);
    if (c->type == NOTHING)
        return holds(c->op, to == HW_ID_NONE ? 0 : 1);
    if (!d || !d->has_string || (c->type != TEXT && c->op != EQUAL && c->op != UNEQUAL))
        return false;
    return text_holds(c, hw_strings_get(strings, d->string));
}

/* The field of the class itself comes before those of its superclasses that have the same name. */
static bool field_holds(struct condition *c, const struct hw_strings *strings,
                        const struct hw_heap_graph *g, uint32_t o)
{
    const struct hw_heap_data *d = hw_object_data(g, o);
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
        if (is_field(c, strings, g->fields[g->ref_field[r]].name)) {
            c->has_field = true;
            return target_holds(c, strings, g, g->ref_owned[r]);
        }
    if (!d || d->field_set == HW_ID_NONE)
        return false;
    size_t low = HW_LOWER_BOUND(k, 0, g->primitives.n, g->primitives.v[k].set < d->field_set);
    for (; low < g->primitives.n && g->primitives.v[low].set == d->field_set; low++)
        if (is_field(c, strings, g->primitives.v[low].field_name)) {
            c->has_field = true;
            return primitive_holds(c, &g->primitives.v[low]);
        }
    return false;
}

static bool condition_holds(struct condition *c, const struct hw_strings *strings,
                            const struct hw_heap_graph *g, const int64_t *retained, uint32_t o)
{
    const struct hw_heap_data *d;
    switch (c->subject) {
    case CLASS:
        return text_holds(c, hw_strings_get(strings, hw_class_shown_name(&g->classes[g->type[o]])));
    case BYTES:
        return integer_holds(c, hw_object_weight(g, o));
    case RETAINED:
        return integer_holds(c, retained ? retained[o] : 0);
    case LENGTH:
        d = hw_object_data(g, o);
        c->has_field |= d && d->element_count >= 0;
        return d && d->element_count >= 0 && integer_holds(c, d->element_count);
    case FIELD:
        return field_holds(c, strings, g, o);
    }
    return false;
}

/* ---- all objects ---- */

static int make_tables(struct hw_heap_where *w, size_t n_strings)
{
    for (size_t i = 0; i < w->all.n; i++) {
        struct condition *c = &w->all.v[i];
        free(c->is_name);
        c->has_field = false;
        c->is_name = c->subject == FIELD ? calloc(n_strings + 1, 1) : NULL;
        if (c->subject == FIELD && !c->is_name)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* A field that no object has is a mistake rather than an answer. All objects are looked through for
 * that: the conditions before it may match none. */
static int check_fields(struct hw_heap_where *w, const struct hw_strings *strings,
                        const struct hw_heap_graph *g, struct hw_error *err)
{
    for (size_t i = 0; i < w->all.n; i++) {
        struct condition *c = &w->all.v[i];
        if (c->subject != FIELD && c->subject != LENGTH)
            continue;
        for (uint32_t o = 0; !c->has_field && o < g->n_objects; o++)
            (void)condition_holds(c, strings, g, NULL, o);
        if (!c->has_field && g->primitives.n == 0)
            return hw_fail(err, HW_ENOTFOUND, 0,
                           "the contents of objects are not known: a trace has none, and of an "
                           ".hprof file they are read up to two million objects");
        if (!c->has_field)
            return hw_fail(err, HW_ENOTFOUND, 0, "no object has a field '%.*s'", (int)c->name.n,
                           (const char *)c->name.p);
    }
    return HW_OK;
}

int hw_heap_where_find(struct hw_heap_where *w, const struct hw_profile *p,
                       const struct hw_heap_graph *g, const int64_t *retained,
                       hw_found_objects *out, struct hw_error *err)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    int rc = make_tables(w, hw_strings_count(strings));
    *out = (hw_found_objects){0};
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++) {
        bool all = hw_object_is_reachable(g, o);
        for (size_t i = 0; all && i < w->all.n; i++)
            all = condition_holds(&w->all.v[i], strings, g, retained, o);
        if (all && hw_vec_push(out, o) < 0)
            rc = HW_ENOMEM;
    }
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "objects:");
    if (rc == HW_OK && out->n == 0)
        rc = check_fields(w, strings, g, err);
    if (rc < 0)
        hw_vec_done(out);
    return rc;
}
