#include "daemon/java/java_agent_load.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arch.h"
#include "base/files/fd.h"
#include "daemon/core.h"
#include "java/jvm/jvm_link.h"

#include "base/banned.h"

#define USUAL         (512 * 1024) /* HotSpot's own */
#define MALLOC_USUAL  4096         /* ours, for other heaps: not wanted */
#define ENTRANCE_ONLY (64 * 1024)
#define COSTLY        (16 * 1024)

static struct hw_heap_choice *choice_of(struct hw_client_config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_heaps; i++)
        if (strcmp(c->heaps[i].name, name) == 0)
            return &c->heaps[i];
    return NULL;
}

static struct hw_heap_choice *add_choice(struct hw_client_config *c, const char *name,
                                         uint64_t interval_bytes)
{
    if (c->n_heaps == HW_MAX_HEAP_CHOICES)
        return NULL;
    struct hw_heap_choice *h = &c->heaps[c->n_heaps++];
    *h = (struct hw_heap_choice){.interval_bytes = interval_bytes};
    memcpy(h->name, name, strlen(name) + 1);
    return h;
}

static const char *const names[] = {"com.android.art", "java.alloc"};

bool hw_java_heap_is(const char *heap_name)
{
    for (size_t k = 0; k < HW_ARRAY_LEN(names); k++)
        if (strcmp(heap_name, names[k]) == 0)
            return true;
    return false;
}

void hw_java_heap_choices(struct hw_target *t, struct hw_client_config *c)
{
    bool any = false;
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++) {
        struct hw_heap_choice *h = choice_of(c, names[i]);
        if (!h && (c->flags & HW_CC_ALL_HEAPS))
            h = add_choice(c, names[i], c->default_interval_bytes);
        if (!h || h->interval_bytes == 0)
            continue;
        any = true;
        if (h->interval_bytes == MALLOC_USUAL)
            h->interval_bytes = USUAL;
        if (h->interval_bytes <= COSTLY)
            hw_session_warn(t->session,
                            "pid %d: sampling Java objects every %llu bytes slows the JVM down (at "
                            "4096 to a third of its speed); 524288 is usual",
                            t->pid.pid, (unsigned long long)h->interval_bytes);
    }
    t->wants_java = any && !(c->flags & HW_CC_ALL_HEAPS);
    if (any && !choice_of(c, "libc.malloc") && !(c->flags & HW_CC_ALL_HEAPS))
        t->hides_libc = add_choice(c, "libc.malloc", ENTRANCE_ONLY) != NULL;
}

static bool has_java_heap(const struct hw_snapshot *s)
{
    for (size_t i = 0; i < s->books.n; i++)
        if (hw_java_heap_is(s->books.v[i].name))
            return true;
    return false;
}

void hw_java_heap_missing(struct hw_target *t, const struct hw_snapshot *s)
{
    if (!t->wants_java || has_java_heap(s))
        return;
    hw_note(t, "java_alloc_unsupported",
            "its Java objects were not sampled (java.alloc): that takes HotSpot of JDK 11 or newer "
            "which runs for at least a second, and managed frames switched on");
}

/* By what the client counted: names of functions do not help, as most are in modules of their
 * own, and may not be known yet. */
static bool has_java_frames(const struct hw_snapshot *s)
{
    return has_java_heap(s) || s->managed_asked > s->managed_none + s->managed_unwalkable +
                                                      s->managed_collecting + s->managed_anchor +
                                                      s->managed_not_asked + s->managed_otherwise;
}

void hw_java_frames_missing(struct hw_target *t, const struct hw_snapshot *s)
{
    if (s->n_samples == 0 || s->broken || t->warned_java || !t->page.map ||
        !atomic_load(&t->page.map->java_hi) || has_java_frames(s))
        return;
    t->warned_java = true;
    hw_note(
        t, "java",
        s->managed_asked
            ? "its stacks have no Java functions: no thread running Java gave a sample after "
              "heapwise's library was in the JVM"
            : "its stacks have no Java functions: heapwise's library was not in the JVM before the "
              "last sample. The JVM may have ended too soon, refuse agents, or not be HotSpot");
}

static bool is_code_of(const struct hw_map *m, const char *name)
{
    const char *slash = strrchr(m->path, '/');
    return slash && strcmp(slash + 1, name) == 0 && (m->flags & HW_MAP_EXEC);
}

/* Once; java_lo is not 0 from then on. False: heap graphs then use the attach protocol. */
static bool tell_library(struct hw_target *t, struct hw_control_page *page)
{
    hw_autofree char *library = NULL;
    struct hw_error err = {0};
    if (atomic_load_explicit(&page->java_lo, memory_order_relaxed))
        return true;
    if (hw_java_find_library(&library, &err) < 0 || strlen(library) >= sizeof page->java_library) {
        if (!t->warned_java && t->is_jvm)
            hw_note(t, "java", "Java functions are missing from its stacks: %s",
                    library ? "the path of heapwise's library for JVMs is too long" : err.text);
        t->warned_java |= t->is_jvm;
        return false;
    }
    for (size_t i = 0; i < t->session->config.java.n; i++)
        if (t->session->config.java.v[i].recorded)
            atomic_store_explicit(&page->java_end_wanted, 1, memory_order_relaxed);
    memcpy(page->java_library, library, strlen(library) + 1);
    atomic_store_explicit(&page->java_lo, HW_JAVA_NOT_YET, memory_order_release);
    return true;
}

void hw_java_entrance_tell(struct hw_target *t)
{
    struct hw_control_page *page = t->page.map;
    for (size_t i = 0; i < t->maps.maps.n && !t->is_jvm; i++)
        t->is_jvm = is_code_of(&t->maps.maps.v[i], "libjvm.so");
    if (t->session->sources.v[t->source].config->no_managed_frames)
        return;
    if (!page || t->hello.arch != HW_ARCH_HERE || atomic_load(&page->java_hi))
        return;
    for (size_t i = 0; i < t->maps.maps.n; i++) {
        const struct hw_map *m = &t->maps.maps.v[i];
        bool is_jvm = is_code_of(m, "libjvm.so");
        if (!is_jvm && !is_code_of(m, "libjli.so"))
            continue;
        if (!tell_library(t, page))
            return;
        if (is_jvm) {
            atomic_store_explicit(&page->java_lo, m->start, memory_order_relaxed);
            atomic_store_explicit(&page->java_hi, m->end, memory_order_release);
            return;
        }
    }
}
