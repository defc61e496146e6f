/* pages_assets.h - the built page inside the program; the table is made by tools/embed-ui */
#ifndef HW_SERVER_API_PAGES_ASSETS_H
#define HW_SERVER_API_PAGES_ASSETS_H

#include <stddef.h>
#include <stdint.h>

struct hw_asset {
    const char *path, *type;
    const uint8_t *p; /* gzip */
    size_t n;
};
extern const struct hw_asset hw_assets[];
extern const size_t hw_n_assets;

#endif
