/* graph --path: what holds objects of a class, and classes with similar names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "cli/cli.h"
#include "cli/graph/graph_page.h"
#include "model/profile.h"
#include "views/objects/heap_holders.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

enum { MAX_PATH_SHOWN = 60 };

struct tree_row {
    const struct hw_heap_node *node;
    uint32_t index;
};

static bool matches(const struct hw_graph_page *pg, uint32_t class, const char *wanted)
{
    return hw_bytes_equal(hw_graph_name_of(pg, class), hw_bytes_str(wanted));
}

/* "Owner.field" of the reference a path follows; "" for an array element. */
static struct hw_bytes step_name(const struct hw_graph_page *pg, uint32_t owner, uint32_t owned)
{
    const struct hw_heap_graph *g = pg->g;
    for (uint32_t r = g->first_ref[owner]; r < g->first_ref[owner + 1]; r++) {
        const struct hw_heap_field *f = &g->fields[g->ref_field[r]];
        if (g->ref_owned[r] == owned && hw_ref_is_strong(g, owner, r))
            return hw_strings_get(hw_callsites_strings(pg->p->callsites),
                                  f->clear_name.v ? f->clear_name : f->name);
    }
    return hw_object_held_class(g, owner) == owned ? hw_bytes_str("<class>") : hw_bytes_of(NULL, 0);
}

static void put_step(struct hw_bytes name)
{
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, name.p, name.n);
    printf("    by %s\n", text.n ? text.p : "an element");
    hw_strbuf_done(&text);
}

/* The root's kind, and its holder where known. */
static void json_root(const struct hw_graph_page *pg, uint32_t o)
{
    struct hw_strbuf text = {0};
    hw_json_kv_str(pg->json, "root", hw_root_type_name(hw_object_root_type(pg->g, o)));
    hw_heap_root_text(pg->p, pg->g, o, &text);
    if (text.n)
        hw_graph_json_name(pg, "held_by", hw_bytes_of(text.p, text.n));
    hw_strbuf_done(&text);
}

static void put_root(const struct hw_graph_page *pg, uint32_t o)
{
    struct hw_strbuf text = {0}, shown = {0};
    hw_heap_root_text(pg->p, pg->g, o, &text);
    hw_strbuf_add_escaped(&shown, text.p ? text.p : "", text.n);
    printf("    %s%s%s\n", hw_root_type_name(hw_object_root_type(pg->g, o)), shown.n ? ": " : "",
           shown.n ? shown.p : "");
    hw_strbuf_done(&text);
    hw_strbuf_done(&shown);
}

/* From the object at `at` to its root: {class, by} for each, and the root's kind for the last. */
static void json_path(const struct hw_graph_page *pg, const struct hw_heap_paths *t, size_t at)
{
    hw_json_key(pg->json, "nearest");
    hw_json_begin_array(pg->json);
    for (size_t left = MAX_PATH_SHOWN; left > 0 && at != HW_ID_NONE; left--) {
        uint32_t o = t->object[at], up = t->parent[at];
        hw_json_begin_object(pg->json);
        hw_graph_json_name(pg, "class", hw_graph_name_of(pg, pg->g->type[o]));
        if (up == HW_ID_NONE)
            json_root(pg, o);
        else
            hw_graph_json_name(pg, "by", step_name(pg, t->object[up], o));
        hw_json_end_object(pg->json);
        at = up;
    }
    hw_json_end_array(pg->json);
}

void hw_graph_put_path(const struct hw_graph_page *pg, const struct hw_heap_paths *t, size_t at)
{
    if (pg->json) {
        json_path(pg, t, at);
        return;
    }
    for (size_t left = MAX_PATH_SHOWN; left > 0; left--) {
        uint32_t o = t->object[at], up = t->parent[at];
        hw_graph_put_name(hw_graph_name_of(pg, pg->g->type[o]));
        if (up == HW_ID_NONE) {
            put_root(pg, o);
            return;
        }
        put_step(step_name(pg, t->object[up], o));
        at = up;
    }
    puts("    and so on");
}

static int by_size(const void *pa, const void *pb)
{
    const struct tree_row *a = pa, *b = pb;
    if (a->node->size != b->node->size)
        return a->node->size > b->node->size ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static void put_way(const struct hw_graph_page *pg, const hw_heap_tree *tree,
                    const struct tree_row *r, struct hw_strbuf *line, struct hw_strbuf *name)
{
    size_t left = MAX_PATH_SHOWN;
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_json_kv_int(pg->json, "size", r->node->size);
        hw_json_kv_int(pg->json, "objects", r->node->count);
        hw_json_key(pg->json, "way");
        hw_json_begin_array(pg->json);
    } else {
        hw_graph_put_bytes(r->node->size);
        hw_graph_put_count(r->node->count);
    }
    hw_strbuf_clear(line);
    for (uint32_t at = r->index; at != HW_ID_NONE && left > 0; left--) {
        hw_strbuf_clear(name);
        hw_heap_node_name(pg->p, pg->g, &tree->v[at], HW_FOLD_FLAME, name);
        if (pg->json)
            hw_json_strn(pg->json, name->p, name->n);
        hw_strbuf_adds(line, line->n ? " < " : "");
        hw_strbuf_add_escaped(line, name->p, name->n);
        at = tree->v[at].parent;
    }
    if (pg->json) {
        hw_json_end_array(pg->json);
        hw_json_end_object(pg->json);
    } else {
        printf("  %s%s\n", line->p ? line->p : "", left ? "" : " < ...");
    }
}

