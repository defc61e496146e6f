/*
 * Types of the trace are numbered as they are needed, so that the frequent ones get short numbers:
 * one for a class's objects, another one for its class object, java.lang.Class<X>. A class pulls in
 * its superclasses, since readers look for names of fields there.
 */
#include "daemon/java/java_graph.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "daemon/java/java_reach.h"
#include "daemon/policy/memory.h"
#include "java/classes.h"
#include "java/graph.h"
#include "java/holders.h"
#include "java/jvm_abi.h"
#include "trace/graph_writer.h"

#include "base/banned.h"

/* HeapGraphType.Kind and HeapGraphRoot.Type */
static const uint8_t kinds[HW_JAVA_KIND_COUNT] = {
    [HW_JAVA_KIND_NORMAL] = 1,  [HW_JAVA_KIND_NO_REFERENCES] = 2, [HW_JAVA_KIND_STRING] = 3,
    [HW_JAVA_KIND_ARRAY] = 4,   [HW_JAVA_KIND_CLASS] = 5,         [HW_JAVA_KIND_LOADER] = 6,
    [HW_JAVA_KIND_SOFT] = 8,    [HW_JAVA_KIND_WEAK] = 9,          [HW_JAVA_KIND_FINALIZER] = 10,
    [HW_JAVA_KIND_PHANTOM] = 11};
enum { KIND_CLASS = 5, MAX_TOLD = 1 << 20 }; /* roots whose holder is reported */
enum {
    ROOT_UNKNOWN = 0,
    ROOT_JNI_GLOBAL = 1,
    ROOT_JNI_LOCAL = 2,
    ROOT_JAVA_FRAME = 3,
    ROOT_STICKY_CLASS = 5,
    ROOT_MONITOR_USED = 7,
    ROOT_THREAD_OBJECT = 8,
    ROOT_VM_INTERNAL = 13
};

struct type {
    uint32_t class;
    bool of_class_object;
};

struct told_root {
    uint64_t object;
    uint32_t type;
    struct hw_java_holder by;
};

struct hw_jgraph {
    struct hw_graph_writer *out; /* owned */
    const char *const *ignored_names;
    size_t n_ignored_names;
    struct hw_java_classes *classes; /* borrowed, as is graph */
    struct hw_java_graph *graph;
    size_t n_classes;
    uint32_t *type_of, *class_type_of; /* by class; 0 = not needed yet; owned */
    uint64_t *loader_of;               /* object; owned */
    bool *ignored;                     /* owned */
    HW_VEC(struct type) types;         /* [id - 1] */
    struct hw_map64 field_names;       /* field → name's number */
    uint64_t name_super, name_loader;
    struct hw_java_natives *natives; /* owned */
    struct hw_java_reach *reach;     /* owned */
    HW_VEC(struct told_root) told;
    HW_VEC(uint64_t) refs, names, internals;
    struct hw_jgraph_sums sums;
};

int hw_jgraph_new(const char *const *ignored_types, size_t n_ignored, struct hw_jgraph **out,
                  struct hw_error *err)
{
    struct hw_jgraph *j = calloc(1, sizeof *j);
    if (!j)
        return hw_fail(err, HW_ENOMEM, 0, "heap graph");
    j->ignored_names = ignored_types;
    j->n_ignored_names = n_ignored;
    int rc = hw_graph_writer_new(&j->out, err);
    if (rc == 0 && hw_java_natives_new(&j->natives) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "heap graph");
    if (rc < 0) {
        hw_jgraph_free(j);
        return rc;
    }
    *out = j;
    return HW_OK;
}

static void forget(struct hw_jgraph *j)
{
    free(j->type_of);
    free(j->class_type_of);
    free(j->loader_of);
    free(j->ignored);
    hw_java_reach_free(j->reach);
    j->reach = NULL;
    j->type_of = j->class_type_of = NULL;
    j->loader_of = NULL;
    j->ignored = NULL;
    hw_vec_clear(&j->types);
    hw_vec_clear(&j->told);
    hw_map64_done(&j->field_names);
    j->field_names = (struct hw_map64){0};
    j->name_super = j->name_loader = 0;
    j->sums = (struct hw_jgraph_sums){0};
}

