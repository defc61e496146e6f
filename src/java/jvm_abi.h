/*
 * jvm_abi.h - the few entries of JNI's and JVMTI's function tables that the agent calls
 *
 * Why:     both interfaces are tables of pointers at fixed places, the same in every JVM since
 *          2006; with their numbers here, building needs no JDK and the library links no JVM.
 * Shapes:  an environment is a pointer to a pointer to the table: HW_JVM(env, PLACE, type)(env, …).
 *          A test compares the places with a JDK's own headers where one is installed.
 * Source:  the Java Native Interface and JVM Tool Interface specifications
 */
#ifndef HW_JAVA_JVM_ABI_H
#define HW_JAVA_JVM_ABI_H

#include <stdbool.h>
#include <stdint.h>

typedef void *const **hw_jvm_env; /* a JavaVM, a JNIEnv or a jvmtiEnv */
typedef void *hw_jobject;

#define HW_JVM(env, place, type) ((type)(*(env))[place])

enum hw_jvm_place { /* JavaVM */
                    HW_VM_DETACH = 5,
                    HW_VM_GET_ENV = 6,
                    HW_VM_ATTACH_DAEMON = 7
};

enum hw_jni_place {
    HW_JNI_FIND_CLASS = 6,
    HW_JNI_GET_SUPERCLASS = 10,
    HW_JNI_EXCEPTION_CLEAR = 17,
    HW_JNI_PUSH_FRAME = 19,
    HW_JNI_POP_FRAME = 20,
    HW_JNI_DELETE_LOCAL = 23,
    HW_JNI_IS_SAME = 24,
    HW_JNI_ALLOC_OBJECT = 27,
    HW_JNI_OBJECT_CLASS = 31,
    HW_JNI_METHOD_ID = 33,
    HW_JNI_CALL_OBJECT = 36, /* the calls take their arguments in an array */
    HW_JNI_CALL_LONG = 54,
    HW_JNI_FIELD_ID = 94,
    HW_JNI_GET_LONG = 101,
    HW_JNI_SET_LONG = 110,
    HW_JNI_STATIC_METHOD_ID = 113,
    HW_JNI_CALL_STATIC_OBJECT = 116,
    HW_JNI_STRING_BYTES = 169,
    HW_JNI_STRING_BYTES_DONE = 170,
    HW_JNI_NEW_ARRAY = 172,
    HW_JNI_SET_ELEMENT = 174,
    HW_JNI_NEW_WEAK = 226,
    HW_JNI_DELETE_WEAK = 227
};

enum hw_jvmti_place { /* a function's number in the specification, less one */
                      HW_TI_EVENT_MODE = 1,
                      HW_TI_ALL_THREADS = 3,
                      HW_TI_THREAD_INFO = 8,
                      HW_TI_CURRENT_THREAD = 17,
                      HW_TI_DEALLOCATE = 46,
                      HW_TI_CLASS_SIGNATURE = 47,
                      HW_TI_CLASS_STATUS = 48,
                      HW_TI_SOURCE_FILE = 49,
                      HW_TI_CLASS_METHODS = 51,
                      HW_TI_CLASS_FIELDS = 52,
                      HW_TI_INTERFACES = 53,
                      HW_TI_FIELD_NAME = 59,
                      HW_TI_FIELD_MODIFIERS = 61,
                      HW_TI_METHOD_NAME = 63,
                      HW_TI_METHOD_CLASS = 64,
                      HW_TI_METHOD_LINES = 69,
                      HW_TI_METHOD_IS_NATIVE = 75,
                      HW_TI_LOADED_CLASSES = 77,
                      HW_TI_GET_TAG = 105,
                      HW_TI_SET_TAG = 106,
                      HW_TI_STACK = 103,
                      HW_TI_FOLLOW = 114,
                      HW_TI_EVENT_CALLBACKS = 121,
                      HW_TI_DISPOSE = 126,
                      HW_TI_ADD_CAPABILITIES = 141,
                      HW_TI_HEAP_INTERVAL = 155
};

