#include "import/hprof/hprof_sizes.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"

#include "base/banned.h"

enum {
    USUAL = 0,     /* what is taken without a sign of another */
    ALIGNMENT = 8, /* of objects; another one is an option that nobody sets by chance */
    FEW_FITS = 32, /* by so many arrays another layout must fit better */
    BLOCK_BITS = 16,
    MAX_SAMPLE = 1 << 16,
    MAX_DOUBLINGS = 40,
};

/* With 8-byte ids. Of the last two the second is that of JVMs from 23 on. */
static const struct hw_hprof_layout layouts[] = {
    [USUAL] = {12, 16, 4}, /* compressed references and class pointers */
    {12, 16, 8},           /* ZGC, heaps from 32 GB on */
    {8, 12, 4},            /* compact headers */
    {8, 12, 8},
    {16, 24, 8}, /* no compressed class pointers */
    {16, 20, 8},
};
static const struct hw_hprof_layout of_32_bits = {8, 12, 4};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static uint64_t array_size(const struct hw_hprof_layout *l, uint64_t n, uint64_t type)
{
    unsigned width = hw_hprof_type_bytes(type, l->reference);
    return round_up(round_up(l->array_header, width ? width : 1) + n * width, ALIGNMENT);
}

void hw_hprof_sizes_init(struct hw_hprof_sizes *s, const struct hw_hprof_file *f)
{
    *s = (struct hw_hprof_sizes){.layout = f->id_bytes == 8 ? layouts[USUAL] : of_32_bits,
                                 .is_measured = f->id_bytes == 8 && !f->is_art};
}

void hw_hprof_sizes_done(struct hw_hprof_sizes *s)
{
    hw_vec_done(&s->sample);
}

/* ---- the sample ---- */

static bool is_in_sample(const struct hw_hprof_sizes *s, uint64_t address)
{
    return s->doublings == 0 || hw_hash_u64(address >> BLOCK_BITS) >> (64 - s->doublings) == 0;
}

static void thin_out(struct hw_hprof_sizes *s)
{
    size_t n = 0;
    s->doublings++;
    for (size_t i = 0; i < s->sample.n; i++)
        if (is_in_sample(s, s->sample.v[i].address))
            s->sample.v[n++] = s->sample.v[i];
    s->sample.n = n;
}

int hw_hprof_sizes_see(struct hw_hprof_sizes *s, const struct hw_hprof_record *r)
{
    bool is_objects = r->tag == HW_HPROF_OBJECT_ARRAY;
    bool is_array = is_objects || r->tag == HW_HPROF_PRIMITIVE_ARRAY;
    if (!s->is_measured || (!is_array && r->tag != HW_HPROF_INSTANCE))
        return HW_OK;
    struct hw_hprof_cursor c = r->body;
    struct hw_hprof_neighbour x = {.address = hw_hprof_id(&c)};
    if (!is_in_sample(s, x.address))
        return HW_OK;
    (void)hw_hprof_u(&c, 4); /* where it was made */
    if (is_array) {
        x.n_elements = (uint32_t)hw_hprof_u(&c, 4);
        x.element_type = is_objects ? HW_HPROF_OBJECT : (uint32_t)hw_hprof_u(&c, 1);
    }
    while (s->sample.n >= MAX_SAMPLE && s->doublings < MAX_DOUBLINGS)
        thin_out(s);
    /* All in one block: no heap has so many objects there. */
    return c.bad || s->sample.n >= MAX_SAMPLE ? HW_OK : hw_vec_push(&s->sample, x);
}

static int by_address(const void *a, const void *b)
{
    const struct hw_hprof_neighbour *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

void hw_hprof_sizes_decide(struct hw_hprof_sizes *s)
{
    size_t n_fits[HW_ARRAY_LEN(layouts)] = {0}, best = USUAL;
    if (s->sample.n)
        qsort(s->sample.v, s->sample.n, sizeof *s->sample.v, by_address);
    for (size_t i = 0; i + 1 < s->sample.n; i++) {
        const struct hw_hprof_neighbour *x = &s->sample.v[i];
        uint64_t gap = x[1].address - x->address;
        if (!x->element_type || gap >> BLOCK_BITS)
            continue;
        for (size_t k = 0; k < HW_ARRAY_LEN(layouts); k++)
            n_fits[k] += array_size(&layouts[k], x->n_elements, x->element_type) == gap;
    }
    for (size_t k = 0; k < HW_ARRAY_LEN(layouts); k++)
        if (n_fits[k] > n_fits[best])
            best = k;
    if (n_fits[best] >= n_fits[USUAL] + FEW_FITS)
        s->layout = layouts[best];
    hw_vec_done(&s->sample);
}

unsigned hw_hprof_sizes_value(const struct hw_hprof_sizes *s, uint64_t type)
{
    return hw_hprof_type_bytes(type, s->layout.reference);
}

uint64_t hw_hprof_sizes_object(const struct hw_hprof_sizes *s, uint64_t n_bytes)
{
    return round_up(s->layout.object_header + n_bytes, ALIGNMENT);
}

uint64_t hw_hprof_sizes_array(const struct hw_hprof_sizes *s, uint64_t n, uint64_t type)
{
    return array_size(&s->layout, n, type);
}
