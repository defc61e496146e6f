#include "views/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/ids.h"

#include "base/banned.h"

int hw_tree_index_find(struct hw_tree_index *x, uint32_t parent, uint64_t label, uint32_t next,
                       uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&x->labels, label, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = x->labels.n - 1;
    /* + 1: the parent of the top, HW_ID_NONE, becomes 0 */
    uint64_t key = (uint64_t)(parent + 1) << 32 | (uint32_t)*at;
    if (x->has_last && key == x->last_key) {
        *out = x->last_node;
        return HW_OK;
    }
    rc = hw_map64_at(&x->nodes, key, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = next;
    x->has_last = true;
    x->last_key = key;
    *out = x->last_node = (uint32_t)*at;
    return HW_OK;
}

void hw_tree_index_done(struct hw_tree_index *x)
{
    hw_map64_done(&x->labels);
    hw_map64_done(&x->nodes);
}

static uint32_t parent_of(const void *node)
{
    uint32_t parent;
    memcpy(&parent, node, sizeof parent);
    return parent;
}

/* Moves kept nodes to the front and updates their parents' indexes. */
static size_t compact(char *nodes, size_t n, size_t bytes, const uint8_t *kept, uint32_t *new_index)
{
    uint32_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!kept[i])
            continue;
        char *to = nodes + n_kept * bytes;
        memmove(to, nodes + i * bytes, bytes);
        uint32_t parent = parent_of(to);
        if (parent != HW_ID_NONE)
            memcpy(to, &new_index[parent], sizeof parent);
        new_index[i] = n_kept++;
    }
    return n_kept;
}

int hw_tree_focus(const struct hw_tree_focus *f, void *nodes, size_t *n)
{
    hw_autofree uint8_t *below = calloc(*n + 1, 1);
    hw_autofree uint8_t *kept = calloc(*n + 1, 1);
    hw_autofree uint32_t *new_index = calloc(*n + 1, sizeof *new_index);
    char *all = nodes;
    if (!below || !kept || !new_index)
        return HW_ENOMEM;
    for (size_t i = 0; i < *n; i++) {
        char *node = all + i * f->node_bytes;
        uint32_t parent = parent_of(node);
        below[i] = (parent != HW_ID_NONE && below[parent]) || f->matches(f->ctx, node);
        kept[i] = below[i];
    }
    for (size_t i = *n; i-- > 0;) {
        uint32_t parent = parent_of(all + i * f->node_bytes);
        if (kept[i] && parent != HW_ID_NONE)
            kept[parent] = 1;
    }
    *n = compact(all, *n, f->node_bytes, kept, new_index);
    return HW_OK;
}
