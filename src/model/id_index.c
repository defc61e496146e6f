#include "model/id_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS, FEW = 8 };

struct pair {
    uint64_t id;
    uint32_t row;
};

/* Least significant digit first, so equal ids stay in the order of their rows. */
static struct pair *sort_pairs(struct pair *a, struct pair *b, size_t n, uint64_t differ)
{
    size_t count[RADIX];
    for (unsigned shift = 0; shift < 64; shift += RADIX_BITS) {
        if (!(differ >> shift & (RADIX - 1)))
            continue;
        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++)
            count[a[i].id >> shift & (RADIX - 1)]++;
        size_t at = 0;
        for (size_t d = 0; d < RADIX; d++) {
            size_t here = count[d];
            count[d] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            b[count[a[i].id >> shift & (RADIX - 1)]++] = a[i];
        struct pair *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

static int sort(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    struct pair *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    ix->sorted = malloc(n * sizeof *ix->sorted);
    ix->rows = malloc(n * sizeof *ix->rows);
    int rc = a && b && ix->sorted && ix->rows ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK) {
        uint64_t differ = 0;
        for (size_t i = 0; i < n; i++) {
            a[i] = (struct pair){ids[i], (uint32_t)i};
            differ |= ids[i] ^ ids[0];
        }
        const struct pair *s = sort_pairs(a, b, n, differ);
        for (size_t i = 0; i < n; i++) {
            if (ix->n && ix->sorted[ix->n - 1] == s[i].id)
                continue;
            ix->sorted[ix->n] = s[i].id;
            ix->rows[ix->n++] = s[i].row;
        }
        ix->n_duplicates = n - ix->n;
        ix->ids = ix->sorted;
    }
    free(a);
    free(b);
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
