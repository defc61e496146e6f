/*
 * Which thread and frame holds a root. The walk identifies a thread by the tag that it got before,
 * or by its number in Java, which also threads have that started in between, or that are virtual.
 *
 * A frame is a method and a place in it. The walk's child writes those it finds into memory that is
 * shared with us; only here, when the walk is over and the program runs, can the JVM be asked for
 * names. A class that was unloaded since has taken its methods along: JVMTI says so.
 *
 * JVMs make a method's id when somebody asks for it first. One that is made in the walk's child is
 * an address in the child's memory, and with it the JVM would read here what happens to be there.
 * So all ids are made before the walk, and only those are asked about.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum { MAX_FRAMES = 1 << 15, SLOTS = 2 * MAX_FRAMES, LOCALS = 16, MAX_THREADS = 1 << 20 };

struct agent_frames {
    uint32_t n;
    uint64_t n_lost;       /* roots in others */
    uint32_t slots[SLOTS]; /* number; 0 = free */
    struct {
        void *method;
        int64_t bci;
    } v[MAX_FRAMES];
};

struct thread {
    char *name; /* the JVM's */
    int64_t id;
    bool is_daemon;
};

struct agent_holders {
    size_t n;
    struct thread *threads; /* owned */
    struct agent_frames *frames;
    size_t n_methods, room;
    void **methods; /* owned; every one that had an id before the walk, sorted */
};

/* ---- frames ---- */

void agent_frames_clear(struct agent_frames *f)
{
    if (f->n)
        memset(f->slots, 0, sizeof f->slots);
    f->n = 0;
    f->n_lost = 0;
}

uint32_t agent_frame_number(struct agent_frames *f, void *method, int64_t bci)
{
    if (!method)
        return 0;
    uint64_t hash = ((uint64_t)(uintptr_t)method ^ (uint64_t)bci << 40) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) % SLOTS;
    for (; f->slots[at]; at = (at + 1) % SLOTS) {
        uint32_t number = f->slots[at];
        if (f->v[number - 1].method == method && f->v[number - 1].bci == bci)
            return number;
    }
    if (f->n == MAX_FRAMES) {
        f->n_lost++;
        return HW_JAVA_FRAME_LOST;
    }
    f->v[f->n].method = method;
    f->v[f->n].bci = bci;
    return f->slots[at] = ++f->n;
}

struct agent_frames *agent_holders_frames(struct agent_holders *h)
{
    return h ? h->frames : NULL;
}

/* ---- methods ---- */

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return x < y ? -1 : x > y;
}

static void keep_methods(struct agent_holders *h, void *const *list, size_t n)
{
    if (h->n_methods + n > h->room) {
        size_t room = 2 * (h->n_methods + n);
        void **more = realloc(h->methods, room * sizeof *more);
        if (!more)
            return; /* frames of these methods have no name */
        h->methods = more;
        h->room = room;
    }
    if (n)
        memcpy(h->methods + h->n_methods, list, n * sizeof *list);
    h->n_methods += n;
}

