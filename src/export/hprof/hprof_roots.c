/* Roots of a heap graph, as a Java heap dump file has them. */
#include <string.h>

#include "base/memory/map64.h"
#include "export/hprof/hprof_job.h"

#include "base/banned.h"

struct root_form {
    enum hw_root_type type;
    uint8_t tag, n_more; /* n_more: bytes after the object's id */
};

static const struct root_form *form_of(enum hw_root_type type)
{
    static const struct root_form forms[] = {{HW_ROOT_JNI_GLOBAL, 0x01, HW_HPROF_ID_BYTES},
                                             {HW_ROOT_JNI_LOCAL, 0x02, 8},
                                             {HW_ROOT_JAVA_FRAME, 0x03, 8},
                                             {HW_ROOT_NATIVE_STACK, 0x04, 4},
                                             {HW_ROOT_STICKY_CLASS, 0x05, 0},
                                             {HW_ROOT_THREAD_BLOCK, 0x06, 4},
                                             {HW_ROOT_MONITOR_USED, 0x07, 0},
                                             {HW_ROOT_THREAD_OBJECT, 0x08, 8}};
    static const struct root_form unknown = {HW_ROOT_UNKNOWN, 0xff, 0};
    for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++)
        if (forms[i].type == type)
            return &forms[i];
    return &unknown;
}

static uint32_t stack_number(const struct hw_hprof_out_job *j, uint32_t thread)
{
    hw_callsite_id leaf = j->g->threads.v[thread].callsite;
    uint64_t whose = thread;
    if (leaf.v != HW_ID_NONE && hw_map64_get(&j->stack_of, leaf.v, &whose))
        return HW_HPROF_FIRST_STACK + (uint32_t)whose;
    return HW_HPROF_FIRST_STACK + thread;
}

/* A root held by a thread: the thread's number, then the frame's depth or the stack's number. */
static void put_held_root(struct hw_hprof_out_job *j, const struct hw_heap_holder *h)
{
    const struct root_form *form = form_of((enum hw_root_type)h->root_type);
    bool is_thread = h->root_type == HW_ROOT_THREAD_OBJECT;
    uint32_t more = is_thread ? stack_number(j, h->thread) : h->depth; /* HW_ID_NONE is -1 */
    hw_hprof_out_put(&j->segment, form->tag, 1);
    hw_hprof_out_put(&j->segment, hw_hprof_out_object_id(h->object), HW_HPROF_ID_BYTES);
    if (form->n_more == 8) {
        hw_hprof_out_put(&j->segment, (uint64_t)h->thread + 1, 4);
        hw_hprof_out_put(&j->segment, more, 4);
    } else {
        hw_hprof_out_put_zeros(&j->segment, form->n_more);
    }
    hw_hprof_out_end_if_full(j);
}

void hw_hprof_out_put_root(struct hw_hprof_out_job *j, uint32_t o)
{
    enum hw_root_type type = hw_object_root_type(j->g, o);
    const struct root_form *form = form_of(type);
    size_t n;
    const struct hw_heap_holder *all = hw_object_holders(j->g, o, &n);
    bool is_put = false;
    for (size_t i = 0; i < n; i++)
        if (all[i].thread != HW_ID_NONE && all[i].root_type != HW_ROOT_COMPILED_CODE) {
            put_held_root(j, &all[i]);
            is_put |= all[i].root_type == type;
        }
    if (is_put)
        return;
    hw_hprof_out_put(&j->segment, form->tag, 1);
    hw_hprof_out_put(&j->segment, hw_hprof_out_object_id(o), HW_HPROF_ID_BYTES);
    hw_hprof_out_put_zeros(&j->segment, form->n_more); /* the thread is unknown */
    hw_hprof_out_end_if_full(j);
}
