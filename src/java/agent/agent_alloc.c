/*
 * The JVM calls on_sample on the allocating thread, with the Java frames of that allocation below.
 * It reports to the client, whose hook code walks the stack and asks agent_stacks.c for Java frames
 * as for any malloc; a word of the thread says that this is an object, and of which class.
 *
 * New samples lie in `fresh` until our thread takes them over into `live`, which is its own.
 */
#include "java/agent/agent_alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "java/agent/agent.h"
#include "java/agent/agent_stacks.h"

#include "base/banned.h"

/* Room for everything that may be watched in either: our thread is late on a busy machine, and
 * an object that is dropped for lack of room counts as a dead one. */
enum { LIVE = 1 << 20, MOST_FRAMES = 500 };

struct object {
    hw_jobject weak;
    uint64_t id;
};

/* Two names for one thing, since readers of the first one keep no frees. */
enum which { CHURN, KEPT, N_HEAPS };
static const char *const heap_names[N_HEAPS] = {"com.android.art", "java.alloc"};

static struct {
    hw_jvm_env ti;
    uint32_t heap[N_HEAPS];
    _Atomic uint64_t wanted[N_HEAPS]; /* interval; 0 = off */
    _Atomic uint64_t interval;        /* the JVM's, which has one for all */
    _Atomic uint64_t last_id;
    pthread_mutex_t lock; /* fresh */
    struct object *fresh; /* LIVE places */
    uint32_t n_fresh;
    struct object *live; /* LIVE places, our thread's */
    uint32_t n_live;
} m = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Read in hooks: static storage, never made on first use. */
static __thread const struct agent_object *reported __attribute__((tls_model("initial-exec")));

const struct agent_object *agent_alloc_object(void)
{
    return reported;
}

/* ---- weights ---- */

/* 1 - e^-x for x >= 0. */
static double chance(double x)
{
    if (x > 40)
        return 1;
    int halvings = 0;
    for (; x > 0.25; x /= 2)
        halvings++;
    double term = x, sum = 0;
    for (int i = 2; i < 14; i++) {
        sum += term;
        term *= -x / i;
    }
    for (; halvings; halvings--)
        sum = sum * (2 - sum); /* 1 - (1 - p)^2 */
    return sum;
}

static uint64_t weight_of(uint64_t size, uint64_t interval)
{
    if (interval <= 1)
        return size;
    return (uint64_t)((double)size / chance((double)size / (double)interval) + 0.5);
}

/* ---- samples ---- */

static bool watch(hw_jvm_env jni, hw_jobject object, uint64_t id)
{
    bool room = false;
    (void)pthread_mutex_lock(&m.lock);
    if (m.n_fresh < LIVE) {
        hw_jobject weak = HW_JVM(jni, HW_JNI_NEW_WEAK, hw_jni_object_fn *)(jni, object);
        if (weak)
            m.fresh[m.n_fresh++] = (struct object){weak, id};
        room = weak != NULL;
    }
    (void)pthread_mutex_unlock(&m.lock);
    return room;
}

static uint64_t next_id(void)
{
    return (atomic_fetch_add_explicit(&m.last_id, 1, memory_order_relaxed) + 1) << 4;
}

