/*
 * The hook's half. AsyncGetCallTrace is known for crashing programs that call it from a signal at
 * any instruction. Here it is called by the thread itself, inside a malloc: the thread is in native
 * or VM code, and left an anchor where its last Java frame is. It is not called for threads that
 * the JVM does not know, nor for stacks that lead through a signal handler.
 *
 * It wants all methods to have ids before it runs, and class events to be on: ids are made for what
 * is loaded, and for each class from its preparation on.
 */
#include "java/agent/agent_stacks.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "heapwise/managed_frames.h"
#include "java/agent/agent.h"
#include "java/agent/agent_alloc.h"
#include "java/agent/agent_metadata.h"

#include "base/banned.h"

enum { LOCALS = 16, NO_ANCHOR = -20 };

static struct {
    hw_jvm_env vm, ti;
    void *jvm; /* libjvm, of dlopen */
    hw_jvm_trace_fn *call_trace;
    uint64_t code_lo, code_hi;     /* all code that the JVM generates */
    uint64_t anchor;               /* from a JNIEnv on: the thread's anchor, in bytes */
    uint64_t anchor_sp, anchor_pc; /* in it */
    atomic_bool over;              /* the JVM ends */
} java;

/* ---- in the hook ---- */

static void fill_context(ucontext_t *u, const struct heapwise_native_stack *in)
{
    memset(u, 0, sizeof *u);
#if defined(__x86_64__)
    u->uc_mcontext.gregs[REG_RIP] = (greg_t)in->pc;
    u->uc_mcontext.gregs[REG_RSP] = (greg_t)in->sp;
    u->uc_mcontext.gregs[REG_RBP] = (greg_t)in->fp;
#elif defined(__aarch64__)
    u->uc_mcontext.pc = in->pc;
    u->uc_mcontext.sp = in->sp;
    u->uc_mcontext.regs[29] = in->fp;
#endif
}

static uint32_t first_generated(const struct heapwise_native_stack *in)
{
    uint32_t i = 0;
    while (i < in->n_pcs && in->pcs[i] - java.code_lo >= java.code_hi - java.code_lo)
        i++;
    return i;
}

/*
 * The anchor's pc is missing where the interpreter called the JVM: it lies on the stack, below sp.
 * The JVM itself puts it there before it walks, and always clears it when the call returns. Without
 * an anchor the thread runs Java code and called malloc straight from it, or has no Java frames.
 */
static bool has_anchor(void *env, const struct heapwise_native_stack *in)
{
    char *anchor = (char *)env + java.anchor;
    uint64_t sp = *(volatile uint64_t *)(void *)(anchor + java.anchor_sp);
    volatile uint64_t *pc = (volatile uint64_t *)(void *)(anchor + java.anchor_pc);
    if (sp <= in->sp || sp % sizeof sp)
        return false;
    uint64_t below = ((const uint64_t *)(uintptr_t)sp)[-1];
    if (*pc == 0 && below - java.code_lo < java.code_hi - java.code_lo)
        *pc = below;
    return *pc != 0;
}

static void put_frame(const struct heapwise_native_stack *in, void *method, int32_t bci,
                      struct heapwise_managed_stack *out)
{
    bool has_room;
    out->ids[out->n_ids++] = agent_frame_id(in->generation, method, bci, &has_room);
    out->n_unnamed += !has_room;
}

static uint32_t kind_of(int32_t why)
{
    switch (why) {
    case NO_ANCHOR:
        return HEAPWISE_MISSING_ANCHOR;
    case HW_TRACE_COLLECTING:
        return HEAPWISE_MISSING_COLLECTING;
    case HW_TRACE_UNKNOWN_NATIVE:
    case HW_TRACE_NATIVE:
    case HW_TRACE_UNKNOWN_JAVA:
    case HW_TRACE_JAVA:
        return HEAPWISE_MISSING_UNWALKABLE;
    default:
        return HEAPWISE_MISSING_OTHERWISE;
    }
}

static int failed(const struct heapwise_native_stack *in, uint32_t at, int32_t why,
                  struct heapwise_managed_stack *out)
{
    out->missing = kind_of(why);
    out->at = at;
    out->n_removed = in->n_pcs - at;
    out->ids[out->n_ids++] = agent_text_id(in->generation, AGENT_TEXT_FAILED, why);
    out->ends = 1;
    return 1;
}

/*
 * The native frames stay up to the first one in generated code; below come Java's. Where the walk
 * did not get there, a frame says so. No Java frames in a stack that leads into generated code is a
 * thread that enters or leaves Java just now, or one that cannot be walked.
 */
