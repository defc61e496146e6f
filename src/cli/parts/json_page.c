#include "cli/parts/json_page.h"

#include "base/error.h"

#include "base/banned.h"

static int write_file(void *ctx, const void *p, size_t n)
{
    return fwrite(p, 1, n, (FILE *)ctx) == n ? HW_OK : HW_ESYS;
}

void hw_json_page_begin(struct hw_json *j, FILE *out, const char *type, unsigned flags)
{
    bool pretty = !(flags & HW_PAGE_DENSE);
    hw_json_init(j, flags & HW_PAGE_HELD ? NULL : write_file, out, pretty);
    hw_json_begin_object(j);
    hw_json_kv_int(j, "version", 1);
    hw_json_kv_str(j, "type", type);
}

int hw_json_page_end(struct hw_json *j)
{
    FILE *out = j->ctx;
    bool ends_line = j->pretty; /* of hw_json_finish */
    hw_json_end_object(j);
    int rc = hw_json_finish(j);
    if (rc == HW_OK && !j->write) /* held */
        rc = write_file(out, j->buf.p, j->buf.n);
    hw_json_done(j);
    if (rc == HW_OK && !ends_line && fputc('\n', out) == EOF)
        rc = HW_ESYS;
    return rc;
}
