/*
 * pprof_frames.h - what the samples of a pprof profile refer to: mappings, functions, locations
 *
 * Shapes:  a location of the file becomes a frame of the model; its lines (functions inlined into
 *          each other) become the symbols of that frame. Damaged parts are left out.
 * Owns:    its tables; strings are borrowed from the file.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/pprof.md
 */
#ifndef HW_IMPORT_PPROF_FRAMES_H
#define HW_IMPORT_PPROF_FRAMES_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"

struct hw_profile;

struct hw_pprof_function {
    hw_str_id name, system_name, file;
};

struct hw_pprof_frames {
    struct hw_profile *p;            /* borrowed */
    HW_VEC(struct hw_bytes) strings; /* filled by the caller before hw_pprof_frames_read */
    struct hw_map64 mappings;        /* id -> hw_mapping_id */
    HW_VEC(uint64_t) biases;         /* by mapping row: address - bias = rel_pc */
    struct hw_map64 function_ids;    /* id -> index */
    HW_VEC(struct hw_pprof_function) functions;
    struct hw_map64 locations; /* id -> hw_frame_id */
};

int hw_pprof_frames_read(struct hw_pprof_frames *in, struct hw_bytes file);
void hw_pprof_frames_done(struct hw_pprof_frames *in);

/* Empty if there is no such string. */
struct hw_bytes hw_pprof_string(const struct hw_pprof_frames *in, uint64_t index);
/* A numeric field of a message; 0 if absent. */
uint64_t hw_pprof_number(struct hw_bytes message, uint32_t field);

#endif
