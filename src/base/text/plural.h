/* plural.h - "1 dump", "2 dumps" */
#ifndef HW_BASE_TEXT_PLURAL_H
#define HW_BASE_TEXT_PLURAL_H

#include <stdint.h>

static inline const char *hw_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