static int java_frames(const struct heapwise_native_stack *in, struct heapwise_managed_stack *out)
{
    void *env = NULL;
    out->missing = HEAPWISE_MISSING_NOT_ASKED;
    if (in->in_handler || atomic_load_explicit(&java.over, memory_order_relaxed))
        return 0;
    out->missing = HEAPWISE_MISSING_BY_NATURE;
    if (HW_JVM(java.vm, HW_VM_GET_ENV, hw_vm_get_env_fn *)(java.vm, &env, HW_JNI_VERSION) != 0 ||
        !env)
        return 0;
    uint32_t at = first_generated(in);
    bool reached = at < in->n_pcs;
    if (!reached && in->is_whole)
        return 0;
    if (!has_anchor(env, in))
        return reached ? failed(in, at, NO_ANCHOR, out) : 0;
    ucontext_t context;
    fill_context(&context, in);
    struct hw_jvm_trace t = {.env = env, .calls = (struct hw_jvm_call *)(void *)out->scratch};
    _Static_assert(sizeof(struct hw_jvm_call) * HEAPWISE_MANAGED_MAX_FRAMES <= sizeof out->scratch,
                   "one entry a frame");
    int32_t most = HEAPWISE_MANAGED_MAX_FRAMES - 1;
    java.call_trace(&t, most, &context);
    if (t.n <= 0)
        return reached ? failed(in, at, t.n, out) : 0;
    out->missing = HEAPWISE_MISSING_NOTHING;
    out->at = at;
    out->n_removed = in->n_pcs - at;
    if (!reached)
        out->ids[out->n_ids++] = agent_text_id(in->generation, AGENT_TEXT_GAP, 0);
    for (int32_t i = 0; i < t.n; i++)
        put_frame(in, t.calls[i].method, t.calls[i].bci, out);
    out->ends = t.n < most;
    return 1;
}

/* An object's stack begins with its class; what the JVM does to create it is left out. */
static int object_frames(const struct agent_object *o, const struct heapwise_native_stack *in,
                         struct heapwise_managed_stack *out)
{
    out->ids[out->n_ids++] = agent_class_id(in->generation, o->class_slot);
    for (int32_t i = 0; i < o->n_frames; i++) {
        const struct hw_jvm_frame *f = &o->frames[i];
        put_frame(in, f->method, (int32_t)f->bci, out);
    }
    out->n_removed = in->n_pcs;
    out->ends = 1;
    return 1;
}

static int frames(void *ctx, const struct heapwise_native_stack *in,
                  struct heapwise_managed_stack *out)
{
    const struct agent_object *o = agent_alloc_object();
    (void)ctx;
    return o ? object_frames(o, in, out) : java_frames(in, out);
}

/* ---- what libjvm says of itself ---- */

static int open_libjvm(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strcmp(slash, "/libjvm.so") != 0)
        return 0;
    *(void **)arg = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return 1;
}

static bool find_code(void)
{
    (void)dl_iterate_phdr(open_libjvm, &java.jvm);
    void *jvm = java.jvm;
    if (!jvm)
        return false;
    *(void **)&java.call_trace = dlsym(jvm, "AsyncGetCallTrace");
    return java.call_trace &&
           agent_metadata_field(jvm, "CodeCache", "_low_bound", true, &java.code_lo) &&
           agent_metadata_field(jvm, "CodeCache", "_high_bound", true, &java.code_hi) &&
           java.code_lo < java.code_hi &&
           agent_metadata_field(jvm, "JavaThread", "_anchor", false, &java.anchor) &&
           agent_metadata_field(jvm, "JavaFrameAnchor", "_last_Java_sp", false, &java.anchor_sp) &&
           agent_metadata_field(jvm, "JavaFrameAnchor", "_last_Java_pc", false, &java.anchor_pc);
}

/* A thread's JNIEnv lies at the same place in each of the JVM's own thread objects, whose address
 * is in a field of java.lang.Thread. */
static bool find_anchor(hw_jvm_env jni)
{
    hw_jobject thread = NULL;
    if (HW_JVM(java.ti, HW_TI_CURRENT_THREAD, hw_ti_thread_fn *)(java.ti, &thread) != 0)
        return false;
    hw_jobject c = HW_JVM(jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(jni, "java/lang/Thread");
    void *eetop = c ? HW_JVM(jni, HW_JNI_FIELD_ID, hw_jni_member_fn *)(jni, c, "eetop", "J") : NULL;
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni);
    if (!eetop)
        return false;
    uint64_t self =
        (uint64_t)HW_JVM(jni, HW_JNI_GET_LONG, hw_jni_get_long_fn *)(jni, thread, eetop);
    uint64_t env = (uint64_t)(uintptr_t)jni;
    if (env - self > 1 << 16) /* not inside of it */
        return false;
    java.anchor -= env - self;
    return true;
}

/* ---- events ---- */

