#include "enrich/load_bias.h"

#include <elf.h>
#include <stddef.h>

#include "elf/image.h"
#include "model/callsites.h"

#include "base/banned.h"

struct hw_code_place hw_code_place_of(const struct hw_image *img)
{
    for (size_t i = 0; i < img->n_segments; i++) {
        const struct hw_image_segment *s = &img->segments[i];
        if (s->type != PT_LOAD || !(s->flags & PF_X))
            continue;
        uint64_t align = s->align ? s->align : 1;
        return (struct hw_code_place){s->va, align, (align & (align - 1)) == 0};
    }
    return (struct hw_code_place){0};
}

uint64_t hw_load_bias_missing(const struct hw_code_place *code, const struct hw_mapping *m)
{
    if (!code->known)
        return 0;
    uint64_t mask = ~(code->align - 1);
    uint64_t real = (code->va & mask) - ((m->exact_offset - m->start_offset) & mask);
    return (int64_t)(real - m->load_bias) > 0 ? real - m->load_bias : 0;
}
