/*
 * A table of frames that were seen, from hooks and without a lock:
 *
 *     hook:  id = hash(method, bci) -> slot (linear probing, never emptied) -> is its name told to
 *            this session?  no: note method and bci, put the slot's number into the queue, post
 *     here: take a number, ask the JVM once for its name, tell the client
 *
 * A slot whose name could not be sent (queue full, ring full) is requested again when it next
 * appears. A method of a class that was unloaded meanwhile has an id that the JVM does not know any
 * more, which JVMTI checks: it has the name that the hook read beside the queue, and no line.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "heapwise/managed_frames.h"
#include "java/agent/agent.h"
#include "java/agent/agent_alloc.h"
#include "java/agent/agent_metadata.h"
#include "java/agent/agent_stacks.h"
#include "wire/records.h"

#include "base/banned.h"

enum {
    SLOTS = 1 << 17,
    PROBES = 64,
    QUEUE = 1 << 13,
    LOCALS = 16,
    FINISH_MS = 500,
    POLL_MS = 500,
    IS_A_CLASS = 0x636c6173,
    NOT_A_METHOD = -1000, /* bci: method is an enum agent_text */
    READ_NAME = 256
};

struct slot {
    _Atomic uint64_t id; /* 0 = free */
    _Atomic(void *) method;
    _Atomic int32_t bci;
    _Atomic uint32_t asked; /* generation that has its name, or will */
    _Atomic(char *) text;   /* function, file, module; NUL between */
    uint32_t line;
};

static struct {
    struct slot *slots;
    char (*read)[READ_NAME];       /* by entry of the queue; "" = not known */
    _Atomic uint32_t queue[QUEUE]; /* slot + 1; 0 = not there yet */
    _Atomic uint32_t head, tail, n_named;
    _Atomic uint32_t work, done;
    hw_jvm_env jni, ti;
    void *get_module, *module_name, *get_domain, *get_source, *get_location, *get_file;
} m;

static atomic_bool ending;

bool agent_methods_init(void)
{
    void *p = mmap(NULL, SLOTS * sizeof *m.slots, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *read =
        mmap(NULL, QUEUE * READ_NAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || read == MAP_FAILED)
        return false;
    m.slots = p;
    m.read = read;
    return true;
}

/* ---- in the hook ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* method: NULL = it has no name of its own. */
static bool put(uint32_t number, void *method)
{
    uint32_t head = atomic_load_explicit(&m.head, memory_order_relaxed);
    do {
        if (head - atomic_load_explicit(&m.tail, memory_order_acquire) >= QUEUE)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&m.head, &head, head + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    agent_metadata_name(method, m.read[head % QUEUE], READ_NAME);
    /* Release: pairs with take()'s acquire, which then sees the slot's method. */
    atomic_store_explicit(&m.queue[head % QUEUE], number + 1, memory_order_release);
    agent_count_up(&m.work);
    return true;
}

static void ask(struct slot *s, uint32_t generation, void *method, int32_t bci)
{
    uint32_t before = atomic_load_explicit(&s->asked, memory_order_relaxed);
    bool is_named = atomic_load_explicit(&s->text, memory_order_relaxed) != NULL;
    if (before == generation)
        return;
    atomic_store_explicit(&s->method, method, memory_order_relaxed);
    atomic_store_explicit(&s->bci, bci, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&s->asked, &before, generation) &&
        !put((uint32_t)(s - m.slots), bci > NOT_A_METHOD && !is_named ? method : NULL))
        atomic_store_explicit(&s->asked, 0, memory_order_relaxed);
}

/* ---- classes ---- */

static char *class_text(const char *signature)
{
    char name[AGENT_MAX_NAME];
    agent_class_name(signature, name, sizeof name);
    size_t n = strlen(name);
    char *text = calloc(1, n + sizeof "\0\0[java]");
    if (!text)
        return NULL;
    memcpy(text, name, n);
    memcpy(text + n + 2, "[java]", sizeof "[java]");
    return text;
}

static struct slot *find_slot(uint64_t hash)
{
    uint64_t id = hw_managed_id(HW_MANAGED_JAVA, hash);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct slot *s = &m.slots[(hash + i) % SLOTS];
        uint64_t there = atomic_load_explicit(&s->id, memory_order_relaxed);
        if (there == 0 && atomic_compare_exchange_strong(&s->id, &there, id))
            return s;
        if (there == id)
            return s;
    }
    return NULL;
}

