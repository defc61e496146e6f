#include "model/id_index.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/radix.h"

#include "base/banned.h"

enum { FEW = 8 };

static int sort(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    struct hw_radix16 *pairs = malloc(n * sizeof *pairs);
    ix->sorted = malloc(n * sizeof *ix->sorted);
    ix->rows = malloc(n * sizeof *ix->rows);
    int rc = pairs && ix->sorted && ix->rows ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        pairs[i] = (struct hw_radix16){ids[i], (uint32_t)i, 0};
    if (rc == HW_OK)
        rc = hw_radix_sort16(pairs, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (ix->n && ix->sorted[ix->n - 1] == pairs[i].key)
            continue; /* equal ids are in the order of their rows: the first stays */
        ix->sorted[ix->n] = pairs[i].key;
        ix->rows[ix->n++] = pairs[i].a;
    }
    ix->n_duplicates = n - ix->n;
    ix->ids = ix->sorted;
    free(pairs);
    return rc;
}

static int make_buckets(struct hw_id_index *ix)
{
    uint64_t span = ix->ids[ix->n - 1] - ix->ids[0];
    while (ix->shift < 63 && span >> ix->shift >= ix->n)
        ix->shift++;
    ix->n_buckets = (size_t)(span >> ix->shift) + 1;
    ix->starts = malloc((ix->n_buckets + 1) * sizeof *ix->starts);
    if (!ix->starts)
        return HW_ENOMEM;
    size_t bucket = 0;
    for (size_t i = 0; i < ix->n; i++) {
        size_t mine = (size_t)((ix->ids[i] - ix->ids[0]) >> ix->shift);
        while (bucket <= mine)
            ix->starts[bucket++] = (uint32_t)i;
    }
    while (bucket <= ix->n_buckets)
        ix->starts[bucket++] = (uint32_t)ix->n;
    return HW_OK;
}

int hw_id_index_init(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    bool rising = true;
    *ix = (struct hw_id_index){0};
    if (n == 0)
        return HW_OK;
    for (size_t i = 1; rising && i < n; i++)
        rising = ids[i - 1] < ids[i];
    if (rising) {
        ix->ids = ids;
        ix->n = n;
    }
    int rc = rising ? HW_OK : sort(ix, ids, n);
    return rc < 0 ? rc : make_buckets(ix);
}

void hw_id_index_done(struct hw_id_index *ix)
{
    free(ix->sorted);
    free(ix->rows);
    free(ix->starts);
    *ix = (struct hw_id_index){0};
}

bool hw_id_index_find(const struct hw_id_index *ix, uint64_t id, uint32_t *row)
{
    if (ix->n == 0 || id < ix->ids[0] || id > ix->ids[ix->n - 1])
        return false;
    size_t bucket = (size_t)((id - ix->ids[0]) >> ix->shift);
    size_t low = ix->starts[bucket], high = ix->starts[bucket + 1], end = high;
    while (high - low > FEW) {
        size_t mid = low + (high - low) / 2;
        if (ix->ids[mid] <= id)
            low = mid;
        else
            high = mid;
    }
    while (low < end && ix->ids[low] < id)
        low++;
    if (low >= end || ix->ids[low] != id)
        return false;
    *row = ix->rows ? ix->rows[low] : (uint32_t)low;
    return true;
}
