#include "trace/check/check_sample.h"

#include <math.h>
#include <string.h>

#include "codec/pb.h"
#include "model/allocs.h"
#include "schema/fields.h"
#include "trace/check/checker.h"

#include "base/banned.h"

#define F_SAMPLE(name) HW_F_ProfilePacket_HeapSample_##name

/* An extension field of heapwise's: variances are the numbers of these types. */
static void read_variance(struct hw_check_sample *s, const struct hw_pb_field *f)
{
    double v = 0;
    float narrow = 0;
    uint32_t low = (uint32_t)f->value;
    if (f->number == F_SAMPLE(variance_bytes)) {
        memcpy(&v, &f->value, sizeof v);
    } else {
        memcpy(&narrow, &low, sizeof narrow);
        v = (double)narrow;
    }
    if (isinf(hw_alloc_variance_kept(v))) {
        s->bad_variance_field = f->number;
        s->bad_variance = v;
    }
}

struct hw_check_sample hw_check_sample_read(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_check_sample s = {0};
    while (hw_pb_next(&r, &f) == 1)
        switch (f.number) {
        case F_SAMPLE(callstack_id):
            s.callstack = f.value;
            break;
        case F_SAMPLE(self_allocated):
            s.allocated = f.value;
            break;
        case F_SAMPLE(self_freed):
            s.freed = f.value;
            break;
        case F_SAMPLE(alloc_count):
            s.allocs = f.value;
            break;
        case F_SAMPLE(free_count):
            s.frees = f.value;
            break;
        case F_SAMPLE(temporary_space):
            s.temporary = f.value;
            break;
        case F_SAMPLE(self_max):
            s.max = f.value;
            s.has_max = true;
            break;
        case F_SAMPLE(self_max_count):
            s.max_count = f.value;
            break;
        case F_SAMPLE(variance_bytes):
        case F_SAMPLE(variance_objects):
        case F_SAMPLE(variance_alloc_space):
        case F_SAMPLE(variance_alloc_objects):
        case F_SAMPLE(variance_rounding):
        case F_SAMPLE(variance_temporary_space):
        case F_SAMPLE(variance_temporary_objects):
            read_variance(&s, &f);
            break;
        default:
            break;
        }
    return s;
}

void hw_check_sample_values(struct hw_checker *c, const char *heap, uint64_t pid,
                            const struct hw_check_sample *s)
{
    unsigned long long id = s->callstack, process = pid;
    if (s->freed > s->allocated || s->frees > s->allocs)
        hw_check_found(c, HW_CHECK_SAMPLE_FREED,
                       "callstack %llu of heap '%s' of pid %llu: %llu bytes in %llu calls freed of "
                       "%llu in %llu",
                       id, heap, process, (unsigned long long)s->freed,
                       (unsigned long long)s->frees, (unsigned long long)s->allocated,
                       (unsigned long long)s->allocs);
    if (s->temporary > s->freed)
        hw_check_found(c, HW_CHECK_SAMPLE_TEMPORARY,
                       "callstack %llu of heap '%s' of pid %llu: %llu bytes freed within a second, "
                       "%llu freed",
                       id, heap, process, (unsigned long long)s->temporary,
                       (unsigned long long)s->freed);
    if (s->bad_variance_field)
        hw_check_found(c, HW_CHECK_SAMPLE_VARIANCE,
                       "callstack %llu of heap '%s' of pid %llu: field %u is %g", id, heap, process,
                       s->bad_variance_field, s->bad_variance);
    uint64_t bytes = s->has_max ? s->max : s->allocated;
    uint64_t count = s->has_max ? s->max_count : s->allocs;
    if (bytes == 0 && count == 0)
        hw_check_found(c, HW_CHECK_SAMPLE_EMPTY, "callstack %llu of heap '%s' of pid %llu", id,
                       heap, process);
    else if (count == 0) /* allocations of no bytes do exist */
        hw_check_found(c, HW_CHECK_SAMPLE_COUNT,
                       "callstack %llu of heap '%s' of pid %llu: %llu bytes", id, heap, process,
                       (unsigned long long)bytes);
}
