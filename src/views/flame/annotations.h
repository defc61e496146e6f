/*
 * annotations.h - the kind of a managed runtime's frame: compiled, interpreted, its own code
 *
 * Shapes:  decided by the mapping's path, from the root on. The runtime's frames below managed
 *          code are common frames; the frame that a JNI trampoline calls is the native method and
 *          has no annotation.
 * Threads: pure.
 * Source:  doc/formats/pprof.md, "Managed frames"
 */
#ifndef HW_VIEWS_FLAME_ANNOTATIONS_H
#define HW_VIEWS_FLAME_ANNOTATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"

enum hw_annotation {
    HW_ANNOTATION_NONE,
    HW_ANNOTATION_INTERP,
    HW_ANNOTATION_JIT,
    HW_ANNOTATION_AOT,
    HW_ANNOTATION_COMMON,
    HW_ANNOTATION_COMMON_INTERP,
    HW_ANNOTATION_COUNT
};

/* "none", "interp", "jit", "aot", "common-frame", "common-frame-interp". */
const char *hw_annotation_name(enum hw_annotation a);
/* Whether any frame can have one. */
bool hw_has_managed_code(const struct hw_profile *p);
/* The frames of a callsite, root first, and the annotation of each. The caller frees both.
 * HW_ENOMEM. */
int hw_annotate_path(const struct hw_profile *p, hw_callsite_id id, hw_frame_id **frames,
                     uint8_t **annotations, size_t *n);

#endif
