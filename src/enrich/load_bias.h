/*
 * load_bias.h - from an address in a trace to the one in its file
 *
 * Why:     traces of old recorders may have a load bias that is too small; what is looked up in the
 *          file is then rel_pc and the rest.
 */
#ifndef HW_ENRICH_LOAD_BIAS_H
#define HW_ENRICH_LOAD_BIAS_H

#include <stdbool.h>
#include <stdint.h>

struct hw_image;
struct hw_mapping;

struct hw_code_place {
    uint64_t va, align; /* of the first executable PT_LOAD */
    bool known;
};

struct hw_code_place hw_code_place_of(const struct hw_image *img);
/* To be added to the mapping's rel_pc; 0 when nothing is known. */
uint64_t hw_load_bias_missing(const struct hw_code_place *code, const struct hw_mapping *m);

#endif
