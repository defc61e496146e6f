/*
 * Where a callback finds the address of the object that it is told about.
 *
 * JVMTI gives a callback pointers to tags, not objects. HotSpot keeps the tag in a record of its
 * walker, a few words behind the object's address:
 *
 *        ... | object | ... | tag |        <- tag pointer
 *
 * How many words lie between is not documented, so it is measured in this very process: a walk over
 * objects of our own, whose addresses are behind our JNI handles (they cannot move meanwhile). Just
 * one distance must fit all of them, or tags are used.
 */
#include <string.h>

#include "java/agent.h"

#include "base/banned.h"

enum { N = 3, FARTHEST = 6, TAG = 1 << 20 };

struct search {
    hw_jobject handle[N + 1];    /* the elements, then their array */
    uint32_t referred, referrer; /* bits: distances that fitted so far */
    uint32_t n_seen;
};

static uint64_t behind(hw_jobject handle)
{
    uint64_t at = (uint64_t)(uintptr_t)handle & ~(uint64_t)3, word;
    memcpy(&word, (const void *)(uintptr_t)at, sizeof word);
    return word;
}

static uint32_t fitting(const int64_t *tag, uint64_t address)
{
    uint32_t bits = 0;
    for (int i = 1; i <= FARTHEST; i++)
        if ((uint64_t)tag[-i] == address)
            bits |= 1u << i;
    return bits;
}

static int32_t on_reference(int32_t kind, const struct hw_jvm_reference_info *info,
                            int64_t class_tag, int64_t referrer_class_tag, int64_t size,
                            int64_t *tag, int64_t *referrer_tag, int32_t length, void *arg)
{
    (void)info, (void)class_tag, (void)referrer_class_tag, (void)size, (void)length;
    struct search *s = arg;
    int64_t i = *tag - TAG;
    if (kind == HW_REF_ELEMENT && referrer_tag && i >= 0 && i < N) {
        s->referred &= fitting(tag, behind(s->handle[i]));
        s->referrer &= fitting(referrer_tag, behind(s->handle[N]));
        s->n_seen++;
    }
    return 0; /* no further */
}

/* Bits with exactly one set: its place. */
static int only(uint32_t bits)
{
    return bits && !(bits & (bits - 1)) ? __builtin_ctz(bits) : 0;
}

static int make_objects(struct agent *a, struct search *s)
{
    hw_jvm_env jni = a->jni, ti = a->ti;
    hw_jobject object = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Object");
    if (!object)
        return HW_JAVA_FAILED;
    s->handle[N] = HW_JVM(jni, HW_JNI_NEW_ARRAY, hw_jni_array_fn *)(jni, N, object, NULL);
    if (!s->handle[N])
        return HW_JAVA_FAILED;
    for (int i = 0; i < N; i++) {
        s->handle[i] = HW_JVM(jni, HW_JNI_ALLOC_OBJECT, hw_jni_object_fn *)(jni, object);
        if (!s->handle[i])
            return HW_JAVA_FAILED;
        HW_JVM(jni, HW_JNI_SET_ELEMENT, hw_jni_set_fn *)(jni, s->handle[N], i, s->handle[i]);
        if (HW_JVM(ti, HW_TI_SET_TAG, hw_ti_set_tag_fn *)(ti, s->handle[i], TAG + i))
            return HW_JAVA_FAILED;
    }
    return HW_JAVA_OK;
}

int agent_cells_find(struct agent *a, struct agent_cells *out)
{
    hw_jvm_env jni = a->jni, ti = a->ti;
    const struct hw_jvm_callbacks callbacks = {.reference = on_reference};
    struct search s = {.referred = ~0u, .referrer = ~0u};
    if (HW_JVM(jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(jni, 2 * N) < 0)
        return HW_JAVA_FAILED;
    int rc = make_objects(a, &s);
    if (rc == 0 &&
        HW_JVM(ti, HW_TI_FOLLOW, hw_ti_follow_fn *)(ti, 0, NULL, s.handle[N], &callbacks, &s))
        rc = HW_JAVA_FAILED;
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni); /* no memory for our array */
    for (int i = 0; i < N && s.handle[i]; i++)
        (void)HW_JVM(ti, HW_TI_SET_TAG, hw_ti_set_tag_fn *)(ti, s.handle[i], 0);
    (void)HW_JVM(jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(jni, NULL);
    if (rc)
        return rc;
    *out = (struct agent_cells){only(s.referred), only(s.referrer)};
    return s.n_seen == N && out->referred && out->referrer ? HW_JAVA_OK : HW_JAVA_UNVERIFIED;
}
