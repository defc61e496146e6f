/*
 * The file: pieces of about PIECE bytes, each a length and that many bytes of HeapGraph's fields. A
 * piece becomes one packet, to which pid, index and `continued` are added.
 *
 * An object is some ten bytes, so lengths are minimal varints, not the four bytes that hw_pb
 * reserves; references have a base where that makes them shorter.
 */
#include "trace/graph_writer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { PIECE = 1 << 18, N_ROOTS = HW_WRITTEN_ROOT_COMPILED_CODE, HEAP_APP = 1 };

#define OBJ(name)  HW_F_HeapGraphObject_##name
#define TYPE(name) HW_F_HeapGraphType_##name

struct hw_graph_writer {
    int fd; /* owned */
    bool failed;
    bool typed; /* the heap type was written */
    uint64_t last_id;
    uint64_t made_up;        /* first id of made-up objects; 0 = none */
    struct hw_pb piece, one; /* fields of HeapGraph; one message in it */
    struct hw_strings *names;
    size_t n_names_written;
    HW_VEC(uint64_t) sizes; /* of a type's first object, by type; 0 = none yet */
    HW_VEC(uint64_t) roots[N_ROOTS];
};

/* A file that is deleted when we exit: on disk if there is room for such files, else in memory. */
static int open_file(struct hw_error *err)
{
    int fd = hw_fd_temp("/var/tmp");
    return fd < 0 ? hw_fail_sys(err, "no file for a heap graph") : fd;
}

int hw_graph_writer_new(struct hw_graph_writer **out, struct hw_error *err)
{
    struct hw_graph_writer *w = calloc(1, sizeof *w);
    if (!w)
        return hw_fail(err, HW_ENOMEM, 0, "heap graph");
    w->fd = open_file(err);
    int rc = w->fd < 0 ? HW_ESYS : hw_strings_new(&w->names);
    if (rc < 0) {
        hw_graph_writer_free(w);
        return rc == HW_ENOMEM ? hw_fail(err, rc, 0, "heap graph:") : rc;
    }
    *out = w;
    return HW_OK;
}

void hw_graph_writer_free(struct hw_graph_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        (void)close(w->fd);
    hw_strings_free(w->names);
    hw_pb_done(&w->piece);
    hw_pb_done(&w->one);
    hw_vec_done(&w->sizes);
    for (size_t i = 0; i < N_ROOTS; i++)
        hw_vec_done(&w->roots[i]);
    free(w);
}

int hw_graph_writer_reset(struct hw_graph_writer *w, struct hw_error *err)
{
    if (ftruncate(w->fd, 0) < 0 || lseek(w->fd, 0, SEEK_SET) < 0)
        return hw_fail_sys(err, "the file of a heap graph");
    hw_strings_free(w->names);
    w->names = NULL;
    w->failed = w->typed = false;
    w->last_id = w->made_up = 0;
    w->n_names_written = 0;
    hw_pb_clear(&w->piece);
    hw_vec_clear(&w->sizes);
    for (size_t i = 0; i < N_ROOTS; i++)
        hw_vec_clear(&w->roots[i]);
    return hw_strings_new(&w->names);
}

/* ---- pieces ---- */

static int end_piece(struct hw_graph_writer *w)
{
    uint32_t n = (uint32_t)w->piece.buf.n;
    if (hw_pb_failed(&w->piece))
        return HW_ENOMEM;
    if (n == 0)
        return HW_OK;
    int rc = hw_fd_write_all(w->fd, &n, sizeof n);
    if (rc == HW_OK)
        rc = hw_fd_write_all(w->fd, w->piece.buf.p, n);
    hw_pb_clear(&w->piece);
    return rc;
}

/* Adds the message in `one` as a field of HeapGraph. */
static int put(struct hw_graph_writer *w, uint32_t field)
{
    hw_pb_bytes(&w->piece, field, w->one.buf.p ? w->one.buf.p : "", w->one.buf.n);
    bool failed = hw_pb_failed(&w->one);
    hw_pb_clear(&w->one);
    if (failed)
        return HW_ENOMEM;
    return w->piece.buf.n >= PIECE ? end_piece(w) : HW_OK;
}