static void make_ids(struct agent *a, struct agent_holders *h)
{
    int32_t n = 0, of_class;
    hw_jobject *classes = NULL;
    if (HW_JVM(a->ti, HW_TI_LOADED_CLASSES, hw_ti_classes_fn *)(a->ti, &n, &classes) != 0)
        return;
    for (int32_t i = 0; i < n; i++) {
        void **list = NULL;
        if (HW_JVM(a->ti, HW_TI_CLASS_METHODS, hw_ti_list_fn *)(a->ti, classes[i], &of_class,
                                                                &list) == 0) {
            keep_methods(h, list, of_class > 0 ? (size_t)of_class : 0);
            (void)HW_JVM(a->ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(a->ti, list);
        }
        HW_JVM(a->jni, HW_JNI_DELETE_LOCAL, hw_jni_delete_fn *)(a->jni, classes[i]);
    }
    (void)HW_JVM(a->ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(a->ti, classes);
    if (h->n_methods)
        qsort(h->methods, h->n_methods, sizeof *h->methods, by_address);
}

static bool had_id(const struct agent_holders *h, void *method)
{
    return h->n_methods &&
           bsearch(&method, h->methods, h->n_methods, sizeof *h->methods, by_address) != NULL;
}

/* ---- threads ---- */

static void look_at(struct agent *a, struct agent_holders *h, hw_jobject thread, void *id_field)
{
    struct hw_jvm_thread_info info = {0};
    struct thread *t = &h->threads[h->n];
    if (HW_JVM(a->ti, HW_TI_THREAD_INFO, hw_ti_thread_info_fn *)(a->ti, thread, &info) != 0)
        return; /* it has ended */
    t->name = info.name;
    t->is_daemon = info.is_daemon;
    if (id_field)
        t->id = HW_JVM(a->jni, HW_JNI_GET_LONG, hw_jni_get_long_fn *)(a->jni, thread, id_field);
    h->n++;
    /* Without a tag the number identifies it. */
    (void)HW_JVM(a->ti, HW_TI_SET_TAG, hw_ti_set_tag_fn *)(a->ti, thread,
                                                           AGENT_THREAD_TAG + (int64_t)h->n);
}

static void look_at_all(struct agent *a, struct agent_holders *h)
{
    int32_t n = 0;
    hw_jobject *list = NULL;
    hw_jobject c = HW_JVM(a->jni, HW_JNI_FIND_CLASS, hw_jni_find_fn *)(a->jni, "java/lang/Thread");
    void *id =
        c ? HW_JVM(a->jni, HW_JNI_FIELD_ID, hw_jni_member_fn *)(a->jni, c, "tid", "J") : NULL;
    HW_JVM(a->jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(a->jni);
    if (HW_JVM(a->ti, HW_TI_ALL_THREADS, hw_ti_classes_fn *)(a->ti, &n, &list) != 0)
        return;
    h->threads = n > 0 && n <= MAX_THREADS ? calloc((size_t)n, sizeof *h->threads) : NULL;
    for (int32_t i = 0; i < n; i++) {
        if (h->threads &&
            HW_JVM(a->jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(a->jni, LOCALS) == 0) {
            look_at(a, h, list[i], id);
            (void)HW_JVM(a->jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(a->jni, NULL);
        }
        HW_JVM(a->jni, HW_JNI_DELETE_LOCAL, hw_jni_delete_fn *)(a->jni, list[i]);
    }
    HW_JVM(a->jni, HW_JNI_EXCEPTION_CLEAR, hw_jni_void_fn *)(a->jni);
    (void)HW_JVM(a->ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(a->ti, list);
}

struct agent_holders *agent_holders_new(struct agent *a)
{
    struct agent_holders *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->frames = mmap(NULL, sizeof *h->frames, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (h->frames == MAP_FAILED) {
        free(h);
        return NULL;
    }
    (void)HW_JVM(a->jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(a->jni, LOCALS);
    make_ids(a, h);
    look_at_all(a, h);
    (void)HW_JVM(a->jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(a->jni, NULL);
    for (size_t i = 0; i < h->n; i++) /* a copy: the environment that they belong to may end */
        if (h->threads[i].name) {
            char *copy = strdup(h->threads[i].name);
            (void)HW_JVM(a->ti, HW_TI_DEALLOCATE, hw_ti_free_fn *)(a->ti, h->threads[i].name);
            h->threads[i].name = copy;
        }
    return h;
}

void agent_holders_free(struct agent_holders *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++)
        free(h->threads[i].name);
    free(h->threads);
    free(h->methods);
    (void)munmap(h->frames, sizeof *h->frames);
    free(h);
}

/* ---- names ---- */

static enum hw_java_method kind_of(hw_jvm_env ti, void *method)
{
    uint8_t is_native;
    if (HW_JVM(ti, HW_TI_METHOD_IS_NATIVE, hw_ti_method_is_fn *)(ti, method, &is_native) != 0)
        return HW_JAVA_METHOD_UNKNOWN;
    return is_native ? HW_JAVA_METHOD_NATIVE : HW_JAVA_METHOD_JAVA;
}

static void put_frame(struct agent *a, struct agent_out *o, const struct agent_holders *h,
                      void *method, int64_t bci)
{
    struct agent_method_naming x = {.line = 0};
    hw_jobject c;
    bool known = had_id(h, method) &&
                 HW_JVM(a->jni, HW_JNI_PUSH_FRAME, hw_jni_push_fn *)(a->jni, LOCALS) == 0;
    if (known) {
        known = agent_method_name(a->ti, method, bci, &x, &c);
        (void)HW_JVM(a->jni, HW_JNI_POP_FRAME, hw_jni_object_fn *)(a->jni, NULL);
    }
    agent_put_text(o, known ? x.function : "[unloaded Java method]");
    agent_put_text(o, x.file);
    agent_put(o, x.line);
    agent_put(o, known ? kind_of(a->ti, method) : HW_JAVA_METHOD_UNKNOWN);
}

bool agent_holders_write(struct agent *a, struct agent_holders *h, int fd)
{
    struct agent_out *o = malloc(sizeof *o);
    if (!o)
        return false;
    uint32_t n = h->frames->n < MAX_FRAMES ? h->frames->n : MAX_FRAMES;
    agent_put_begin(o, fd);
    agent_put(o, h->n);
    for (size_t i = 0; i < h->n; i++) {
        agent_put(o, (uint64_t)h->threads[i].id);
        agent_put(o, h->threads[i].is_daemon);
        agent_put_text(o, h->threads[i].name);
    }
    agent_put(o, n);
    for (uint32_t i = 0; i < n; i++)
        put_frame(a, o, h, h->frames->v[i].method, h->frames->v[i].bci);
    agent_put(o, h->frames->n_lost);
    bool ok = agent_put_end(o);
    free(o);
    return ok;
}
