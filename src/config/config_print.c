#include "base/error.h"
#include "config/config.h"
#include "schema/print.h"
#include "schema/schema.h"

#include "base/banned.h"

int hw_config_binary_to_text(struct hw_bytes binary, struct hw_strbuf *out, struct hw_error *err)
{
    const struct hw_schema_message *root = hw_schema_message_find("TraceConfig");
    if (!root)
        return hw_fail(err, HW_ENOTFOUND, 0, "no TraceConfig in the schema");
    int rc = hw_schema_print(root, binary, /* indent = */ 0, out, /* damaged = */ NULL, err);
    if (rc < 0 && rc != HW_ENOMEM)
        hw_error_prefix(err, "the configuration is not a valid message");
    return rc;
}
