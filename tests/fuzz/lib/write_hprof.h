/* Heap graphs of any input, written as .hprof and read again: no instance gets lost or changes its
 * class's name. */
#ifndef WRITE_HPROF_H
#define WRITE_HPROF_H

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "export/hprof/hprof_layout.h"
#include "export/hprof/hprof_writer.h"
#include "import/hprof/hprof_reader.h"
#include "model/profile.h"

static inline size_t count_instances(const struct hw_hprof_layout *l)
{
    size_t n = 0;
    for (uint32_t o = 0; o < l->g->n_objects; o++)
        n += hw_hprof_is_instance(l, o);
    return n;
}

static inline void read_again(struct hw_bytes file, size_t n_instances)
{
    struct hw_profile *p;
    if (hw_profile_new(&p) < 0)
        return;
    if (hw_import_hprof.read(file, p, NULL) == 0 && hw_profile_freeze(p) == 0) {
        struct hw_hprof_layout l;
        if (p->graphs.n != 1)
            __builtin_trap();
        if (hw_hprof_layout_init(&l, p, p->graphs.v[0]) == 0 && count_instances(&l) != n_instances)
            __builtin_trap();
        hw_hprof_layout_done(&l);
    }
    hw_profile_free(p);
}

static inline void write_hprof(const struct hw_profile *p)
{
    enum { ENOUGH = 1 << 20 }; /* bytes: inputs may claim arrays of gigabytes */
    for (size_t i = 0; i < p->graphs.n; i++) {
        struct hw_hprof_layout l;
        char *text = NULL;
        size_t n = 0;
        uint64_t left_out;
        int rc = hw_hprof_layout_init(&l, p, p->graphs.v[i]);
        FILE *f = rc == 0 && l.total_bytes < ENOUGH ? open_memstream(&text, &n) : NULL;
        rc = f ? hw_hprof_write(p, p->graphs.v[i], f, &left_out, NULL) : -1;
        if (f && fclose(f) == 0 && rc == 0)
            read_again(hw_bytes_of(text, n), count_instances(&l));
        free(text);
        hw_hprof_layout_done(&l);
    }
}

#endif