uint64_t agent_frame_id(uint32_t generation, void *method, int32_t bci, bool *has_room)
{
    uint64_t hash = mix((uint64_t)(uintptr_t)method ^ mix((uint64_t)(uint32_t)bci + 1));
    struct slot *s = find_slot(hash);
    if (s)
        ask(s, generation, method, bci);
    *has_room = s != NULL;
    return hw_managed_id(HW_MANAGED_JAVA, hash); /* no slot: it stays without a name */
}

/* The class's text is made here, so that our thread need not ask the JVM for it. */
uint32_t agent_class_slot(const char *signature)
{
    char *none = NULL, *text = NULL;
    uint64_t hash = mix(IS_A_CLASS);
    for (const char *p = signature; *p; p++)
        hash = mix(hash ^ (unsigned char)*p);
    struct slot *s = find_slot(hash);
    if (!s)
        return AGENT_NO_CLASS - 1; /* a class without a name */
    if (!atomic_load_explicit(&s->text, memory_order_acquire) && (text = class_text(signature)) &&
        !atomic_compare_exchange_strong(&s->text, &none, text))
        free(text); /* another thread was faster */
    return (uint32_t)(s - m.slots);
}

uint64_t agent_class_id(uint32_t generation, uint32_t slot)
{
    if (slot >= SLOTS)
        return hw_managed_id(HW_MANAGED_JAVA, 1);
    struct slot *s = &m.slots[slot];
    ask(s, generation, NULL, 0);
    return atomic_load_explicit(&s->id, memory_order_relaxed);
}

uint64_t agent_text_id(uint32_t generation, enum agent_text text, int32_t number)
{
    bool has_room; /* these few are not counted */
    return agent_frame_id(generation, (void *)(uintptr_t)text, NOT_A_METHOD + number, &has_room);
}

/* ---- names ---- */