/* ---- objects ---- */

static size_t varint_bytes(uint64_t v)
{
    return v ? (size_t)(63 - __builtin_clzll(v)) / 7 + 1 : 1;
}

static size_t packed_bytes(const uint64_t *v, size_t n, uint64_t base)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += varint_bytes(v[i] ? v[i] - base : 0);
    return sum;
}

static void put_packed(struct hw_pb *pb, uint32_t field, const uint64_t *v, size_t n, uint64_t base)
{
    if (n == 0)
        return;
    hw_pb_raw_varint(pb, (uint64_t)field << 3 | HW_PB_BYTES);
    hw_pb_raw_varint(pb, packed_bytes(v, n, base));
    for (size_t i = 0; i < n; i++)
        hw_pb_raw_varint(pb, v[i] ? v[i] - base : 0);
}

/* One less than the smallest reference if that makes the object shorter, else 0. */
static uint64_t base_of(const uint64_t *v, size_t n)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        if (v[i] && v[i] < least)
            least = v[i];
    if (least == UINT64_MAX || least < 2)
        return 0;
    uint64_t base = least - 1;
    return packed_bytes(v, n, base) + 1 + varint_bytes(base) < packed_bytes(v, n, 0) ? base : 0;
}

/* The size of a type's first object, which is that of the type. */
static int size_of_type(struct hw_graph_writer *w, uint32_t type, uint64_t bytes, uint64_t *out)
{
    while (w->sizes.n <= type)
        if (hw_vec_push(&w->sizes, 0) < 0)
            return HW_ENOMEM;
    if (w->sizes.v[type] == 0)
        w->sizes.v[type] = bytes;
    *out = w->sizes.v[type];
    return HW_OK;
}

int hw_graph_writer_object(struct hw_graph_writer *w, const struct hw_written_object *o)
{
    struct hw_pb *pb = &w->one;
    uint64_t usual;
    int rc = size_of_type(w, o->type, o->bytes, &usual);
    if (rc < 0)
        return rc;
    if (o->id > w->last_id)
        hw_pb_uint(pb, OBJ(id_delta), o->id - w->last_id);
    else
        hw_pb_uint(pb, OBJ(id), o->id);
    w->last_id = o->id;
    hw_pb_uint(pb, OBJ(type_id), o->type);
    if (o->bytes != usual)
        hw_pb_uint(pb, OBJ(self_size), o->bytes);
    uint64_t base = base_of(o->refs, o->n_refs);
    if (base)
        hw_pb_uint(pb, OBJ(reference_field_id_base), base);
    if (o->names)
        put_packed(pb, OBJ(reference_field_id), o->names, o->n_refs, 0);
    put_packed(pb, OBJ(reference_object_id), o->refs, o->n_refs, base);
    put_packed(pb, OBJ(runtime_internal_object_id), o->internals, o->n_internals, 0);
    if (o->native_bytes)
        hw_pb_uint(pb, OBJ(native_allocation_registry_size_field), o->native_bytes);
    if (!w->typed)
        hw_pb_uint(pb, OBJ(heap_type_delta), HEAP_APP);
    w->typed = true;
    return put(w, HW_F_HeapGraph_objects);
}

int hw_graph_writer_root(struct hw_graph_writer *w, uint64_t id, uint32_t type)
{
    if (type == HW_WRITTEN_ROOT_COMPILED_CODE)
        return HW_OK;
    return type < N_ROOTS && hw_vec_push(&w->roots[type], id) == 0 ? HW_OK : HW_ENOMEM;
}

static void put_text(struct hw_pb *pb, uint32_t field, struct hw_bytes text)
{
    if (text.n)
        hw_pb_bytes(pb, field, text.p, text.n);
}

