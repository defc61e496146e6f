/*
 * The table of classes: what a walk can no longer ask. It is written before the JVM is stopped;
 * a class that is loaded in between has tag 0 and is unknown.
 *
 * JNI hands out local references; a frame of them per class keeps their number small.
 */
#include <stdlib.h>
#include <string.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum { LOCALS = 64 };

struct table {
    struct agent *a;
    struct agent_values *values;
    bool failed;
    struct agent_out out;
};

static void put(struct table *t, uint64_t v)
{
    agent_put(&t->out, v);
}

static void put_text(struct table *t, const char *text)
{
    agent_put_text(&t->out, text);
}

static void give_back(struct table *t, void *p)
{
    (void)HW_JVM(t->a->ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(t->a->ti, p); /* NULL is fine */
}

static uint64_t number_of(struct table *t, hw_jobject c)
{
    int64_t tag = 0;
    if (c)
        (void)HW_JVM(t->a->ti, HW_TI_GET_TAG, hw_ti_get_tag_fn *)(t->a->ti, c, &tag); /* else 0 */
    return (uint64_t)tag;
}

static void put_interfaces(struct table *t, hw_jobject c)
{
    int32_t n = 0;
    void **list = NULL;
    if (HW_JVM(t->a->ti, HW_TI_INTERFACES, hw_ti_list_fn *)(t->a->ti, c, &n, &list))
        n = 0;
    put(t, (uint64_t)n);
    for (int32_t i = 0; i < n; i++)
        put(t, number_of(t, list[i]));
    give_back(t, list);
}

static void put_fields(struct table *t, hw_jobject c, uint32_t number)
{
    int32_t n = 0;
    void **list = NULL;
    if (HW_JVM(t->a->ti, HW_TI_CLASS_FIELDS, hw_ti_list_fn *)(t->a->ti, c, &n, &list))
        n = 0;
    put(t, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        char *name = NULL, *signature = NULL;
        int32_t modifiers = 0;
        /* Both leave their results alone when they fail. */
        (void)HW_JVM(t->a->ti, HW_TI_FIELD_NAME, hw_ti_field_name_fn *)(t->a->ti, c, list[i], &name,
                                                                        &signature, NULL);
        (void)HW_JVM(t->a->ti, HW_TI_FIELD_MODIFIERS, hw_ti_field_int_fn *)(t->a->ti, c, list[i],
                                                                            &modifiers);
        put(t, (modifiers & HW_ACC_STATIC) != 0);
        put_text(t, name);
        put_text(t, signature);
        agent_values_field(t->values, number, name, signature, (modifiers & HW_ACC_STATIC) != 0,
                           list[i]);
        give_back(t, name);
        give_back(t, signature);
    }
    give_back(t, list);
}

static void put_class(struct table *t, hw_jobject c, uint32_t number)
{
    hw_jvm_env jni = t->a->jni, ti = t->a->ti;
    int32_t status = 0;
    char *signature = NULL;
    (void)HW_JVM(ti, HW_TI_CLASS_STATUS, hw_ti_int_fn *)(ti, c, &status); /* else 0: no fields */
    (void)HW_JVM(ti, HW_TI_CLASS_SIGNATURE, hw_ti_signature_fn *)(ti, c, &signature, NULL);
    bool array = signature && signature[0] == '[';
    bool prepared = !array && (status & HW_TI_PREPARED);
    hw_jobject super = HW_JVM(jni, HW_JNI_GET_SUPERCLASS, hw_jni_object_fn *)(jni, c);
    put(t, (array ? HW_JAVA_CLASS_ARRAY : 0u) | (prepared ? HW_JAVA_CLASS_PREPARED : 0u) |
               (!array && !super ? HW_JAVA_CLASS_INTERFACE : 0u));
    uint64_t super_number = number_of(t, super);
    put(t, super_number);
    put_text(t, signature);
    agent_values_class(t->values, number, (uint32_t)super_number, signature);
    if (prepared) {
        put_interfaces(t, c);
        put_fields(t, c, number);
    } else {
        put(t, 0);
        put(t, 0);
    }
    give_back(t, signature);
}

int agent_classes_write(struct agent *a, int fd, struct agent_values *values, uint32_t *n_out)
{
    hw_jvm_env jni = a->jni, ti = a->ti;
    int32_t n = 0;
    hw_jobject *list = NULL;
    struct table *t = malloc(sizeof *t);
    if (!t)
        return HW_JAVA_FAILED;
    t->a = a;
    t->values = values;
    t->failed = false;
    agent_put_begin(&t->out, fd);
    if (HW_JVM(ti, HW_TI_LOADED_CLASSES, hw_ti_classes_fn *)(ti, &n, &list)) {
        free(t);
        return HW_JAVA_FAILED;
    }
    t->failed = agent_values_begin(values, (uint32_t)n) != HW_JAVA_OK;
    put(t, (uint64_t)n);
    for (int32_t i = 0; i < n && !t->failed; i++)
        t->failed = HW_JVM(ti, HW_TI_SET_TAG, hw_ti_set_tag_fn *)(ti, list[i], i + 1) != 0;
    for (int32_t i = 0; i < n && !t->failed; i++) {
        if (HW_JVM(jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(jni, LOCALS) < 0) {
            t->failed = true;
            break;
        }
        put_class(t, list[i], (uint32_t)i + 1);
        (void)HW_JVM(jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(jni, NULL);
    }
    for (int32_t i = 0; i < n; i++)
        HW_JVM(jni, HW_JNI_DELETE_LOCAL, hw_jni_delete_fn *)(jni, list[i]);
    bool failed = !agent_put_end(&t->out) || t->failed;
    give_back(t, list);
    if (!failed)
        agent_values_inherit(values);
    free(t);
    *n_out = (uint32_t)n;
    return failed ? HW_JAVA_FAILED : HW_JAVA_OK;
}
