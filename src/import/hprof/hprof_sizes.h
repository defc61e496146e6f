/*
 * hprof_sizes.h - how much memory the objects of a Java heap dump file took
 *
 * Why:     HotSpot's files hold fields and elements, no sizes. How wide headers and references are
 *          depends on the JVM's options (compressed references, compressed class pointers, compact
 *          headers): with ZGC an array of objects takes twice the bytes. Ids are addresses, and most
 *          objects begin where the one below ends: the layout is the one that most arrays fit.
 * Shapes:  show every record of the file once; then decide; then ask. With too few neighbours, and
 *          in files of 4-byte ids, the layout is the usual one: compressed references.
 *          Blocks of 64 KiB are looked at as a whole or not at all, about 65,536 objects in all.
 * Units:   bytes.
 * Owns:    the sample; decide frees it, done does so without deciding.
 * Errors:  HW_ENOMEM.
 * Cost:    one hash an object; sorting the sample.
 * Source:  doc/design/heap-graphs.md, ".hprof files"
 */
#ifndef HW_IMPORT_HPROF_HPROF_SIZES_H
#define HW_IMPORT_HPROF_HPROF_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "import/hprof/hprof_file.h"

struct hw_hprof_layout {
    uint8_t object_header, array_header, reference;
};

struct hw_hprof_neighbour {
    uint64_t address;
    uint32_t n_elements, element_type; /* 0 = no array */
};

struct hw_hprof_sizes {
    struct hw_hprof_layout layout; /* decided */
    bool is_measured;              /* can it be another than the usual one? */
    unsigned doublings;            /* one of 2^doublings blocks is in the sample */
    HW_VEC(struct hw_hprof_neighbour) sample;
};

void hw_hprof_sizes_init(struct hw_hprof_sizes *s, const struct hw_hprof_file *f);
void hw_hprof_sizes_done(struct hw_hprof_sizes *s);
int hw_hprof_sizes_see(struct hw_hprof_sizes *s, const struct hw_hprof_record *r);
void hw_hprof_sizes_decide(struct hw_hprof_sizes *s);

/* Of a value in an object; 0 = no such type. */
unsigned hw_hprof_sizes_value(const struct hw_hprof_sizes *s, uint64_t type);
/* With a header, and what n_bytes of fields are rounded up to. */
uint64_t hw_hprof_sizes_object(const struct hw_hprof_sizes *s, uint64_t n_bytes);
uint64_t hw_hprof_sizes_array(const struct hw_hprof_sizes *s, uint64_t n, uint64_t type);

#endif
