#include "proc/allocator.h"

#include <string.h>

#include "base/bytes.h"
#include "base/text/text_parts.h"
#include "proc/maps.h"

#include "base/banned.h"

/* By rank: a preloaded or linked allocator wins over the libc that is always there. */
static const struct {
    const char *prefix, *name;
} libraries[] = {
    {"libjemalloc", "jemalloc"}, {"libtcmalloc", "tcmalloc"}, {"libmimalloc", "mimalloc"},
    {"libc.so.6", "glibc"},      {"libc-2.", "glibc"},        {"ld-musl-", "musl"},
    {"libc.musl-", "musl"},      {"libc.so", "bionic"},
};

const char *hw_allocator_name(const struct hw_maps *m)
{
    size_t best = HW_ARRAY_LEN(libraries);
    for (size_t i = 0; i < m->maps.n; i++) {
        const char *slash = strrchr(m->maps.v[i].path, '/');
        for (size_t k = 0; slash && k < best; k++)
            if (hw_starts_with(slash + 1, libraries[k].prefix))
                best = k;
    }
    return best < HW_ARRAY_LEN(libraries) ? libraries[best].name : NULL;
}
