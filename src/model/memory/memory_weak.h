/*
 * memory_weak.h - drops nodes of memory dumps that no process really has
 *
 * Why:     all processes that share memory report it; those that cannot know whether it still
 *          exists report it as weak, and without a strong report it does not exist.
 * Shapes:  called once edges have their nodes, before sizes are computed. Node indexes change. A
 *          node of several processes is weak if all of them say so.
 * Errors:  HW_ENOMEM.
 * Threads: one owner at a time.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_MODEL_MEMORY_MEMORY_WEAK_H
#define HW_MODEL_MEMORY_MEMORY_WEAK_H

struct hw_memory_dumps;

int hw_memory_drop_weak(struct hw_memory_dumps *m);

#endif
