#include "cli/sql_session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/names.h"
#include "cli/query_out.h"
#include "cli/show.h"
#include "enrich/demangle.h"
#include "import/import.h"
#include "model/profile.h"
#include "sql/sql.h"

#include "base/banned.h"

enum { MAX_SCRIPT = 8 << 20 };

int hw_sql_session_open(struct hw_sql_session *s, const struct hw_cli *cli, const char *trace)
{
    struct hw_error err = {0};
    uint64_t start = hw_now_monotonic_ns();
    *s = (struct hw_sql_session){.cli = cli};
    int rc = hw_import_file(hw_input_path(trace), &s->p, &err);
    if (rc == 0)
        hw_names_by_environment(cli, s->p);
    if (rc == 0)
        rc = hw_sql_open(s->p, NULL, &s->db, &err);
    if (rc == 0)
        rc = hw_sql_add_text_function(s->db, "demangle", hw_demangle_text);
    s->load_ns = (int64_t)(hw_now_monotonic_ns() - start);
    if (rc < 0) {
        (void)hw_fail(&err, rc, 0, "%s", err.text[0] ? err.text : hw_errc_text(rc));
        hw_sql_session_done(s);
        return hw_cli_fail(cli, &err);
    }
    return HW_EXIT_OK;
}

void hw_sql_session_done(struct hw_sql_session *s)
{
    hw_sql_close(s->db);
    hw_profile_free(s->p);
    s->db = NULL;
    s->p = NULL;
}

int hw_sql_session_run(struct hw_sql_session *s, const char *sql, size_t n,
                       struct hw_query_out *out)
{
    struct hw_error err = {0};
    struct hw_sql_sink sink = hw_query_out_sink(out);
    size_t n_statements = 0;
    uint64_t start = hw_now_monotonic_ns();
    int rc = hw_sql_run(s->db, sql, n, &sink, &n_statements, &err);
    s->query_ns += (int64_t)(hw_now_monotonic_ns() - start);
    if (rc < 0) {
        hw_cli_error(s->cli, NULL, "%s", err.text[0] ? err.text : hw_errc_text(rc));
        return HW_EXIT_FAILED;
    }
    if (n_statements == 0) {
        hw_cli_error(s->cli, NULL, "No valid SQL to run");
        return HW_EXIT_FAILED;
    }
    return HW_EXIT_OK;
}

int hw_sql_session_run_file(struct hw_sql_session *s, const char *path, struct hw_query_out *out)
{
    struct hw_error err = {0};
    char *text;
    size_t n;
    int rc = hw_file_read(AT_FDCWD, hw_input_path(path), MAX_SCRIPT, &text, &n, &err);
    if (rc < 0)
        return hw_cli_fail(s->cli, &err);
    rc = hw_sql_session_run(s, text, n, out);
    free(text);
    return rc;
}