static hw_jobject call(hw_jobject o, void *method)
{
    hw_jobject r = NULL;
    if (o && method)
        r = HW_JVM(m.jni, HW_JNI_CALL_OBJECT, hw_jni_call_fn *)(m.jni, o, method, NULL);
    HW_JVM(m.jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(m.jni);
    return r;
}

static void *method_of(const char *class_name, const char *name, const char *signature)
{
    hw_jobject c = HW_JVM(m.jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(m.jni, class_name);
    void *id =
        c ? HW_JVM(m.jni, HW_JNI_METHOD_ID, hw_jni_member_fn *)(m.jni, c, name, signature) : NULL;
    HW_JVM(m.jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(m.jni);
    return id;
}

/* Getters of final classes only: none runs the program's code. */
static void find_getters(void)
{
    (void)HW_JVM(m.jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(m.jni, LOCALS);
    m.get_module = method_of("java/lang/Class", "getModule", "()Ljava/lang/Module;");
    m.module_name = method_of("java/lang/Module", "getName", "()Ljava/lang/String;");
    m.get_domain =
        method_of("java/lang/Class", "getProtectionDomain", "()Ljava/security/ProtectionDomain;");
    m.get_source = method_of("java/security/ProtectionDomain", "getCodeSource",
                             "()Ljava/security/CodeSource;");
    m.get_location = method_of("java/security/CodeSource", "getLocation", "()Ljava/net/URL;");
    m.get_file = method_of("java/net/URL", "getFile", "()Ljava/lang/String;");
    (void)HW_JVM(m.jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(m.jni, NULL);
}

static bool text_of(hw_jobject string, const char *before, char *out, size_t size)
{
    if (!string)
        return false;
    const char *p = HW_JVM(m.jni, HW_JNI_STRING_BYTES, hw_jni_bytes_fn *)(m.jni, string, NULL);
    if (!p)
        return false;
    (void)snprintf(out, size, "%s%s", before, p);
    HW_JVM(m.jni, HW_JNI_STRING_BYTES_DONE, hw_jni_bytes_done_fn *)(m.jni, string, p);
    return true;
}

struct naming {
    struct agent_method_naming method;
    char module[AGENT_MAX_NAME];
};

/* "[java] " and the module, or the jar or folder that the class came from. */
static void module_of(hw_jobject c, char *out, size_t size)
{
    char path[AGENT_MAX_NAME];
    (void)snprintf(out, size, "[java]");
    if (text_of(call(call(c, m.get_module), m.module_name), "[java] ", out, size))
        return;
    hw_jobject source = call(call(c, m.get_domain), m.get_source);
    if (!text_of(call(call(source, m.get_location), m.get_file), "/", path, sizeof path))
        return;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, size, "[java] %s", slash ? slash + 1 : path);
}

static bool describe(void *method, int32_t bci, struct naming *x)
{
    hw_jobject c;
    if (!agent_method_name(m.ti, method, bci, &x->method, &c))
        return false;
    module_of(c, x->module, sizeof x->module);
    return true;
}

static void fixed_text(enum agent_text text, int32_t number, struct naming *x)
{
    switch (text) {
    case AGENT_TEXT_GAP:
        (void)snprintf(x->method.function, sizeof x->method.function, "[unwind gap]");
        break;
    case AGENT_TEXT_FAILED:
        (void)snprintf(x->method.function, sizeof x->method.function, "[java unwind failed: %d]",
                       (int)number);
        break;
    case AGENT_TEXT_COUNT:
        break;
    }
}

/* Once per slot: in a later session the class may be gone. read: what the hook read. */
static void find_name(struct slot *s, const char *read)
{
    struct naming x = {.method = {.line = 0}};
    void *method = atomic_load_explicit(&s->method, memory_order_relaxed);
    int32_t bci = atomic_load_explicit(&s->bci, memory_order_relaxed);
    (void)HW_JVM(m.jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(m.jni, LOCALS);
    if (bci <= NOT_A_METHOD + 0 && bci > NOT_A_METHOD - 100)
        fixed_text((enum agent_text)(uintptr_t)method, bci - NOT_A_METHOD, &x);
    else if (!describe(method, bci, &x))
        (void)snprintf(x.method.function, sizeof x.method.function, "%s",
                       *read ? read : "[unloaded Java method]");
    HW_JVM(m.jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(m.jni);
    (void)HW_JVM(m.jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(m.jni, NULL);
    size_t a = strlen(x.method.function) + 1, b = strlen(x.method.file) + 1,
           c = strlen(x.module) + 1;
    char *text = malloc(a + b + c);
    if (!text)
        return;
    memcpy(text, x.method.function, a);
    memcpy(text + a, x.method.file, b);
    memcpy(text + a + b, x.module, c);
    s->line = x.method.line;
    atomic_store_explicit(&s->text, text, memory_order_release);
}

static void name_it(struct slot *s, const char *read)
{
    uint32_t generation = atomic_load_explicit(&s->asked, memory_order_relaxed);
    if (!atomic_load_explicit(&s->text, memory_order_acquire))
        find_name(s, read);
    const char *text = atomic_load_explicit(&s->text, memory_order_acquire);
    struct heapwise_managed_text t = {.line = s->line};
    if (text) {
        t.function = text;
        t.n_function = strlen(t.function);
        t.file = t.function + t.n_function + 1;
        t.n_file = strlen(t.file);
        t.module = t.file + t.n_file + 1;
        t.n_module = strlen(t.module);
    }
    uint64_t id = atomic_load_explicit(&s->id, memory_order_relaxed);
    if (!text || agent_client->name(generation, id, &t) != 0)
        (void)atomic_compare_exchange_strong(&s->asked, &generation, 0);
}

/* ---- our thread ---- */

static bool take(uint32_t *out, char *read)
{
    uint32_t tail = atomic_load_explicit(&m.tail, memory_order_relaxed);
    uint32_t v = atomic_load_explicit(&m.queue[tail % QUEUE], memory_order_acquire);
    if (v == 0)
        return false;
    memcpy(read, m.read[tail % QUEUE], READ_NAME);
    atomic_store_explicit(&m.queue[tail % QUEUE], 0, memory_order_relaxed);
    /* Release: the place is empty before a hook may fill it again. */
    atomic_store_explicit(&m.tail, tail + 1, memory_order_release);
    *out = v - 1;
    return true;
}

/* Not with each method that is named. */
static void poll_allocations(void)
{
    static uint64_t next_ns;
    uint64_t now = agent_now_ns(CLOCK_MONOTONIC);
    if (now < next_ns)
        return;
    next_ns = now + POLL_MS * 1000000ull / 2;
    agent_alloc_poll(m.jni);
}

void agent_methods_serve(hw_jvm_env jni, hw_jvm_env ti)
{
    uint32_t number;
    char read[READ_NAME];
    m.jni = jni;
    m.ti = ti;
    find_getters();
    for (;;) {
        (void)agent_count_down(&m.work, POLL_MS); /* also after a signal: it looks */
        while (take(&number, read)) {
            name_it(&m.slots[number], read);
            atomic_fetch_add(&m.n_named, 1);
        }
        if (atomic_load(&ending))
            agent_count_up(&m.done);
        else
            poll_allocations();
    }
}

void agent_methods_finish(void)
{
    uint64_t until = agent_now_ns(CLOCK_MONOTONIC) + FINISH_MS * 1000000ull;
    atomic_store(&ending, true);
    agent_count_up(&m.work);
    while (atomic_load(&m.head) != atomic_load(&m.n_named) && agent_now_ns(CLOCK_MONOTONIC) < until)
        (void)agent_count_down(&m.done, FINISH_MS / 10);
}
