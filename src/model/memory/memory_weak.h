/*
 * memory_weak.h - nodes of memory dumps that no process really has
 *
 * Why:     processes that share memory all tell of it; those that cannot know whether it still
 *          exists tell so weakly, and without a strong one it is not there.
 * Shapes:  called once edges have their nodes, before sizes are computed. Nodes move; a node of
 *          several processes is weak when all of them say so.
 * Errors:  HW_ENOMEM.
 * Threads: one owner at a time.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_MODEL_MEMORY_MEMORY_WEAK_H
#define HW_MODEL_MEMORY_MEMORY_WEAK_H

struct hw_memory_dumps;

int hw_memory_drop_weak(struct hw_memory_dumps *m);

#endif
