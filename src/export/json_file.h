/* json_file.h - a hw_json that writes to a stdio stream */
#ifndef HW_EXPORT_JSON_FILE_H
#define HW_EXPORT_JSON_FILE_H

#include <stdio.h>

#include "base/error.h"
#include "base/text/json_out.h"

static inline int hw_json_write_file(void *ctx, const void *p, size_t n)
{
    return fwrite(p, 1, n, (FILE *)ctx) == n ? HW_OK : HW_ESYS;
}

#endif
