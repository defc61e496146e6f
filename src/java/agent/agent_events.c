/*
 * How an asker gets the graph of a moment: the thread at which the moment occurs (the one that
 * found no memory, the one that ends the JVM) reports it, and waits in the JVM's callback until
 * that asker says that it is done, has gone, or has been silent for too long.
 *
 * Each moment is reported once to each asker that watches: what a program that catches its
 * OutOfMemoryErrors does with the second one is its own affair. The JVM's end also waits for an
 * asker that is busy with an earlier moment, since a walk ends with the process.
 *
 * What is known about the moment lies in a memory file: the JVM's text, then for each frame, the
 * innermost first, method, source file and line; each text ends with a NUL.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum {
    MOST_FRAMES = 256,
    LOCALS = 16,
    STEP_MS = 2,
    LATE_MS = 3000,
    RESOURCE_IS_MEMORY = 1 /* JVMTI_RESOURCE_EXHAUSTED_OOM_ERROR */
};

static struct {
    pthread_mutex_t lock; /* all that follows, and the watching agents' members for events */
    struct agent *first;
    hw_jvm_env ti; /* stays: a later asker uses it again */
} m = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What our own threads run into is not a moment of the program's. */
static __thread bool is_ours __attribute__((tls_model("initial-exec")));

void agent_events_ours(void)
{
    is_ours = true;
}

/* ---- the thread at which it occurs ---- */

static bool is_held(const struct agent *a, uint64_t now)
{
    return a->holds && (a->serves || now - a->quiet_since_ns < (uint64_t)a->hold_ms * 1000000u);
}

static bool any_held(void)
{
    uint64_t now = agent_now_ns(CLOCK_MONOTONIC);
    bool held = false;
    (void)pthread_mutex_lock(&m.lock);
    for (const struct agent *a = m.first; a; a = a->next)
        held |= is_held(a, now);
    (void)pthread_mutex_unlock(&m.lock);
    return held;
}

static void tell(enum hw_java_event event, int text)
{
    struct hw_java_message say = {.type = HW_JAVA_EVENT, .n = event};
    (void)pthread_mutex_lock(&m.lock);
    for (struct agent *a = m.first; a; a = a->next) {
        if (!(a->events >> event & 1))
            continue;
        a->events &= ~(1u << event);
        a->quiet_since_ns = agent_now_ns(CLOCK_MONOTONIC);
        /* An asker that does not listen does not hold up the program. */
        if (agent_say(a, &say, text, MSG_DONTWAIT))
            a->holds |= 1u << event;
    }
    (void)pthread_mutex_unlock(&m.lock);
}

static void wait_for_askers(void)
{
    while (any_held())
        agent_rest(STEP_MS);
}

static bool is_wanted(enum hw_java_event event)
{
    bool wanted = false;
    (void)pthread_mutex_lock(&m.lock);
    for (const struct agent *a = m.first; a; a = a->next)
        wanted |= a->events >> event & 1;
    (void)pthread_mutex_unlock(&m.lock);
    return wanted;
}

/* ---- description of an event ---- */

static void put(int fd, const char *text)
{
    size_t n = strlen(text) + 1;
    if (write(fd, text, n) < (ssize_t)n)
        return; /* memory is short: the rest is missing, and the asker sees an end too early */
}

static void put_frame(hw_jvm_env ti, int fd, const struct hw_jvm_frame *f)
{
    struct agent_method_naming x = {.line = 0};
    char line[16];
    hw_jobject class;
    (void)agent_method_name(ti, f->method, f->bci, &x, &class); /* else it has no name */
    (void)snprintf(line, sizeof line, "%u", x.line);
    put(fd, x.function);
    put(fd, x.file);
    put(fd, line);
}

