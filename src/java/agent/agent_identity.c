/*
 * Where a callback finds the address of the object that is reported to it.
 *
 * JVMTI gives a callback pointers to tags, not objects. HotSpot keeps the tag in a record of its
 * walker, a few words behind the object's address:
 *
 *        ... | object | ... | tag |        <- tag pointer
 *
 * How many words lie between is not documented, so it is measured in this very process, with
 * objects of our own whose addresses are behind our JNI handles (objects cannot move meanwhile).
 * Once per process, in the roots' part of a walk that is aborted before the first object is
 * visited: a walk that has visited one ends with a pass over the whole heap in JDK 17 (70 ms for
 * 200 MB), even from a starting point of one's own.
 *
 * Referrers have a record of another form. HotSpot's distance is assumed there, and each walk
 * verifies it: our array must appear with its own address.
 */
#include <string.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum { FARTHEST = 6, REFERRER = 1 };

static int cached; /* distance; 0 = not measured yet. Under agent.c's `busy` */

struct search {
    const struct agent_known *known;
    uint32_t distances; /* bits that fitted so far */
    uint32_t seen;      /* bits: our objects */
};

uint64_t agent_address(hw_jobject handle)
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

static int32_t on_root(int32_t kind, const union hw_jvm_reference_info *info, int64_t class_tag,
                       int64_t referrer_class_tag, int64_t size, int64_t *tag,
                       int64_t *referrer_tag, int32_t length, void *arg)
{
    (void)info, (void)class_tag, (void)referrer_class_tag, (void)size, (void)length;
    struct search *s = arg;
    int64_t i = *tag - AGENT_TAG;
    if (referrer_tag)
        return HW_TI_ABORT; /* the roots are over */
    if (kind == HW_ROOT_JNI_LOCAL && i >= 0 && i <= AGENT_KNOWN) {
        s->distances &= fitting(tag, agent_address(s->known->handle[i]));
        s->seen |= 1u << i;
    }
    return s->seen == (1u << (AGENT_KNOWN + 1)) - 1 ? HW_TI_ABORT : 0;
}

static int make_objects(struct agent *a, struct agent_known *k)
{
    hw_jvm_env jni = a->jni;
    hw_jobject object = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Object");
    if (!object)
        return HW_JAVA_FAILED;
    hw_jobject array =
        HW_JVM(jni, HW_JNI_NEW_ARRAY, hw_jni_array_fn *)(jni, AGENT_KNOWN, object, NULL);
    if (!array)
        return HW_JAVA_FAILED;
    for (int i = 0; i < AGENT_KNOWN; i++) {
        k->handle[i] = HW_JVM(jni, HW_JNI_ALLOC_OBJECT, hw_jni_object_fn *)(jni, object);
        if (!k->handle[i])
            return HW_JAVA_FAILED;
        HW_JVM(jni, HW_JNI_SET_ELEMENT, hw_jni_set_fn *)(jni, array, i, k->handle[i]);
    }
    k->handle[AGENT_KNOWN] = array;
    return HW_JAVA_OK;
}

int agent_known_make(struct agent *a)
{
    hw_jvm_env jni = a->jni;
    struct agent_known *k = &a->known;
    if (k->handle[AGENT_KNOWN])
        return HW_JAVA_OK;
    int rc = make_objects(a, k);
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni); /* no memory for our array */
    return rc;
}

int agent_known_tag(struct agent *a)
{
    for (int i = 0; i <= AGENT_KNOWN; i++)
        if (HW_JVM(a->ti, HW_TI_SET_TAG, hw_ti_set_tag_fn *)(a->ti, a->known.handle[i],
                                                             AGENT_TAG + i))
            return HW_JAVA_FAILED;
    return HW_JAVA_OK;
}

int agent_cells_find(struct agent *a, const struct agent_known *k, struct agent_cells *out)
{
    const struct hw_jvm_callbacks callbacks = {.reference = on_root};
    struct search s = {.known = k, .distances = ~0u};
    if (!cached) {
        if (HW_JVM(a->ti, HW_TI_FOLLOW, hw_ti_follow_fn *)(a->ti, 0, NULL, NULL, &callbacks, &s))
            return HW_JAVA_FAILED;
        bool one = s.distances && !(s.distances & (s.distances - 1));
        if (s.seen != (1u << (AGENT_KNOWN + 1)) - 1 || !one)
            return HW_JAVA_UNVERIFIED;
        cached = __builtin_ctz(s.distances);
    }
    *out = (struct agent_cells){cached, REFERRER};
    return HW_JAVA_OK;
}
