/*
 * What the JVM says its heap holds: used = total - free, garbage included. Asked by Java's own
 * functions, since JVMTI has none; all of them are native ones, nothing of the program runs.
 */
#include "java/agent.h"

#include "base/banned.h"

static int64_t call_long(struct agent *a, hw_jobject o, hw_jobject class, const char *name)
{
    hw_jvm_env jni = a->jni;
    void *m = HW_JVM(jni, HW_JNI_METHOD_ID, hw_jni_member_fn *)(jni, class, name, "()J");
    return m ? HW_JVM(jni, HW_JNI_CALL_LONG, hw_jni_call_long_fn *)(jni, o, m, NULL) : 0;
}

uint64_t agent_heap_bytes(struct agent *a)
{
    hw_jvm_env jni = a->jni;
    int64_t total = 0, left = 0;
    if (HW_JVM(jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(jni, 8) < 0)
        return 0;
    hw_jobject class = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Runtime");
    void *get = class ? HW_JVM(jni, HW_JNI_STATIC_METHOD_ID, hw_jni_member_fn *)(
                            jni, class, "getRuntime", "()Ljava/lang/Runtime;")
                      : NULL;
    hw_jobject runtime =
        get ? HW_JVM(jni, HW_JNI_CALL_STATIC_OBJECT, hw_jni_call_fn *)(jni, class, get, NULL)
            : NULL;
    if (runtime) {
        total = call_long(a, runtime, class, "totalMemory");
        left = call_long(a, runtime, class, "freeMemory");
    }
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni); /* without an answer: 0 */
    (void)HW_JVM(jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(jni, NULL);
    return total > left && left > 0 ? (uint64_t)(total - left) : 0;
}
