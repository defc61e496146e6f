/*
 * A jmethodID points to a cell that points to the method; a Java name is a Symbol:
 *
 *     *id -> Method -> ConstMethod -> ConstantPool -> holder: Klass -> Symbol "com/x/Y$Z"
 *                           name_index --> [behind the pool's head] -> Symbol "method"
 */
#include "java/agent/agent_metadata.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum { MAX_STRUCTS = 100000, LOCALS = 16, MIN_PROOFS = 10 };

static struct {
    uint64_t const_method, constants, name_index, holder, pool_bytes, name, length, body;
    atomic_bool is_proved;
} place;

/* ---- what libjvm says of itself ---- */

static bool value_of(void *jvm, const char *symbol, uint64_t *out)
{
    const uint64_t *p = dlsym(jvm, symbol);
    if (p)
        *out = *p;
    return p != NULL;
}

bool agent_metadata_field(void *jvm, const char *type, const char *field, bool is_static,
                          uint64_t *out)
{
    uint64_t at, stride, o_type, o_field, o_offset, o_address;
    if (!value_of(jvm, "gHotSpotVMStructs", &at) ||
        !value_of(jvm, "gHotSpotVMStructEntryArrayStride", &stride) ||
        !value_of(jvm, "gHotSpotVMStructEntryTypeNameOffset", &o_type) ||
        !value_of(jvm, "gHotSpotVMStructEntryFieldNameOffset", &o_field) ||
        !value_of(jvm, "gHotSpotVMStructEntryOffsetOffset", &o_offset) ||
        !value_of(jvm, "gHotSpotVMStructEntryAddressOffset", &o_address))
        return false;
    const char *entry = (const char *)(uintptr_t)at;
    for (int i = 0; i < MAX_STRUCTS; i++, entry += stride) {
        const char *t = *(const char *const *)(const void *)(entry + o_type);
        const char *f = *(const char *const *)(const void *)(entry + o_field);
        if (!t)
            return false;
        if (!f || strcmp(t, type) != 0 || strcmp(f, field) != 0)
            continue;
        const uint64_t *address = *(const uint64_t *const *)(const void *)(entry + o_address);
        if (is_static && !address)
            return false;
        *out = is_static ? *address : *(const uint64_t *)(const void *)(entry + o_offset);
        return true;
    }
    return false;
}

static bool size_of(void *jvm, const char *type, uint64_t *out)
{
    uint64_t first, stride, o_type, o_size;
    if (!value_of(jvm, "gHotSpotVMTypes", &first) ||
        !value_of(jvm, "gHotSpotVMTypeEntryArrayStride", &stride) ||
        !value_of(jvm, "gHotSpotVMTypeEntryTypeNameOffset", &o_type) ||
        !value_of(jvm, "gHotSpotVMTypeEntrySizeOffset", &o_size))
        return false;
    const char *entry = (const char *)(uintptr_t)first;
    for (int i = 0; i < MAX_STRUCTS; i++, entry += stride) {
        const char *t = *(const char *const *)(const void *)(entry + o_type);
        if (!t)
            return false;
        if (strcmp(t, type) == 0) {
            *out = *(const uint64_t *)(const void *)(entry + o_size);
            return true;
        }
    }
    return false;
}

static bool find_fields(void *jvm)
{
    return agent_metadata_field(jvm, "Method", "_constMethod", false, &place.const_method) &&
           agent_metadata_field(jvm, "ConstMethod", "_constants", false, &place.constants) &&
           agent_metadata_field(jvm, "ConstMethod", "_name_index", false, &place.name_index) &&
           agent_metadata_field(jvm, "ConstantPool", "_pool_holder", false, &place.holder) &&
           agent_metadata_field(jvm, "Klass", "_name", false, &place.name) &&
           agent_metadata_field(jvm, "Symbol", "_length", false, &place.length) &&
           agent_metadata_field(jvm, "Symbol", "_body", false, &place.body) &&
           size_of(jvm, "ConstantPool", &place.pool_bytes);
}

/* ---- reading ---- */

static const char *pointer(const char *p, uint64_t offset)
{
    const char *v = p ? *(const char *const *)(const void *)(p + offset) : NULL;
    return (uintptr_t)v % sizeof v ? NULL : v;
}

static uint16_t number(const char *p, uint64_t offset)
{
    return *(const uint16_t *)(const void *)(p + offset);
}

/* Appends a symbol's text; false: it did not fit, and ends in "...". */
static bool add_symbol(const char *symbol, bool is_class, char *out, size_t size)
{
    size_t n = strlen(out), length = number(symbol, place.length), room = size - 1 - n;
    bool fits = length <= room;
    memcpy(out + n, symbol + place.body, fits ? length : room);
    out[n + (fits ? length : room)] = '\0';
    for (char *p = out + n; *p && is_class; p++)
        if (*p == '/')
            *p = '.';
    if (!fits)
        memcpy(out + size - sizeof "...", "...", sizeof "...");
    return fits;
}

static void read_name(void *method, char *out, size_t size)
{
    const char *constants = pointer(pointer(method, 0), place.const_method);
    const char *pool = pointer(constants, place.constants);
    const char *class = pointer(pointer(pool, place.holder), place.name);
    if (!class)
        return;
    uint64_t entry = place.pool_bytes + number(constants, place.name_index) * sizeof(void *);
    const char *name = pointer(pool, entry);
    size_t n;
    if (!name || !add_symbol(class, /* is_class = */ true, out, size) ||
        (n = strlen(out)) + 2 > size)
        return;
    memcpy(out + n, ".", sizeof ".");
    (void)add_symbol(name, /* is_class = */ false, out, size); /* the end of a long one is lost */
}

void agent_metadata_name(void *method, char *out, size_t size)
{
    out[0] = '\0';
    if (atomic_load_explicit(&place.is_proved, memory_order_acquire) && method)
        read_name(method, out, size);
}

/* ---- the proof ---- */

static bool is_same(hw_jvm_env ti, void *method)
{
    struct agent_method_naming told = {.line = 0};
    char own[sizeof told.function] = "";
    hw_jobject c;
    read_name(method, own, sizeof own);
    return agent_method_name(ti, method, -1, &told, &c) && strcmp(told.function, own) == 0;
}

void agent_metadata_begin(void *jvm, hw_jvm_env ti, hw_jvm_env jni)
{
    int32_t n = 0;
    void **list = NULL;
    bool good =
        find_fields(jvm) && HW_JVM(jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(jni, 8 * LOCALS) == 0;
    if (!good)
        return;
    hw_jobject c = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Thread");
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni);
    if (c && HW_JVM(ti, HW_TI_CLASS_METHODS, hw_ti_list_fn *)(ti, c, &n, &list) == 0) {
        for (int32_t i = 0; i < n && good; i++)
            good = is_same(ti, list[i]);
        (void)HW_JVM(ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(ti, list);
    }
    (void)HW_JVM(jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(jni, NULL);
    if (good && n >= MIN_PROOFS) /* release: pairs with the acquire of agent_metadata_name() */
        atomic_store_explicit(&place.is_proved, true, memory_order_release);
}