void hw_jgraph_free(struct hw_jgraph *j)
{
    if (!j)
        return;
    forget(j);
    hw_graph_writer_free(j->out);
    hw_java_natives_free(j->natives);
    hw_vec_done(&j->types);
    hw_vec_done(&j->told);
    hw_vec_done(&j->refs);
    hw_vec_done(&j->names);
    hw_vec_done(&j->internals);
    free(j);
}

struct hw_graph_writer *hw_jgraph_writer(struct hw_jgraph *j)
{
    return j->out;
}

/* ---- types and names ---- */

static int add_type(struct hw_jgraph *j, uint32_t *of, uint32_t class, bool of_class_object)
{
    if (of[class])
        return HW_OK;
    if (hw_vec_push(&j->types, (struct type){class, of_class_object}) < 0)
        return HW_ENOMEM;
    of[class] = (uint32_t)j->types.n;
    return HW_OK;
}

static int type_for(struct hw_jgraph *j, const struct hw_java_object *o, uint32_t *out)
{
    uint32_t *of = o->stands_for ? j->class_type_of : j->type_of;
    uint32_t class = o->stands_for ? o->stands_for : o->of_class;
    int rc = add_type(j, of, class, o->stands_for != 0);
    *out = of[class];
    return rc;
}

static uint64_t name_of(struct hw_jgraph *j, const struct hw_java_field *f)
{
    uint64_t *value;
    bool fresh;
    if (hw_map64_at(&j->field_names, (uint64_t)(uintptr_t)f, &value, &fresh) < 0)
        return 0;
    if (!fresh)
        return *value;
    struct hw_strbuf text = {0};
    hw_java_type_name(f->signature, &text);
    hw_strbuf_addc(&text, ' ');
    hw_strbuf_adds(&text, hw_java_class_name(j->classes, f->of));
    hw_strbuf_addc(&text, '.');
    hw_strbuf_add(&text, f->name.p, f->name.n);
    *value = text.failed ? 0 : hw_graph_writer_name(j->out, text.p);
    hw_strbuf_done(&text);
    return *value;
}

static uint64_t name_of_ref(struct hw_jgraph *j, const struct hw_java_object *o,
                            const struct hw_java_ref *r)
{
    if (r->field)
        return name_of(j, r->field);
    if (r->kind == HW_REF_SUPERCLASS)
        return j->name_super;
    if (r->kind == HW_REF_LOADER)
        return j->name_loader;
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "%s.<field#%u>",
                   hw_java_class_name(j->classes, o->stands_for ? o->stands_for : o->of_class),
                   r->index);
    uint64_t name = text.failed ? 0 : hw_graph_writer_name(j->out, text.p);
    hw_strbuf_done(&text);
    return name;
}

/* ---- objects ---- */

static bool is_ignored(const struct hw_jgraph *j, uint64_t id)
{
    return j->n_ignored_names && !hw_java_graph_is_class_object(j->graph, id) &&
           j->ignored[hw_java_graph_class_of(j->graph, id)];
}

static bool is_internal(uint32_t kind)
{
    return kind == HW_REF_SIGNERS || kind == HW_REF_DOMAIN || kind == HW_REF_INTERFACE ||
           kind == HW_REF_CONSTANT;
}

/* Through the slots of its class, an entry for each. Gives whether all references have one. */
static bool by_slots(struct hw_jgraph *j, const struct hw_java_object *o, uint32_t n_slots)
{
    memset(j->refs.v, 0, n_slots * sizeof *j->refs.v);
    for (size_t i = 0; i < o->n_refs; i++) {
        if (o->refs[i].slot >= n_slots)
            return false;
        if (!is_ignored(j, o->refs[i].id))
            j->refs.v[o->refs[i].slot] = o->refs[i].id;
    }
    j->refs.n = n_slots;
    return true;
}

