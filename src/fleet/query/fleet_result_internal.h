/* fleet_result_internal.h - shared by the files answer*.c: runs one statement */
#ifndef HW_FLEET_QUERY_FLEET_RESULT_INTERNAL_H
#define HW_FLEET_QUERY_FLEET_RESULT_INTERNAL_H

#include "base/text/strbuf.h"
#include "fleet/push/row_binary.h"
#include "fleet/query/fleet_result.h"

/* *rows is a view of *reply. */
int hw_fleet_do(const struct hw_fleet_source *from, const struct hw_fleet_query_args *ask,
                struct hw_strbuf *reply, struct hw_rows *rows, struct hw_error *err);
/* HW_EFORMAT with a text if reading the rows failed. */
int hw_fleet_rows_check(const struct hw_fleet_source *from, const struct hw_rows *r,
                        struct hw_error *err);

#endif