static void make_ids(hw_jvm_env ti, hw_jobject c)
{
    int32_t n;
    void **list = NULL;
    if (HW_JVM(ti, HW_TI_CLASS_METHODS, hw_ti_list_fn *)(ti, c, &n, &list) == 0)
        (void)HW_JVM(ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(ti, list); /* ids stay */
}

static void on_class_load(hw_jvm_env ti, hw_jvm_env jni, hw_jobject thread, hw_jobject c)
{
    (void)ti, (void)jni, (void)thread, (void)c; /* only has to be on */
}

static void on_class_prepare(hw_jvm_env ti, hw_jvm_env jni, hw_jobject thread, hw_jobject c)
{
    (void)jni, (void)thread;
    make_ids(ti, c);
}

static void on_death(hw_jvm_env ti, hw_jvm_env jni)
{
    (void)ti, (void)jni;
    agent_events_end(agent_client->awaits_end);
    atomic_store(&java.over, true);
    agent_methods_finish();
}

static void loaded_classes(hw_jvm_env jni)
{
    int32_t n = 0;
    hw_jobject *list = NULL;
    if (HW_JVM(java.ti, HW_TI_LOADED_CLASSES, hw_ti_classes_fn *)(java.ti, &n, &list) != 0)
        return;
    for (int32_t i = 0; i < n; i++) {
        make_ids(java.ti, list[i]); /* not prepared yet: its event will come */
        HW_JVM(jni, HW_JNI_DELETE_LOCAL, hw_jni_delete_fn *)(jni, list[i]);
    }
    (void)HW_JVM(java.ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(java.ti, list);
}

static bool listen_to_classes(void)
{
    static const int32_t events[] = {HW_TI_EVENT_CLASS_LOAD, HW_TI_EVENT_CLASS_PREPARE,
                                     HW_TI_EVENT_VM_DEATH};
    void *callbacks[HW_TI_EVENTS] = {0};
    uint8_t bits[HW_TI_CAPABILITY_BYTES] = {0};
    void *env = NULL;
    if (HW_JVM(java.vm, HW_VM_GET_ENV, hw_vm_get_env_fn *)(java.vm, &env, HW_TI_VERSION) != 0)
        return false;
    java.ti = env;
    bits[HW_TI_CAN_SOURCE_FILE / 8] |= 1 << HW_TI_CAN_SOURCE_FILE % 8;
    bits[HW_TI_CAN_LINES / 8] |= 1 << HW_TI_CAN_LINES % 8;
    /* Without them frames have no file or line. */
    (void)HW_JVM(java.ti, HW_TI_ADD_CAPABILITIES, hw_ti_capabilities_fn *)(java.ti, bits);
    callbacks[HW_TI_EVENT_CLASS_LOAD - HW_TI_FIRST_EVENT] = (void *)on_class_load;
    callbacks[HW_TI_EVENT_CLASS_PREPARE - HW_TI_FIRST_EVENT] = (void *)on_class_prepare;
    callbacks[HW_TI_EVENT_VM_DEATH - HW_TI_FIRST_EVENT] = (void *)on_death;
    if (HW_JVM(java.ti, HW_TI_EVENT_CALLBACKS, hw_ti_callbacks_fn *)(java.ti, callbacks,
                                                                     sizeof callbacks) != 0)
        return false;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (HW_JVM(java.ti, HW_TI_EVENT_MODE, hw_ti_event_mode_fn *)(java.ti, 1, events[i], NULL))
            return false;
    return true;
}

/* ---- the beginning ---- */

/* On a thread that the JVM knows. Hooks get Java frames from then on. */
static bool begin(hw_jvm_env jni)
{
    static const struct heapwise_managed_source source = {HEAPWISE_MANAGED_VERSION, frames, NULL};
    if (!find_code() || !agent_methods_init() || !listen_to_classes() || !find_anchor(jni))
        return false;
    agent_metadata_begin(java.jvm, java.ti, jni);
    loaded_classes(jni);
    (void)agent_alloc_begin(java.vm); /* before JDK 11 there is none */
    return agent_client->set(&source) == 0;
}

/* ---- our thread ---- */

/* begun: not NULL where frames come already. */
static void *run(void *begun)
{
    static char name[] = "heapwise stacks";
    struct hw_jvm_attach attach = {.version = HW_JNI_VERSION, .name = name};
    void *env = NULL;
    (void)prctl(PR_SET_NAME, name); /* 15 letters, as many as may be */
    agent_events_ours();
    agent_client->suppress();
    if (HW_JVM(java.vm, HW_VM_ATTACH_DAEMON, hw_vm_attach_fn *)(java.vm, &env, &attach) != 0)
        return NULL;
    if (begun || begin(env))
        agent_methods_serve(env, java.ti);
    (void)HW_JVM(java.vm, HW_VM_DETACH, hw_vm_fn *)(java.vm); /* it was attached */
    return NULL;
}

static void start(void *begun)
{
    pthread_t thread; /* with the signal mask of this one, which is ours */
    if (pthread_create(&thread, NULL, run, begun) == 0)
        (void)pthread_detach(thread);
}

void agent_stacks_begin(hw_jvm_env vm)
{
    java.vm = vm;
    start(NULL);
}

void agent_stacks_made(hw_jvm_env vm, hw_jvm_env jni)
{
    java.vm = vm;
    bool has_frame = HW_JVM(jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(jni, LOCALS) == 0;
    bool begun = begin(jni);
    HW_JVM(jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(jni);
    if (has_frame)
        (void)HW_JVM(jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(jni, NULL);
    if (begun)
        start(&java);
}