enum {
    HW_JNI_VERSION = 0x00010006,
    HW_TI_VERSION = 0x30010200,
    HW_TI_CAN_TAG = 1, /* first bit of the capabilities */
    HW_TI_CAPABILITY_BYTES = 16,
    HW_TI_CAN_SOURCE_FILE = 11, /* bits */
    HW_TI_CAN_LINES = 12,
    HW_TI_CAN_EXHAUSTED = 39, /* of the heap */
    HW_TI_CAN_SAMPLE = 43,
    HW_TI_EVENT_VM_DEATH = 51,
    HW_TI_EVENT_CLASS_LOAD = 55,
    HW_TI_EVENT_CLASS_PREPARE = 56,
    HW_TI_EVENT_EXHAUSTED = 80,
    HW_TI_EVENT_SAMPLED = 86,
    HW_TI_FIRST_EVENT = 50,
    HW_TI_EVENTS = 37,
    HW_TI_VISIT = 0x100,
    HW_TI_ABORT = 0x8000,
    HW_TI_PREPARED = 2,
    HW_TI_ARRAY = 16,
    HW_TI_PRIMITIVE = 32,
    HW_ACC_STATIC = 8,
    HW_ACC_INTERFACE = 0x200
};

struct hw_jvm_attach {
    int32_t version;
    const char *name;
    hw_jobject group;
};

/* How one thing refers to another: jvmtiHeapReferenceKind. */
enum hw_jvm_reference {
    HW_REF_CLASS = 1,
    HW_REF_FIELD = 2,
    HW_REF_ELEMENT = 3,
    HW_REF_LOADER = 4,
    HW_REF_SIGNERS = 5,
    HW_REF_DOMAIN = 6,
    HW_REF_INTERFACE = 7,
    HW_REF_STATIC = 8,
    HW_REF_CONSTANT = 9,
    HW_REF_SUPERCLASS = 10,
    HW_ROOT_JNI_GLOBAL = 21,
    HW_ROOT_SYSTEM_CLASS = 22,
    HW_ROOT_MONITOR = 23,
    HW_ROOT_STACK = 24,
    HW_ROOT_JNI_LOCAL = 25,
    HW_ROOT_THREAD = 26,
    HW_ROOT_OTHER = 27
};

/* Roots that a thread holds: it, and what is on its stack. */
static inline bool hw_jvm_is_on_stack(uint32_t kind)
{
    return kind == HW_ROOT_STACK || kind == HW_ROOT_JNI_LOCAL;
}

static inline bool hw_jvm_has_holder(uint32_t kind)
{
    return kind == HW_ROOT_THREAD || hw_jvm_is_on_stack(kind);
}

/* jvmtiHeapReferenceInfo: the number of a field, element or constant; or of roots on a stack. */
struct hw_jvm_on_stack {
    int64_t thread_tag, thread_id;
    int32_t depth; /* 0 = the innermost method */
    void *method;
    int64_t bci;  /* HW_ROOT_STACK only, as is */
    int32_t slot; /* this */
};
union hw_jvm_reference_info {
    int32_t index;
    struct hw_jvm_on_stack on_stack;
};

struct hw_jvm_thread_info {
    char *name;
    int32_t priority;
    uint8_t is_daemon;
    hw_jobject group, loader;
};

typedef int32_t hw_jvm_reference_fn(int32_t kind, const union hw_jvm_reference_info *info,
                                    int64_t class_tag, int64_t referrer_class_tag, int64_t size,
                                    int64_t *tag, int64_t *referrer_tag, int32_t length, void *arg);

/* value: a jvalue, eight bytes whatever its type. */
typedef int32_t hw_jvm_primitive_fn(int32_t kind, const union hw_jvm_reference_info *info,
                                    int64_t class_tag, int64_t *tag, int64_t value, int32_t type,
                                    void *arg);

struct hw_jvm_callbacks {
    void *iteration;
    hw_jvm_reference_fn *reference;
    hw_jvm_primitive_fn *primitive;
    void *others[13];
};

/* One entry of GetLineNumberTable. */
struct hw_jvm_line {
    int64_t start;
    int32_t line;
};

/* One of GetStackTrace. */
struct hw_jvm_frame {
    void *method;
    int64_t bci; /* -1: a native method */
};

/* AsyncGetCallTrace, which libjvm exports beside its interfaces. */
struct hw_jvm_call {
    int32_t bci; /* -3: a native method */
    void *method;
};
struct hw_jvm_trace {
    void *env;
    int32_t n; /* <= 0: there is none, and why */
    struct hw_jvm_call *calls;
};
enum hw_jvm_trace_failure {
    HW_TRACE_COLLECTING = -2,
    HW_TRACE_UNKNOWN_NATIVE = -3, /* outside of Java code; the next: known, but not to be walked */
    HW_TRACE_NATIVE = -4,
    HW_TRACE_UNKNOWN_JAVA = -5,
    HW_TRACE_JAVA = -6
};
typedef void hw_jvm_trace_fn(struct hw_jvm_trace *trace, int32_t depth, void *ucontext);

