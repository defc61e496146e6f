/*
 * A heap graph as pprof: each flamegraph node is a sample, whose stack is the class names up to a
 * root. Each name has one function and one location. A list of a million elements has paths of up
 * to a million nodes with a sample each, so stacks keep only the MAX_STACK names next to the
 * object.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strings.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "export/pprof/pprof_dir.h"
#include "schema/fields.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

enum { MAX_STACK = 1024 };

#define F(message, field) HW_F_pprof_##message##_##field

struct job {
    const struct hw_profile *p;
    const struct hw_heap_graph *g;
    struct hw_pb out;
    struct hw_strings *strings;    /* the file's string table */
    struct hw_map64 function_of;   /* class, root, native -> function */
    HW_VEC(hw_str_id) names;       /* by function - 1 */
    struct hw_map64 function_name; /* name -> function */
    struct hw_strbuf text;
    int rc;
};

static uint64_t str(struct job *j, const char *text)
{
    hw_str_id id = {0};
    int rc = hw_strings_intern(j->strings, hw_bytes_str(text), &id);
    if (rc < 0)
        j->rc = rc;
    return id.v;
}

static void put_sample_type(struct job *j, const char *type, const char *unit)
{
    hw_pb_begin(&j->out, F(Profile, sample_type));
    hw_pb_uint(&j->out, F(ValueType, type), str(j, type));
    hw_pb_uint(&j->out, F(ValueType, unit), str(j, unit));
    hw_pb_end(&j->out);
}

/* The function with a node's name; classes with the same name share it. */
static uint64_t function_of(struct job *j, const struct hw_heap_node *n)
{
    uint64_t key = (uint64_t)n->class << 8 | (unsigned)n->root << 1 | n->is_native, *at;
    bool fresh;
    j->rc = j->rc < 0 ? j->rc : hw_map64_at(&j->function_of, key, &at, &fresh);
    if (j->rc < 0 || !fresh)
        return j->rc < 0 ? 0 : *at;
    uint64_t *slot = at;
    hw_str_id name;
    hw_strbuf_clear(&j->text);
    hw_heap_node_name(j->p, j->g, n, HW_FOLD_FLAME, &j->text);
    j->rc = j->text.failed
                ? HW_ENOMEM
                : hw_strings_intern(j->strings, hw_bytes_of(j->text.p, j->text.n), &name);
    if (j->rc == HW_OK)
        j->rc = hw_map64_at(&j->function_name, name.v, &at, &fresh);
    if (j->rc < 0)
        return 0;
    if (fresh) {
        *at = j->names.n + 1;
        if (hw_vec_push(&j->names, name) < 0)
            j->rc = HW_ENOMEM;
    }
    return *slot = *at;
}

static void put_sample(struct job *j, const hw_heap_tree *tree, uint32_t node)
{
    uint32_t left = MAX_STACK;
    hw_pb_begin(&j->out, F(Profile, sample));
    hw_pb_begin(&j->out, F(Sample, location_id));
    for (uint32_t at = node; at != HW_ID_NONE && left-- > 0; at = tree->v[at].parent)
        hw_pb_raw_varint(&j->out, function_of(j, &tree->v[at]));
    hw_pb_end(&j->out);
    hw_pb_begin(&j->out, F(Sample, value));
    hw_pb_raw_varint(&j->out, (uint64_t)tree->v[node].count);
    hw_pb_raw_varint(&j->out, (uint64_t)tree->v[node].size);
    hw_pb_end(&j->out);
    hw_pb_end(&j->out);
}

static void put_functions(struct job *j)
{
    for (uint64_t id = 1; id <= j->names.n; id++) {
        hw_pb_begin(&j->out, F(Profile, location));
        hw_pb_uint(&j->out, F(Location, id), id);
        hw_pb_begin(&j->out, F(Location, line));
        hw_pb_uint(&j->out, F(Line, function_id), id);
        hw_pb_end(&j->out);
        hw_pb_end(&j->out);
        hw_pb_begin(&j->out, F(Profile, function));
        hw_pb_uint(&j->out, F(Function, id), id);
        hw_pb_uint(&j->out, F(Function, name), j->names.v[id - 1].v);
        hw_pb_uint(&j->out, F(Function, system_name), j->names.v[id - 1].v);
        hw_pb_end(&j->out);
    }
}

static int build(struct job *j)
{
    hw_heap_tree tree;
    int rc = hw_heap_tree_flame(j->p, j->g, NULL, &tree);
    if (rc < 0)
        return rc;
    put_sample_type(j, "Total allocation count", "count");
    put_sample_type(j, "Total allocation size", "bytes");
    for (uint32_t i = 0; j->rc == HW_OK && i < tree.n; i++)
        put_sample(j, &tree, i);
    hw_vec_done(&tree);
    put_functions(j);
    for (uint32_t i = 0; i < hw_strings_count(j->strings); i++) {
        struct hw_bytes s = hw_strings_get(j->strings, (hw_str_id){i});
        hw_pb_bytes(&j->out, F(Profile, string_table), s.p, s.n);
    }
    return j->rc < 0 ? j->rc : hw_pb_failed(&j->out) ? HW_ENOMEM : HW_OK;
}

int hw_pprof_graph_write(const struct hw_profile *p, const struct hw_heap_graph *g, bool gzip,
                         FILE *out, struct hw_error *err)
{
    struct job j = {.p = p, .g = g};
    struct hw_strbuf packed = {0};
    int rc = hw_strings_new(&j.strings);
    if (rc == HW_OK)
        rc = build(&j);
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "pprof profile:");
    struct hw_bytes all = hw_pb_view(&j.out);
    if (rc == HW_OK && gzip)
        rc = hw_deflate(all, HW_GZIP_GZIP, &packed, err);
    if (rc == HW_OK && gzip)
        all = hw_bytes_of(packed.p, packed.n);
    if (rc == HW_OK)
        (void)fwrite(all.p, 1, all.n, out); /* the stream remembers a failure */
    if (rc == HW_OK && (fflush(out) != 0 || ferror(out)))
        rc = hw_fail_sys(err, "cannot write the output");
    hw_pb_done(&j.out);
    hw_strbuf_done(&packed);
    hw_strbuf_done(&j.text);
    hw_strings_free(j.strings);
    hw_map64_done(&j.function_of);
    hw_map64_done(&j.function_name);
    hw_vec_done(&j.names);
    return rc;
}
