#include "proc/owner_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/text/text_parts.h"
#include "proc/memory_owner.h"
#include "proc/smaps.h"

#include "base/banned.h"

#define GO_HEAP     UINT64_C(0xc000000000)
#define GO_HEAP_END UINT64_C(0xd000000000)

const char hw_owner_go[] = "[go heap]";

bool hw_owner_is_go_heap(const struct hw_smaps_entry *e)
{
    return e->start >= GO_HEAP && e->end <= GO_HEAP_END;
}

const char *hw_owner_of_rest(const struct hw_smaps *s, enum hw_owner_allocator allocator)
{
    if (allocator == HW_OWNER_GLIBC)
        return NULL;
    size_t i = HW_LOWER_BOUND(k, 0, s->entries.n, s->entries.v[k].start < GO_HEAP);
    bool is_go = i < s->entries.n && hw_owner_is_go_heap(&s->entries.v[i]);
    return is_go && allocator == HW_OWNER_NO_ALLOCATOR ? hw_owner_go : "[allocator]";
}

struct named {
    const char *path;
    uint64_t kb;
    size_t i;
};

static int by_path(const void *pa, const void *pb)
{
    const struct named *a = pa, *b = pb;
    return strcmp(a->path, b->path);
}

static int by_size(const void *pa, const void *pb)
{
    const struct named *a = pa, *b = pb;
    return a->kb == b->kb ? strcmp(a->path, b->path) : a->kb > b->kb ? -1 : 1;
}

/* What stands for a name beyond the largest; NULL = it stays. */
static const char *without_name(const char *path)
{
    static const struct {
        const char *begin, *one;
    } kinds[] = {{"/memfd:", "/memfd:other"}, {"/dev/shm/", "/dev/shm/other"},
                 {"/SYSV", "/SYSVother"},     {"/", "[other files]"},
                 {"[anon:", "[anon:other]"},  {"[anon_shmem:", "[anon_shmem:other]"},
                 {"[stack:", "[stack:other]"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (hw_starts_with(path, kinds[i].begin))
            return kinds[i].one;
    return NULL;
}

int hw_owner_names_limit(struct hw_smaps_entry *entries, size_t n)
{
    struct named *v = malloc((n + 1) * sizeof *v);
    size_t n_names = 0;
    if (!v)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct named){entries[i].path, entries[i].rss_kb + entries[i].swap_kb, i};
    if (n)
        qsort(v, n, sizeof *v, by_path);
    for (size_t i = 0; i < n; i++) {
        if (n_names && strcmp(v[n_names - 1].path, v[i].path) == 0)
            v[n_names - 1].kb += v[i].kb;
        else
            v[n_names++] = v[i];
    }
    if (n_names > HW_OWNERS_MAX_NAMES) {
        qsort(v, n_names, sizeof *v, by_size);
        uint64_t least = v[HW_OWNERS_MAX_NAMES].kb;
        qsort(v, n_names, sizeof *v, by_path);
        for (size_t i = 0; i < n; i++) {
            struct named key = {entries[i].path, 0, 0};
            const struct named *at = bsearch(&key, v, n_names, sizeof *v, by_path);
            const char *one = at && at->kb <= least ? without_name(at->path) : NULL;
            entries[i].path = one ? one : entries[i].path;
        }
    }
    free(v);
    return HW_OK;
}
