/*
 * The few numbers that a walk reads out of objects: addresses and sizes of memory outside of the
 * heap, of the classes in natives.def. Nothing else of an object's contents is looked at.
 *
 * JVMTI has a callback for such fields, one call for each primitive field of every object: more
 * than the walk itself costs. HotSpot's number of an instance field is its offset, shifted by two
 * bits, so a walk that knows addresses reads the field where it is. That this is so is proved by
 * each walk, with an object of ours whose only field has a value that we have put there.
 *
 *     z_stream   +56 state ---> deflate_state / inflate_state  +0 strm ---> the z_stream
 *
 * What zlib holds is in its own structures. Their layout is no interface; it is trusted if the
 * values there fit together. They are read like another process's memory: a thread may have been in
 * the middle of freeing them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "java/agent/agent.h"

#include "base/banned.h"

#define PROBE INT64_C(0x5eed1e55b0a7f00d)

enum { SHIFT = 2, N_ROWS = sizeof hw_java_natives / sizeof *hw_java_natives };

/* ---- before the walk: where the fields are ---- */

int agent_values_begin(struct agent_values *v, uint32_t n_classes)
{
    memset(v, 0, sizeof *v);
    v->n_classes = n_classes;
    v->super = calloc((size_t)n_classes + 1, sizeof *v->super);
    v->row_of = calloc((size_t)n_classes + 1, sizeof *v->row_of);
    return v->super && v->row_of ? HW_JAVA_OK : HW_JAVA_FAILED;
}

void agent_values_done(struct agent_values *v)
{
    free(v->super);
    free(v->row_of);
    memset(v, 0, sizeof *v);
}

void agent_values_class(struct agent_values *v, uint32_t number, uint32_t super,
                        const char *signature)
{
    v->super[number] = super;
    for (int i = 0; signature && i < N_ROWS && v->n < AGENT_VALUE_CLASSES; i++) {
        if (strcmp(signature, hw_java_natives[i].signature) != 0)
            continue;
        struct agent_value_class *k = &v->of[v->n++];
        *k = (struct agent_value_class){.row = i, .address = -1, .bytes = -1};
        v->row_of[number] = (uint8_t)v->n;
    }
}

void agent_values_field(struct agent_values *v, uint32_t number, const char *name,
                        const char *signature, bool is_static, const void *id)
{
    uint8_t at = v->row_of[number];
    if (!at || is_static || !name || !signature || strcmp(signature, "J") != 0)
        return;
    struct agent_value_class *k = &v->of[at - 1];
    const struct hw_java_native_row *row = &hw_java_natives[k->row];
    int32_t offset = (int32_t)((uintptr_t)id >> SHIFT);
    if (strcmp(name, row->address) == 0)
        k->address = offset;
    else if (row->bytes && strcmp(name, row->bytes) == 0)
        k->bytes = offset;
}

/* Classes have what their superclasses have. */
void agent_values_inherit(struct agent_values *v)
{
    for (uint32_t c = 1; c <= v->n_classes; c++) {
        uint32_t s = c;
        for (int depth = 0; depth < 8 && s && s <= v->n_classes && !v->row_of[s]; depth++)
            s = v->super[s];
        if (s && s <= v->n_classes)
            v->row_of[c] = v->row_of[s];
    }
}

/* ---- the proof ---- */

/* A java.lang.Long of ours, not one that Java code has. */
hw_jobject agent_values_probe(struct agent *a)
{
    hw_jvm_env jni = a->jni;
    if (a->probe)
        return a->probe;
    hw_jobject c = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Long");
    void *field = c ? HW_JVM(jni, HW_JNI_FIELD_ID, hw_jni_member_fn *)(jni, c, "value", "J") : NULL;
    hw_jobject o = field ? HW_JVM(jni, HW_JNI_ALLOC_OBJECT, hw_jni_object_fn *)(jni, c) : NULL;
    if (o)
        HW_JVM(jni, HW_JNI_SET_LONG, hw_jni_set_long_fn *)(jni, o, field, PROBE);
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni); /* no memory for it */
    a->probe = o;
    a->probe_offset = (int32_t)((uintptr_t)field >> SHIFT);
    return o;
}

static int64_t load(uint64_t object, int32_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)(uintptr_t)object + offset, sizeof value);
    return value;
}

bool agent_values_proved(const struct agent_values *v)
{
    return v->probe && v->probe_offset > 0 && v->probe_offset <= 24 &&
           load(agent_address(v->probe), v->probe_offset) == PROBE;
}

/* ---- zlib ---- */

struct zlib_block { /* what is at a fixed place in front of both kinds of state */
    uint64_t words[16];
};

static bool peek(uint64_t address, void *out, size_t n)
{
    struct iovec to = {out, n}, from = {(void *)(uintptr_t)address, n};
    return address >= 4096 && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)n;
}

static bool is_power(uint64_t v, uint64_t bits)
{
    return bits >= 8 && bits <= 15 && v == (uint64_t)1 << bits;
}

/*
 * zlib 1.2.11 to 1.3, 64 bit:
 *   deflate_state  strm 0, pending_buf 16, its size 24, w_size 80 (int), w_bits 84, window 96,
 *                  window_size 104, prev 112, head 120
 *   inflate_state  strm 0, mode 8 (int), wbits 56 (int), wsize 60, window 72
 */
static size_t inside(uint64_t stream, bool packs, uint64_t out[AGENT_MAX_INNER])
{
    enum { STATE = 56, MODE_FIRST = 16180, MODE_LAST = 16211 };
    struct zlib_block s;
    uint64_t state;
    size_t n = 0;
    if (!peek(stream + STATE, &state, sizeof state) || !peek(state, &s, sizeof s) ||
        s.words[0] != stream)
        return 0;
    out[n++] = state;
    uint32_t w_size = (uint32_t)s.words[10], w_bits = (uint32_t)(s.words[10] >> 32);
    if (packs && is_power(w_size, w_bits) && s.words[13] == 2 * (uint64_t)w_size) {
        out[n++] = s.words[12];
        out[n++] = s.words[14];
        out[n++] = s.words[15];
        out[n++] = s.words[2];
    }
    uint32_t mode = (uint32_t)s.words[1], wbits = (uint32_t)s.words[7];
    uint32_t wsize = (uint32_t)(s.words[7] >> 32);
    bool reset = wsize == 0 && wbits >= 8 && wbits <= 15; /* keeps its window */
    if (!packs && mode >= MODE_FIRST && mode <= MODE_LAST && s.words[9] &&
        (reset || is_power(wsize, wbits)))
        out[n++] = s.words[9];
    return n;
}

size_t agent_values_inner(const struct agent_values *v, uint32_t number, uint64_t address,
                          uint64_t out[AGENT_MAX_INNER])
{
    enum hw_java_native kind = hw_java_natives[v->of[v->row_of[number] - 1].row].kind;
    bool packs = kind == HW_JAVA_NATIVE_DEFLATER;
    if (!address || (!packs && kind != HW_JAVA_NATIVE_INFLATER))
        return 0;
    return inside(address, packs, out);
}

bool agent_values_read(const struct agent_values *v, uint32_t number, uint64_t object,
                       uint64_t *address, uint64_t *bytes)
{
    const struct agent_value_class *k = &v->of[v->row_of[number] - 1];
    if (k->address <= 0)
        return false;
    *address = (uint64_t)load(object, k->address);
    *bytes = k->bytes > 0 ? (uint64_t)load(object, k->bytes) : 0;
    return true;
}