int hw_graph_writer_thread(struct hw_graph_writer *w, const struct hw_written_thread *t)
{
    if (t->id)
        hw_pb_uint(&w->one, HW_F_ManagedThread_id, (uint64_t)t->id);
    put_text(&w->one, HW_F_ManagedThread_name, t->name);
    if (t->object)
        hw_pb_uint(&w->one, HW_F_ManagedThread_object_id, t->object);
    if (t->is_daemon)
        hw_pb_uint(&w->one, HW_F_ManagedThread_daemon, 1);
    return put(w, HW_F_HeapGraph_managed_threads);
}

int hw_graph_writer_frame(struct hw_graph_writer *w, const struct hw_written_frame *f)
{
    put_text(&w->one, HW_F_ManagedFrame_function, f->function);
    put_text(&w->one, HW_F_ManagedFrame_file, f->file);
    if (f->line)
        hw_pb_uint(&w->one, HW_F_ManagedFrame_line, f->line);
    return put(w, HW_F_HeapGraph_managed_frames);
}

int hw_graph_writer_holder(struct hw_graph_writer *w, const struct hw_written_holder *h)
{
    hw_pb_uint(&w->one, HW_F_ManagedRoot_object_id, h->object);
    if (h->root_type == HW_WRITTEN_ROOT_COMPILED_CODE)
        hw_pb_uint(&w->one, HW_F_ManagedRoot_compiled_code, 1);
    else
        hw_pb_uint(&w->one, HW_F_ManagedRoot_root_type, h->root_type);
    if (h->thread != UINT32_MAX)
        hw_pb_uint(&w->one, HW_F_ManagedRoot_thread, h->thread);
    if (h->frame != UINT32_MAX)
        hw_pb_uint(&w->one, HW_F_ManagedRoot_frame, h->frame);
    if (h->depth >= 0)
        hw_pb_uint(&w->one, HW_F_ManagedRoot_depth, (uint64_t)h->depth);
    if (h->slot >= 0)
        hw_pb_uint(&w->one, HW_F_ManagedRoot_slot, (uint64_t)h->slot);
    return put(w, HW_F_HeapGraph_managed_roots);
}

int hw_graph_writer_block(struct hw_graph_writer *w, uint64_t owner, uint32_t kind, uint64_t bytes)
{
    hw_pb_uint(&w->one, HW_F_ManagedBlock_object_id, owner);
    hw_pb_uint(&w->one, HW_F_ManagedBlock_kind, kind);
    hw_pb_uint(&w->one, HW_F_ManagedBlock_bytes, bytes);
    return put(w, HW_F_HeapGraph_native_blocks);
}

void hw_graph_writer_made_up(struct hw_graph_writer *w, uint64_t first)
{
    w->made_up = first;
}

/* ---- names, types ---- */

uint64_t hw_graph_writer_name(struct hw_graph_writer *w, const char *text)
{
    hw_str_id id;
    if (hw_strings_intern(w->names, hw_bytes_str(text), &id) < 0) {
        w->failed = true;
        return 0;
    }
    return (uint64_t)id.v + 1;
}

static int put_names(struct hw_graph_writer *w)
{
    int rc = HW_OK;
    for (uint32_t i = 0; i < hw_strings_count(w->names) && rc == 0; i++) {
        struct hw_bytes text = hw_strings_get(w->names, (hw_str_id){i});
        hw_pb_uint(&w->one, HW_F_InternedString_iid, (uint64_t)i + 1);
        hw_pb_bytes(&w->one, HW_F_InternedString_str, text.p, text.n);
        rc = put(w, HW_F_HeapGraph_field_names);
    }
    return rc;
}

