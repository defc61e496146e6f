/*
 * What the JVM says its heap holds: used = total - free, garbage included. Read through Java's own
 * functions, since JVMTI has none; all of them are native, so no code of the program runs.
 */
#include "java/agent/agent.h"

#include "base/banned.h"

static int64_t call_long(struct agent *a, void *method)
{
    hw_jvm_env jni = a->jni;
    return method ? HW_JVM(jni, HW_JNI_CALL_LONG, hw_jni_call_long_fn *)(jni, a->heap.runtime,
                                                                         method, NULL)
                  : 0;
}

static void find(struct agent *a)
{
    hw_jvm_env jni = a->jni;
    hw_jobject class = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Runtime");
    void *get = class ? HW_JVM(jni, HW_JNI_STATIC_METHOD_ID, hw_jni_member_fn *)(
                            jni, class, "getRuntime", "()Ljava/lang/Runtime;")
                      : NULL;
    if (get)
        a->heap.runtime =
            HW_JVM(jni, HW_JNI_CALL_STATIC_OBJECT, hw_jni_call_fn *)(jni, class, get, NULL);
    if (a->heap.runtime) {
        const struct {
            void **out;
            const char *name;
        } all[] = {{&a->heap.total, "totalMemory"},
                   {&a->heap.left, "freeMemory"},
                   {&a->heap.most, "maxMemory"}};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            *all[i].out =
                HW_JVM(jni, HW_JNI_METHOD_ID, hw_jni_member_fn *)(jni, class, all[i].name, "()J");
    }
}

uint64_t agent_heap_bytes(struct agent *a, uint64_t *out_left)
{
    hw_jvm_env jni = a->jni;
    int64_t total = 0, left = 0, most = 0;
    if (!a->heap.runtime)
        find(a);
    if (a->heap.runtime) {
        total = call_long(a, a->heap.total);
        left = call_long(a, a->heap.left);
        most = call_long(a, a->heap.most);
    }
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni); /* without an answer: 0 */
    bool known = total > left && left >= 0;
    *out_left = known && most > total - left ? (uint64_t)(most - (total - left)) : 0;
    return known ? (uint64_t)(total - left) : 0;
}
