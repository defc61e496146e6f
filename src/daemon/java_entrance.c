#include "daemon/java_entrance.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arch.h"
#include "base/fd.h"
#include "daemon/core.h"
#include "java/jvm_link.h"

#include "base/banned.h"

static bool is_libjvm(const struct hw_map *m)
{
    const char *slash = strrchr(m->path, '/');
    return slash && strcmp(slash, "/libjvm.so") == 0 && (m->flags & HW_MAP_EXEC);
}

void hw_java_entrance_tell(struct hw_target *t)
{
    hw_autofree char *library = NULL;
    struct hw_control_page *page = t->page.map;
    if (t->session->sources.v[t->source].config->no_managed_frames)
        return;
    if (!page || t->hello.arch != HW_ARCH_HERE || atomic_load(&page->java_hi))
        return;
    for (size_t i = 0; i < t->maps.maps.n; i++) {
        const struct hw_map *m = &t->maps.maps.v[i];
        if (!is_libjvm(m))
            continue;
        if (hw_java_find_library(&library, NULL) < 0 ||
            strlen(library) >= sizeof page->java_library)
            return; /* heap graphs come by the attach protocol then */
        memcpy(page->java_library, library, strlen(library) + 1);
        atomic_store_explicit(&page->java_lo, m->start, memory_order_relaxed);
        atomic_store_explicit(&page->java_hi, m->end, memory_order_release);
        return;
    }
}