static int put_roots(struct hw_graph_writer *w)
{
    int rc = HW_OK;
    for (size_t type = 0; type < N_ROOTS && rc == 0; type++) {
        size_t n;
        for (size_t at = 0; at < w->roots[type].n && rc == 0; at += n) {
            n = w->roots[type].n - at < PIECE / 8 ? w->roots[type].n - at : PIECE / 8;
            put_packed(&w->one, HW_F_HeapGraphRoot_object_ids, w->roots[type].v + at, n, 0);
            hw_pb_uint(&w->one, HW_F_HeapGraphRoot_root_type, type);
            rc = put(w, HW_F_HeapGraph_roots);
        }
    }
    return rc;
}

int hw_graph_writer_type(struct hw_graph_writer *w, const struct hw_written_type *t)
{
    struct hw_pb *pb = &w->one;
    hw_pb_uint(pb, TYPE(id), t->id);
    hw_pb_str(pb, TYPE(class_name), t->name);
    if (t->id < w->sizes.n && w->sizes.v[t->id])
        hw_pb_uint(pb, TYPE(object_size), w->sizes.v[t->id]);
    if (t->superclass)
        hw_pb_uint(pb, TYPE(superclass_id), t->superclass);
    put_packed(pb, TYPE(reference_field_id), t->fields, t->n_fields, 0);
    hw_pb_uint(pb, TYPE(kind), t->kind);
    if (t->loader)
        hw_pb_uint(pb, TYPE(classloader_id), t->loader);
    return put(w, HW_F_HeapGraph_types);
}

/* ---- commit ---- */

static int write_packet(struct hw_trace_writer *trace, uint32_t sequence, uint64_t boottime_ns,
                        int32_t pid, uint64_t index, bool more, uint64_t heap_bytes,
                        uint64_t made_up, struct hw_bytes piece, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(trace, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_heap_graph);
    hw_pb_sint64(pb, HW_F_HeapGraph_pid, pid);
    hw_pb_uint(pb, HW_F_HeapGraph_index, index);
    if (more)
        hw_pb_uint(pb, HW_F_HeapGraph_continued, 1);
    else if (heap_bytes)
        hw_pb_uint(pb, HW_F_HeapGraph_heap_bytes_allocated, heap_bytes);
    if (index == 0 && made_up)
        hw_pb_uint(pb, HW_F_HeapGraph_made_up_from, made_up);
    hw_strbuf_add(&pb->buf, piece.p, piece.n);
    hw_pb_end(pb);
    return hw_trace_end(trace, err);
}

int hw_graph_writer_commit(struct hw_graph_writer *w, struct hw_trace_writer *trace,
                           uint32_t sequence, uint64_t boottime_ns, int32_t pid,
                           uint64_t heap_bytes, uint64_t *bytes, struct hw_error *err)
{
    uint64_t at = 0, index = 0, before = hw_trace_writer_bytes(trace);
    struct hw_strbuf piece = {0};
    int rc = put_names(w);
    if (rc == HW_OK)
        rc = put_roots(w);
    if (rc == HW_OK)
        rc = end_piece(w);
    if (rc < 0 || w->failed)
        return hw_fail(err, rc < 0 ? rc : HW_ENOMEM, 0, "heap graph");
    off_t end = lseek(w->fd, 0, SEEK_END);
    while (rc == HW_OK && end > 0 && at < (uint64_t)end) {
        uint32_t n;
        rc = hw_fd_pread_all(w->fd, &n, sizeof n, at);
        hw_strbuf_clear(&piece);
        if (rc == HW_OK)
            rc = hw_strbuf_reserve(&piece, n);
        if (rc == HW_OK)
            rc = hw_fd_pread_all(w->fd, piece.p, n, at + sizeof n);
        if (rc < 0) {
            (void)hw_fail(err, rc, at, "the file of a heap graph:");
            break;
        }
        at += sizeof n + n;
        rc = write_packet(trace, sequence, boottime_ns, pid, index++, at < (uint64_t)end,
                          heap_bytes, w->made_up, hw_bytes_of(piece.p, n), err);
    }
    hw_strbuf_done(&piece);
    if (rc == HW_OK)
        rc = hw_trace_writer_flush(trace, err);
    *bytes = hw_trace_writer_bytes(trace) - before;
    return rc;
}