typedef int32_t hw_vm_fn(void *vm);
typedef int32_t hw_vm_get_env_fn(void *vm, void **env, int32_t version);
typedef int32_t hw_vm_attach_fn(void *vm, void **env, struct hw_jvm_attach *args);

typedef hw_jobject hw_jni_find_fn(void *env, const char *name);
typedef hw_jobject hw_jni_object_fn(void *env, hw_jobject o);
typedef void hw_jni_void_fn(void *env);
typedef void hw_jni_delete_fn(void *env, hw_jobject o);
typedef int32_t hw_jni_push_fn(void *env, int32_t n);
typedef hw_jobject hw_jni_array_fn(void *env, int32_t n, hw_jobject element, hw_jobject first);
typedef void *hw_jni_member_fn(void *env, hw_jobject c, const char *name, const char *signature);
typedef void hw_jni_set_long_fn(void *env, hw_jobject o, void *field, int64_t value);
typedef int64_t hw_jni_call_long_fn(void *env, hw_jobject o, void *method, const void *arguments);
typedef void hw_jni_set_fn(void *env, hw_jobject array, int32_t at, hw_jobject o);

typedef hw_jobject hw_jni_call_fn(void *env, hw_jobject o, void *method, const void *arguments);
typedef int64_t hw_jni_get_long_fn(void *env, hw_jobject o, void *field);
typedef const char *hw_jni_bytes_fn(void *env, hw_jobject string, uint8_t *is_copy);
typedef void hw_jni_bytes_done_fn(void *env, hw_jobject string, const char *bytes);

typedef int32_t hw_ti_fn(void *env);
typedef int32_t hw_ti_free_fn(void *env, void *p);
typedef int32_t hw_ti_signature_fn(void *env, hw_jobject c, char **name, char **generic);
typedef int32_t hw_ti_int_fn(void *env, hw_jobject c, int32_t *out);
typedef int32_t hw_ti_list_fn(void *env, hw_jobject c, int32_t *n, void ***out);
typedef int32_t hw_ti_field_name_fn(void *env, hw_jobject c, void *field, char **name,
                                    char **signature, char **generic);
typedef int32_t hw_ti_field_int_fn(void *env, hw_jobject c, void *field, int32_t *out);
typedef int32_t hw_ti_classes_fn(void *env, int32_t *n, hw_jobject **out);
typedef int32_t hw_ti_get_tag_fn(void *env, hw_jobject o, int64_t *out);
typedef int32_t hw_ti_set_tag_fn(void *env, hw_jobject o, int64_t tag);
typedef int32_t hw_ti_follow_fn(void *env, int32_t filter, hw_jobject klass, hw_jobject from,
                                const struct hw_jvm_callbacks *callbacks, const void *arg);
typedef uint8_t hw_jni_is_same_fn(void *env, hw_jobject a, hw_jobject b);
typedef int32_t hw_ti_interval_fn(void *env, int32_t bytes);
typedef int32_t hw_ti_stack_fn(void *env, hw_jobject thread, int32_t from, int32_t most,
                               struct hw_jvm_frame *out, int32_t *n);
typedef int32_t hw_ti_thread_fn(void *env, hw_jobject *out);
typedef int32_t hw_ti_thread_info_fn(void *env, hw_jobject thread, struct hw_jvm_thread_info *out);
typedef int32_t hw_ti_method_name_fn(void *env, void *method, char **name, char **signature,
                                     char **generic);
typedef int32_t hw_ti_method_class_fn(void *env, void *method, hw_jobject *out);
typedef int32_t hw_ti_method_is_fn(void *env, void *method, uint8_t *out);
typedef int32_t hw_ti_lines_fn(void *env, void *method, int32_t *n, struct hw_jvm_line **out);
typedef int32_t hw_ti_text_fn(void *env, hw_jobject c, char **out);
typedef int32_t hw_ti_event_mode_fn(void *env, int32_t on, int32_t event, hw_jobject thread, ...);
typedef int32_t hw_ti_callbacks_fn(void *env, void *const *callbacks, int32_t bytes);
typedef int32_t hw_ti_capabilities_fn(void *env, const void *bits);

#endif
