#include "cli/all_recorders.h"

#include <stdio.h>

#include "cli/cli.h"

#include "base/banned.h"

int hw_cli_query_recorders(const struct hw_cli *cli, struct hw_recorders *out, struct hw_error *err)
{
    int rc = hw_recorders_query(out, err);
    for (size_t i = 0; rc == HW_OK && i < out->silent.n; i++)
        fprintf(stderr,
                "%s: recorder %d does not answer, so what it records is not known here; is it "
                "stopped? (kill -CONT %d)\n",
                cli->program, out->silent.v[i], out->silent.v[i]);
    return rc;
}