static int describe(hw_jvm_env ti, hw_jvm_env jni, const char *words)
{
    struct hw_jvm_frame frames[MOST_FRAMES];
    int32_t n = 0;
    int fd = memfd_create("heapwise-moment", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    put(fd, words ? words : "");
    if (HW_JVM(ti, HW_TI_STACK, hw_ti_stack_fn *)(ti, NULL, 0, MOST_FRAMES, frames, &n) != 0)
        n = 0;
    for (int32_t i = 0; i < n; i++) {
        if (HW_JVM(jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(jni, LOCALS) < 0)
            break;
        put_frame(ti, fd, &frames[i]);
        (void)HW_JVM(jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(jni, NULL);
    }
    return fd;
}

/* ---- the JVM's callbacks ---- */

static void on_exhausted(hw_jvm_env ti, hw_jvm_env jni, int32_t what, const void *reserved,
                         const char *words)
{
    (void)reserved;
    if (is_ours || !(what & RESOURCE_IS_MEMORY) || !is_wanted(HW_JAVA_OUT_OF_MEMORY))
        return;
    int text = describe(ti, jni, words);
    tell(HW_JAVA_OUT_OF_MEMORY, text);
    if (text >= 0)
        (void)close(text);
    wait_for_askers();
}

static void on_death(hw_jvm_env ti, hw_jvm_env jni)
{
    (void)ti, (void)jni;
    tell(HW_JAVA_END, -1);
    wait_for_askers();
}

/* The recorder checks for JVMs ten times a second, and attaches after that. */
void agent_events_end(bool (*awaited)(void))
{
    uint64_t until = agent_now_ns(CLOCK_MONOTONIC) + LATE_MS * 1000000ull;
    bool came = is_wanted(HW_JAVA_END);
    if (came)
        return; /* on_death tells it */
    while (!came && awaited() && agent_now_ns(CLOCK_MONOTONIC) < until) {
        agent_rest(STEP_MS);
        came = is_wanted(HW_JAVA_END);
    }
    if (!came)
        return;
    tell(HW_JAVA_END, -1); /* once: on_death, which may not be called any more, finds it told */
    wait_for_askers();
}

/* ---- the asker's thread ---- */

static bool listen_here(hw_jvm_env vm)
{
    static const int32_t events[] = {HW_TI_EVENT_EXHAUSTED, HW_TI_EVENT_VM_DEATH};
    static const int capabilities[] = {HW_TI_CAN_EXHAUSTED, HW_TI_CAN_SOURCE_FILE, HW_TI_CAN_LINES};
    void *callbacks[HW_TI_EVENTS] = {0}, *env = NULL;
    if (m.ti)
        return true;
    if (HW_JVM(vm, HW_VM_GET_ENV, hw_vm_get_env_fn *)(vm, &env, HW_TI_VERSION) != 0)
        return false;
    hw_jvm_env ti = env;
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
        uint8_t bits[HW_TI_CAPABILITY_BYTES] = {0};
        bits[capabilities[i] / 8] = (uint8_t)(1 << capabilities[i] % 8);
        /* One that there is not leaves its part out. */
        (void)HW_JVM(ti, HW_TI_ADD_CAPABILITIES, hw_ti_capabilities_fn *)(ti, bits);
    }
    callbacks[HW_TI_EVENT_EXHAUSTED - HW_TI_FIRST_EVENT] = (void *)on_exhausted;
    callbacks[HW_TI_EVENT_VM_DEATH - HW_TI_FIRST_EVENT] = (void *)on_death;
    bool ok = HW_JVM(ti, HW_TI_EVENT_CALLBACKS, hw_ti_callbacks_fn *)(ti, callbacks,
                                                                      sizeof callbacks) == 0;
    for (size_t i = 0; ok && i < sizeof events / sizeof *events; i++)
        ok = HW_JVM(ti, HW_TI_EVENT_MODE, hw_ti_event_mode_fn *)(ti, 1, events[i], NULL) == 0;
    if (ok)
        m.ti = ti;
    else
        (void)HW_JVM(ti, HW_TI_DISPOSE, hw_ti_fn *)(ti); /* nothing is on */
    return ok;
}

/* If two arrive at once, one of them listens, the other one finds it done. Not under the lock,
 * which a thread in a callback may want while the JVM waits for it. */
static bool listen_once(hw_jvm_env vm)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&once);
    bool ok = listen_here(vm);
    (void)pthread_mutex_unlock(&once);
    return ok;
}

bool agent_events_watch(struct agent *a, uint32_t events, uint32_t hold_ms)
{
    if (!listen_once(a->vm))
        return false;
    (void)pthread_mutex_lock(&m.lock);
    if (!a->watches) {
        a->next = m.first;
        m.first = a;
    }
    a->watches = true;
    a->events = events;
    a->hold_ms = hold_ms;
    (void)pthread_mutex_unlock(&m.lock);
    return true;
}

void agent_events_serve(struct agent *a, bool begins)
{
    (void)pthread_mutex_lock(&m.lock);
    a->serves = begins;
    a->quiet_since_ns = agent_now_ns(CLOCK_MONOTONIC);
    (void)pthread_mutex_unlock(&m.lock);
}

void agent_events_release(struct agent *a, uint32_t events)
{
    (void)pthread_mutex_lock(&m.lock);
    a->holds &= ~events;
    (void)pthread_mutex_unlock(&m.lock);
}

void agent_events_forget(struct agent *a)
{
    (void)pthread_mutex_lock(&m.lock);
    for (struct agent **at = &m.first; *at; at = &(*at)->next)
        if (*at == a) {
            *at = a->next;
            break;
        }
    (void)pthread_mutex_unlock(&m.lock);
}