/* One by one. Names only if the kind has any. */
static int one_by_one(struct hw_jgraph *j, const struct hw_java_object *o, bool named)
{
    hw_vec_clear(&j->refs);
    for (size_t i = 0; i < o->n_refs; i++) {
        const struct hw_java_ref *r = &o->refs[i];
        if (is_ignored(j, r->id))
            continue;
        if (r->kind == HW_REF_LOADER && o->stands_for)
            j->loader_of[o->stands_for] = r->id;
        int rc =
            is_internal(r->kind) ? hw_vec_push(&j->internals, r->id) : hw_vec_push(&j->refs, r->id);
        if (rc == 0 && named && !is_internal(r->kind))
            rc = hw_vec_push(&j->names, name_of_ref(j, o, r));
        if (rc < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int take_object(void *ctx, const struct hw_java_object *o)
{
    struct hw_jgraph *j = ctx;
    struct hw_written_object out = {.id = o->id, .bytes = o->bytes};
    if (is_ignored(j, o->id))
        return HW_OK;
    enum hw_java_kind kind = hw_java_class_kind(j->classes, o->of_class);
    uint32_t n_slots = hw_java_class_slots(j->classes, o->of_class);
    hw_vec_clear(&j->names);
    hw_vec_clear(&j->internals);
    int rc = type_for(j, o, &out.type);
    if (rc == 0 && hw_vec_reserve(&j->refs, n_slots + 1) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        return rc;
    bool slots = !o->stands_for && kind != HW_JAVA_KIND_STRING && n_slots;
    if (!slots || !by_slots(j, o, n_slots))
        rc = one_by_one(j, o, kind != HW_JAVA_KIND_ARRAY);
    out.refs = j->refs.v;
    out.n_refs = j->refs.n;
    out.names = j->names.n ? j->names.v : NULL;
    out.internals = j->internals.v;
    out.n_internals = j->internals.n;
    j->sums.objects++;
    j->sums.refs += o->n_refs;
    j->sums.bytes += o->bytes;
    if (rc == 0)
        rc = hw_java_natives_object(j->natives, o);
    if (rc == 0)
        rc = hw_java_reach_object(j->reach, j->classes, o);
    return rc < 0 ? rc : hw_graph_writer_object(j->out, &out);
}

static int take_root(void *ctx, uint64_t id, uint32_t kind, const struct hw_java_holder *by)
{
    static const uint8_t roots[] = {
        [HW_ROOT_JNI_GLOBAL] = ROOT_JNI_GLOBAL, [HW_ROOT_SYSTEM_CLASS] = ROOT_STICKY_CLASS,
        [HW_ROOT_MONITOR] = ROOT_MONITOR_USED,  [HW_ROOT_STACK] = ROOT_JAVA_FRAME,
        [HW_ROOT_JNI_LOCAL] = ROOT_JNI_LOCAL,   [HW_ROOT_THREAD] = ROOT_THREAD_OBJECT,
        [HW_ROOT_OTHER] = ROOT_VM_INTERNAL,
    };
    struct hw_jgraph *j = ctx;
    uint32_t type = kind < sizeof roots ? roots[kind] : ROOT_UNKNOWN;
    /* HotSpot counts what the boot loader's data hold among the system's classes. */
    if (kind == HW_ROOT_SYSTEM_CLASS && !hw_java_graph_is_class_object(j->graph, id))
        type = ROOT_VM_INTERNAL;
    if (is_ignored(j, id))
        return HW_OK;
    if (hw_java_reach_root(j->reach, id) < 0)
        return HW_ENOMEM;
    struct told_root told = {.object = id, .type = type};
    bool is_later = type == ROOT_JNI_LOCAL && by->frame; /* see type_of_told() */
    j->sums.untold_roots += by && j->told.n >= MAX_TOLD;
    if (by && j->told.n < MAX_TOLD) {
        told.by = *by;
        if (hw_vec_push(&j->told, told) < 0)
            return HW_ENOMEM;
        if (is_later)
            return HW_OK;
    }
    return hw_graph_writer_root(j->out, id, is_later ? ROOT_UNKNOWN : type);
}

/* ---- who holds them ---- */

/* Threads that started after the table was made are identified by their number in Java. */
static int thread_by_id(struct hw_jgraph *j, struct hw_map64 *late, uint32_t *n, uint64_t id,
                        uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    *out = UINT32_MAX;
    if (id == 0 || id == HW_MAP64_NO_KEY)
        return HW_OK;
    if (hw_map64_at(late, id, &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        struct hw_written_thread t = {.id = (int64_t)id};
        *at = (*n)++;
        int rc = hw_graph_writer_thread(j->out, &t);
        if (rc < 0)
            return rc;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int write_threads(struct hw_jgraph *j, const struct hw_java_holders *h)
{
    size_t n = hw_java_holders_threads(h);
    hw_autofree uint64_t *object = calloc(n + 1, sizeof *object);
    int rc = object ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; i < j->told.n && rc == HW_OK; i++) {
        const struct told_root *r = &j->told.v[i];
        if (r->type == ROOT_THREAD_OBJECT && r->by.thread && r->by.thread <= n)
            object[r->by.thread] = r->object;
    }
    for (size_t i = 1; i <= n && rc == HW_OK; i++) {
        const struct hw_java_thread *from = hw_java_holders_thread(h, i);
        struct hw_written_thread t = {.id = (int64_t)from->id,
                                      .name = from->name,
                                      .object = object[i],
                                      .is_daemon = from->is_daemon};
        rc = hw_graph_writer_thread(j->out, &t);
    }
    return rc;
}

static int write_frames(struct hw_jgraph *j, const struct hw_java_holders *h)
{
    int rc = HW_OK;
    for (size_t i = 1; i <= hw_java_holders_frames(h) && rc == HW_OK; i++) {
        const struct hw_java_frame *from = hw_java_holders_frame(h, i);
        struct hw_written_frame f = {from->function, from->file, from->line};
        rc = hw_graph_writer_frame(j->out, &f);
    }
    return rc;
}

/*
 * For each compiled method on a stack HotSpot's walk reports the objects that its code names, as
 * JNI locals of the method (VM_HeapWalkOperation). A static final field's object then seems to be
 * held by the stack, with everything it holds. The JVM's own dump does not know such roots.
 */
static uint32_t type_of_told(const struct told_root *r, const struct hw_java_holders *h)
{
    const struct hw_java_frame *f = hw_java_holders_frame(h, r->by.frame);
    if (r->type != ROOT_JNI_LOCAL || !r->by.frame)
        return r->type;
    if (!f || f->method == HW_JAVA_METHOD_UNKNOWN)
        return ROOT_UNKNOWN;
    return f->method == HW_JAVA_METHOD_NATIVE ? ROOT_JNI_LOCAL : HW_WRITTEN_ROOT_COMPILED_CODE;
}

static int write_holders(struct hw_jgraph *j, const struct hw_java_holders *h)
{
    struct hw_map64 late = {0};
    uint32_t n = (uint32_t)hw_java_holders_threads(h);
    size_t n_frames = hw_java_holders_frames(h);
    int rc = write_threads(j, h);
    if (rc == HW_OK)
        rc = write_frames(j, h);
    for (size_t i = 0; i < j->told.n && rc == HW_OK; i++) {
        const struct told_root *r = &j->told.v[i];
        struct hw_written_holder w = {.object = r->object,
                                      .root_type = type_of_told(r, h),
                                      .thread = r->by.thread - 1,
                                      .frame = r->by.frame - 1,
                                      .depth = r->by.depth,
                                      .slot = r->by.slot};
        if (r->by.frame > n_frames)
            w.frame = UINT32_MAX;
        if (!hw_java_holders_thread(h, r->by.thread))
            rc = thread_by_id(j, &late, &n, r->by.thread_id, &w.thread);
        if (rc == HW_OK && r->type == ROOT_JNI_LOCAL && r->by.frame)
            rc = hw_graph_writer_root(j->out, w.object, w.root_type);
        if (rc == HW_OK)
            rc = hw_graph_writer_holder(j->out, &w);
    }
    hw_map64_done(&late);
    return rc;
}

/* ---- around ---- */

static bool is_named(const struct hw_jgraph *j, const char *name)
{
    for (size_t i = 0; i < j->n_ignored_names; i++)
        if (strcmp(j->ignored_names[i], name) == 0)
            return true;
    return false;
}

int hw_jgraph_begin(struct hw_jgraph *j, struct hw_java_classes *classes, uint64_t max_bytes,
                    struct hw_java_graph **out)
{
    const struct hw_java_sink sink = {j, take_object, take_root};
    forget(j);
    j->classes = classes;
    j->n_classes = hw_java_classes_count(classes);
    j->type_of = calloc(j->n_classes + 1, sizeof *j->type_of);
    j->class_type_of = calloc(j->n_classes + 1, sizeof *j->class_type_of);
    j->loader_of = calloc(j->n_classes + 1, sizeof *j->loader_of);
    j->ignored = calloc(j->n_classes + 1, sizeof *j->ignored);
    if (!j->type_of || !j->class_type_of || !j->loader_of || !j->ignored)
        return HW_ENOMEM;
    for (uint32_t i = 0; i <= j->n_classes && j->n_ignored_names; i++)
        j->ignored[i] = is_named(j, hw_java_class_name(classes, i));
    int rc = hw_graph_writer_reset(j->out, NULL);
    if (rc == HW_OK)
        rc = hw_java_reach_new(max_bytes, &j->reach);
    if (rc < 0)
        return rc;
    j->name_super = hw_graph_writer_name(j->out, "java.lang.Class java.lang.Class.superClass");
    j->name_loader =
        hw_graph_writer_name(j->out, "java.lang.ClassLoader java.lang.Class.classLoader");
    rc = hw_java_graph_new(classes, &sink, max_bytes, out);
    j->graph = rc == 0 ? *out : NULL;
    return rc < 0 ? rc : hw_java_natives_begin(j->natives, classes, j->graph);
}

static int write_type(struct hw_jgraph *j, uint32_t id)
{
    struct type t = j->types.v[id - 1];
    struct hw_strbuf name = {0};
    struct hw_written_type out = {.id = id, .loader = j->loader_of[t.class]};
    const char *class = hw_java_class_name(j->classes, t.class);
    hw_vec_clear(&j->names);
    hw_strbuf_addf(&name, t.of_class_object ? "java.lang.Class<%s>" : "%s", class);
    out.kind = t.of_class_object ? KIND_CLASS : kinds[hw_java_class_kind(j->classes, t.class)];
    if (!t.of_class_object && t.class) {
        size_t n;
        uint32_t super = hw_java_class_super(j->classes, t.class);
        const struct hw_java_field *f = hw_java_class_fields(j->classes, t.class, &n);
        for (size_t i = 0; i < n; i++)
            if (f[i].slot != HW_JAVA_NO_SLOT && hw_vec_push(&j->names, name_of(j, &f[i])) < 0)
                name.failed = true;
        if (super && add_type(j, j->type_of, super, /* of_class_object = */ false) < 0)
            name.failed = true;
        out.superclass = j->type_of[super];
    }
    out.name = name.p;
    out.fields = j->names.v;
    out.n_fields = j->names.n;
    int rc = name.failed ? HW_ENOMEM : hw_graph_writer_type(j->out, &out);
    hw_strbuf_done(&name);
    return rc;
}

/* ---- memory outside of the heap ---- */

/*
 * Readers know one way in which an object can own such memory, Android's:
 *
 *     owner <-referent- sun.misc.Cleaner -thunk-> CleanerThunk -this$0-> NativeAllocationRegistry
 *
 * So that they show the sizes, too, these three are synthesized, with numbers after those of all
 * objects and without a size; thunk and registry are shared by all blocks of one size. The trace
 * tells our reader the first such number, and it uses the blocks instead.
 */
struct made_up {
    uint64_t next_id;
    uint32_t cleaner, thunk, registry; /* types */
    uint64_t referent, action, next, outer;
    struct hw_map64 thunk_of; /* size → object */
};

static int write_made_up_types(struct hw_jgraph *j, const struct made_up *m)
{
    const struct hw_written_type types[] = {
        {.id = m->cleaner, .name = "sun.misc.Cleaner", .kind = kinds[HW_JAVA_KIND_PHANTOM]},
        {.id = m->thunk, .name = "libcore.util.NativeAllocationRegistry$CleanerThunk", .kind = 1},
        {.id = m->registry, .name = "libcore.util.NativeAllocationRegistry", .kind = 1}};
    int rc = HW_OK;
    for (size_t i = 0; i < HW_ARRAY_LEN(types) && rc == 0; i++)
        rc = hw_graph_writer_type(j->out, &types[i]);
    return rc;
}

static int thunk_for(struct hw_jgraph *j, struct made_up *m, uint64_t bytes, uint64_t *out)
{
    uint64_t *thunk;
    bool fresh;
    if (hw_map64_at(&m->thunk_of, bytes, &thunk, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh) {
        *out = *thunk;
        return HW_OK;
    }
    uint64_t registry = m->next_id++;
    struct hw_written_object r = {.id = registry, .type = m->registry, .native_bytes = bytes};
    struct hw_written_object t = {.id = *out = *thunk = m->next_id++,
                                  .type = m->thunk,
                                  .refs = &registry,
                                  .names = &m->outer,
                                  .n_refs = 1};
    int rc = hw_graph_writer_object(j->out, &r);
    return rc < 0 ? rc : hw_graph_writer_object(j->out, &t);
}

static int write_cleaner(struct hw_jgraph *j, struct made_up *m, const struct hw_native_block *b)
{
    uint64_t refs[3] = {b->owner, 0, 0};
    const uint64_t names[3] = {m->referent, m->action, m->next};
    int rc =
        thunk_for(j, m, (b->bytes + 1) & ~UINT64_C(1), &refs[1]); /* the lowest bit is a mark */
    struct hw_written_object o = {
        .id = m->next_id++, .type = m->cleaner, .refs = refs, .names = names, .n_refs = 3};
    return rc < 0 ? rc : hw_graph_writer_object(j->out, &o);
}

static int write_natives(struct hw_jgraph *j)
{
    uint32_t type = (uint32_t)j->types.n;
    struct made_up m = {.next_id = hw_java_graph_objects(j->graph) + 1,
                        .cleaner = type + 1,
                        .thunk = type + 2,
                        .registry = type + 3};
    int rc = hw_java_natives_end(j->natives);
    const hw_native_blocks *blocks = hw_java_natives_blocks(j->natives);
    if (rc < 0 || blocks->n == 0)
        return rc;
    m.referent = hw_graph_writer_name(j->out, "java.lang.Object java.lang.ref.Reference.referent");
    m.action = hw_graph_writer_name(j->out, "java.lang.Runnable sun.misc.Cleaner.thunk");
    m.next = hw_graph_writer_name(j->out, "sun.misc.Cleaner sun.misc.Cleaner.next");
    m.outer =
        hw_graph_writer_name(j->out, "libcore.util.NativeAllocationRegistry "
                                     "libcore.util.NativeAllocationRegistry$CleanerThunk.this$0");
    hw_graph_writer_made_up(j->out, m.next_id);
    for (size_t i = 0; i < blocks->n && rc == 0; i++) {
        const struct hw_native_block *b = &blocks->v[i];
        rc = hw_graph_writer_block(j->out, b->owner, b->kind, b->bytes);
        if (b->kind == HW_JAVA_NATIVE_MAPPED) {
            j->sums.mapped_bytes += b->bytes;
        } else {
            j->sums.native_bytes += b->bytes;
            rc = rc < 0 ? rc : write_cleaner(j, &m, b);
        }
    }
    hw_map64_done(&m.thunk_of);
    return rc < 0 ? rc : write_made_up_types(j, &m);
}

const hw_native_blocks *hw_jgraph_natives(const struct hw_jgraph *j)
{
    return hw_java_natives_blocks(j->natives);
}

static int write_class_root(void *ctx, uint64_t id)
{
    const struct hw_jgraph *j = ctx;
    return hw_graph_writer_root(j->out, id, ROOT_VM_INTERNAL);
}

int hw_jgraph_end(struct hw_jgraph *j, const struct hw_java_holders *holders,
                  struct hw_jgraph_sums *out, struct hw_error *err)
{
    int rc = write_holders(j, holders);
    if (rc == HW_OK)
        rc = hw_java_reach_end(j->reach, hw_java_graph_objects(j->graph), write_class_root, j);
    for (uint32_t id = 1; id <= j->types.n && rc == 0; id++) /* grows by superclasses */
        rc = write_type(j, id);
    if (rc == 0)
        rc = write_natives(j);
    j->sums.stale = hw_java_graph_stale(j->graph);
    j->sums.doubtful = hw_java_classes_doubtful(j->classes);
    j->sums.unnamed_roots = hw_java_holders_lost(holders);
    *out = j->sums;
    return rc < 0 ? hw_fail(err, rc, 0, "types of a heap graph:") : HW_OK;
}