/*
 * The paths that reach objects of the class, told apart by the classes on them. A list of a
 * thousand elements is one path, not a thousand.
 */
static int show_ways(const struct hw_graph_page *pg, const hw_heap_tree *tree, const char *wanted)
{
    HW_VEC(struct tree_row) rows = {0};
    struct hw_strbuf line = {0}, name = {0};
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < tree->n; i++)
        if (!tree->v[i].is_native && matches(pg, tree->v[i].class, wanted) &&
            hw_vec_push(&rows, (struct tree_row){&tree->v[i], i}) < 0)
            rc = HW_ENOMEM;
    if (rows.n)
        qsort(rows.v, rows.n, sizeof *rows.v, by_size);
    if (pg->json)
        hw_graph_begin_rows(pg);
    else
        printf("%*s%*s  %s\n", HW_GRAPH_WIDTH, "own", HW_GRAPH_WIDTH, "objects",
               "way, from the object to the root");
    for (size_t i = 0; rc == HW_OK && i < rows.n && i < pg->top; i++)
        put_way(pg, tree, &rows.v[i], &line, &name);
    if (pg->json)
        hw_json_end_array(pg->json);
    rc = rc < 0 || line.failed || name.failed ? HW_ENOMEM : rows.n ? HW_OK : HW_ENOTFOUND;
    hw_vec_done(&rows);
    hw_strbuf_done(&line);
    hw_strbuf_done(&name);
    return rc;
}

/* Inner classes are written App$Session, App.Session or App/Session: all equal here. */
static char plain_letter(uint8_t c)
{
    if (c == '$' || c == '/')
        return '.';
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : (char)c;
}

/* Does the name equal the word, or end with a dot and the word? */
static bool sounds_like(struct hw_bytes name, const char *word)
{
    size_t n = strlen(word), from = name.n - n;
    if (n == 0 || name.n < n || (from && plain_letter(name.p[from - 1]) != '.'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (plain_letter(name.p[from + i]) != plain_letter((uint8_t)word[i]))
            return false;
    return true;
}

static void hint_class(const struct hw_graph_page *pg, uint32_t class)
{
    struct hw_bytes name = hw_graph_name_of(pg, class);
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, name.p, name.n);
    hw_cli_hint("--path '%s'", text.p ? text.p : "");
    hw_strbuf_done(&text);
}

/* Names of classes with reachable objects that resemble an unknown one. */
void hw_graph_suggest_classes(const struct hw_graph_page *pg, const char *wanted)
{
    enum { MAX_HINTS = 5 };
    const struct hw_heap_graph *g = pg->g;
    hw_autofree bool *there = calloc((size_t)g->n_classes + 1, sizeof *there);
    hw_autofree const char **names = calloc((size_t)g->n_classes + 1, sizeof *names);
    size_t n = 0, n_hints = 0;
    if (!there || !names)
        return; /* only a hint */
    for (uint32_t o = 0; o < g->n_objects; o++)
        there[g->type[o]] |= hw_object_is_reachable(g, o);
    for (uint32_t c = 0; c < g->n_classes; c++) {
        if (!there[c])
            continue;
        names[n++] = hw_strings_cstr(hw_callsites_strings(pg->p->callsites),
                                     hw_class_shown_name(&g->classes[c]));
        if (n_hints < MAX_HINTS && sounds_like(hw_graph_name_of(pg, c), wanted)) {
            hint_class(pg, c);
            n_hints++;
        }
    }
    const char *near = n_hints ? NULL : hw_did_you_mean(wanted, names, n);
    for (uint32_t c = 0; near && c < g->n_classes; c++)
        if (there[c] && matches(pg, c, near)) {
            hint_class(pg, c);
            break;
        }
}

int hw_graph_show_path(const struct hw_graph_page *pg, const char *wanted)
{
    struct hw_heap_paths t = {0};
    hw_heap_tree tree = {0};
    int rc = hw_heap_paths_build(pg->p, pg->g, &t);
    if (rc == HW_OK)
        rc = hw_heap_tree_fold(pg->g, t.object, t.parent, t.n, HW_FOLD_CLASSES, &tree);
    if (rc == HW_OK)
        rc = show_ways(pg, &tree, wanted);
    for (size_t at = 0; rc == HW_OK && at < t.n; at++)
        if (matches(pg, pg->g->type[t.object[at]], wanted)) {
            if (!pg->json)
                puts("\nthe one nearest to a root:");
            hw_graph_put_path(pg, &t, at);
            break;
        }
    hw_heap_paths_done(&t);
    hw_vec_done(&tree);
    return rc;
}