static void on_sample(hw_jvm_env ti, hw_jvm_env jni, hw_jobject thread, hw_jobject object,
                      hw_jobject c, int64_t size)
{
    char *signature = NULL;
    uint64_t interval = atomic_load_explicit(&m.interval, memory_order_relaxed);
    (void)thread;
    if (interval == 0 || size <= 0 || reported ||
        HW_JVM(ti, HW_TI_CLASS_SIGNATURE, hw_ti_signature_fn *)(ti, c, &signature, NULL) != 0)
        return;
    struct hw_jvm_frame stack[MOST_FRAMES];
    struct agent_object o = {.class_slot = agent_class_slot(signature), .frames = stack};
    /* Here, and not in the hook, JVMTI may be called; AsyncGetCallTrace cannot walk from the
     * stubs in which compiled code waits for an object. */
    (void)HW_JVM(ti, HW_TI_STACK, hw_ti_stack_fn *)(ti, NULL, 0, MOST_FRAMES, stack, &o.n_frames);
    reported = &o;
    (void)HW_JVM(ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(ti, signature);
    uint64_t weight = weight_of((uint64_t)size, interval);
    if (atomic_load_explicit(&m.wanted[CHURN], memory_order_relaxed))
        (void)agent_client->sample(m.heap[CHURN], next_id(), (uint64_t)size, weight);
    uint64_t id = next_id();
    bool kept = atomic_load_explicit(&m.wanted[KEPT], memory_order_relaxed) &&
                agent_client->sample(m.heap[KEPT], id, (uint64_t)size, weight);
    reported = NULL;
    if (kept && !watch(jni, object, id))
        agent_client->report_free(m.heap[KEPT],
                                  id); /* more than can be watched: reported, and dropped */
}

/* ---- on and off ---- */

static void switch_events(bool on)
{
    /* It can fail only when the JVM ends. */
    (void)HW_JVM(m.ti, HW_TI_EVENT_MODE, hw_ti_event_mode_fn *)(m.ti, on, HW_TI_EVENT_SAMPLED,
                                                                NULL);
}

/* With two intervals the smaller one holds for both. */
static void want(enum which heap, uint64_t interval)
{
    atomic_store(&m.wanted[heap], interval);
    uint64_t a = atomic_load(&m.wanted[CHURN]), b = atomic_load(&m.wanted[KEPT]);
    uint64_t least = a && (a < b || !b) ? a : b;
    int32_t bytes = least <= 1 ? 0 : least > INT32_MAX ? INT32_MAX : (int32_t)least;
    atomic_store(&m.interval, least);
    if (least) /* else the JVM keeps what it had */
        (void)HW_JVM(m.ti, HW_TI_HEAP_INTERVAL, hw_ti_interval_fn *)(m.ti, bytes);
    switch_events(least != 0);
}

static void churn_enabled(uint64_t interval)
{
    want(CHURN, interval);
}

static void churn_disabled(void)
{
    want(CHURN, 0);
}

static void kept_enabled(uint64_t interval)
{
    want(KEPT, interval);
}

static void kept_disabled(void)
{
    want(KEPT, 0);
}

/* Beside malloc: 16 MiB each, whose pages come with use. The account knows by their addresses whose
 * they are (doc/design/accounting.md). */
static struct object *places(void)
{
    long p = syscall(SYS_mmap, NULL, LIVE * sizeof(struct object), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0L);
    if (p == -1)
        return NULL;
    agent_client->own_memory((const void *)p, LIVE * sizeof(struct object));
    return (struct object *)p;
}

bool agent_alloc_begin(hw_jvm_env vm)
{
    uint8_t bits[HW_TI_CAPABILITY_BYTES] = {0};
    void *callbacks[HW_TI_EVENTS] = {0};
    void *env = NULL;
    bits[HW_TI_CAN_SAMPLE / 8] |= 1 << HW_TI_CAN_SAMPLE % 8;
    callbacks[HW_TI_EVENT_SAMPLED - HW_TI_FIRST_EVENT] = (void *)on_sample;
    if (HW_JVM(vm, HW_VM_GET_ENV, hw_vm_get_env_fn *)(vm, &env, HW_TI_VERSION) != 0)
        return false;
    m.ti = env;
    m.live = places();
    m.fresh = places();
    if (!m.live || !m.fresh ||
        HW_JVM(m.ti, HW_TI_ADD_CAPABILITIES, hw_ti_capabilities_fn *)(m.ti, bits) != 0 ||
        HW_JVM(m.ti, HW_TI_EVENT_CALLBACKS, hw_ti_callbacks_fn *)(m.ti, callbacks,
                                                                  sizeof callbacks) != 0) {
        (void)HW_JVM(m.ti, HW_TI_DISPOSE, hw_ti_fn *)(m.ti); /* nothing is on */
        return false;
    }
    m.heap[CHURN] = agent_client->heap(heap_names[CHURN], churn_enabled, churn_disabled);
    m.heap[KEPT] = agent_client->heap(heap_names[KEPT], kept_enabled, kept_disabled);
    return m.heap[KEPT] != 0;
}

/* ---- our thread ---- */

static void forget(hw_jvm_env jni, const struct object *o)
{
    agent_client->report_free(m.heap[KEPT], o->id);
    HW_JVM(jni, HW_JNI_DELETE_WEAK, hw_jni_delete_fn *)(jni, o->weak);
}

static void take_over(hw_jvm_env jni)
{
    (void)pthread_mutex_lock(&m.lock);
    uint32_t n = m.n_fresh, fit = LIVE - m.n_live < n ? LIVE - m.n_live : n;
    memcpy(m.live + m.n_live, m.fresh, fit * sizeof *m.live);
    m.n_live += fit;
    for (uint32_t i = fit; i < n; i++)
        forget(jni, &m.fresh[i]);
    m.n_fresh = 0;
    (void)pthread_mutex_unlock(&m.lock);
}

void agent_alloc_poll(hw_jvm_env jni)
{
    if (m.heap[KEPT] == 0)
        return;
    agent_client->sync(m.heap[CHURN]);
    agent_client->sync(m.heap[KEPT]);
    take_over(jni);
    uint32_t left = 0;
    bool on = atomic_load(&m.wanted[KEPT]) != 0;
    for (uint32_t i = 0; i < m.n_live; i++) {
        struct object o = m.live[i];
        if (!on || HW_JVM(jni, HW_JNI_IS_SAME, hw_jni_is_same_fn *)(jni, o.weak, NULL))
            forget(jni, &o);
        else
            m.live[left++] = o;
    }
    m.n_live = left;
}
