#include "cli/query/sql_session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/query/query_out.h"
#include "enrich/lines/demangle.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "open/whole_file.h"
#include "server/rpc/metatrace.h"
#include "sql/sql.h"

#include "base/banned.h"

enum { MAX_SCRIPT = 8 << 20 };

static bool takes(const struct hw_cli *cli, enum hw_option_id id)
{
    return hw_options[id].commands >> cli->command->id & 1;
}

int hw_sql_session_packages(const struct hw_cli *cli, struct hw_sql_packages *out,
                            struct hw_error *err)
{
    const struct hw_optval *v = cli->opts.v;
    const char *own = hw_opt_text(&cli->opts, HW_OPT_TP_OVERRIDE_STDLIB);
    int rc = own ? hw_sql_packages_replace_own(out, own, err) : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < v[HW_OPT_TP_ADD_PACKAGE].list.n; i++)
        rc = hw_sql_packages_add_dir(out, v[HW_OPT_TP_ADD_PACKAGE].list.v[i], false, err);
    for (size_t i = 0; rc == HW_OK && i < v[HW_OPT_TP_OVERRIDE_PACKAGE].list.n; i++)
        rc = hw_sql_packages_add_dir(out, v[HW_OPT_TP_OVERRIDE_PACKAGE].list.v[i], true, err);
    return rc;
}

static int open_sql(struct hw_sql_session *s, struct hw_sql **out, struct hw_error *err)
{
    uint64_t memory = hw_opt_num(&s->cli->opts, HW_OPT_QUERY_MEMORY);
    struct hw_sql_limits limits = {.timeout_ms =
                                       (uint32_t)hw_opt_num(&s->cli->opts, HW_OPT_QUERY_TIMEOUT),
                                   .max_bytes = memory};
    hw_sql_limit_memory(memory);
    int rc = hw_sql_open(s->p, &limits, out, err);
    if (rc < 0)
        return rc;
    rc = hw_sql_use_demangler(*out, hw_demangle_text);
    if (rc == HW_OK)
        rc = hw_sql_use_packages(*out, &s->packages);
    if (rc < 0) {
        hw_sql_close(*out);
        *out = NULL;
    }
    return rc;
}

static int load(struct hw_sql_session *s, const char *trace, struct hw_error *err)
{
    uint64_t start = hw_now_monotonic_ns();
    hw_metatrace_begin(s->metatrace, "load trace", hw_bytes_str(trace));
    int rc = hw_import_file(hw_input_path(trace), &s->p, err);
    if (rc == HW_OK)
        hw_symbol_options_by_environment(s->cli, s->p);
    if (rc == HW_OK)
        rc = open_sql(s, &s->db, err);
    hw_metatrace_end(s->metatrace);
    s->load_ns = (int64_t)(hw_now_monotonic_ns() - start);
    return rc;
}

int hw_sql_session_open(struct hw_sql_session *s, const struct hw_cli *cli, const char *trace)
{
    struct hw_error err = {0};
    int rc = HW_OK;
    *s = (struct hw_sql_session){.cli = cli};
    if (takes(cli, HW_OPT_TP_METATRACE)) {
        if (hw_opt_text(&cli->opts, HW_OPT_TP_METATRACE) &&
            (rc = hw_metatrace_new(&s->metatrace)) == HW_OK)
            hw_metatrace_enable(s->metatrace);
        if (rc == HW_OK)
            rc = hw_sql_session_packages(cli, &s->packages, &err);
    }
    if (rc == HW_OK)
        rc = load(s, trace, &err);
    if (rc < 0) {
        if (!err.text[0])
            (void)hw_fail(&err, rc, 0, "%s", hw_errc_text(rc)); /* printed below */
        hw_sql_session_done(s);
        s->rc = rc;
        return hw_cli_fail(cli, &err);
    }
    return HW_EXIT_OK;
}

int hw_sql_session_reset(struct hw_sql_session *s)
{
    struct hw_error err = {0};
    struct hw_sql *fresh;
    if (open_sql(s, &fresh, &err) < 0)
        return hw_cli_fail(s->cli, &err);
    hw_sql_close(s->db);
    s->db = fresh;
    return HW_EXIT_OK;
}

void hw_sql_session_done(struct hw_sql_session *s)
{
    hw_sql_close(s->db);
    hw_profile_free(s->p);
    hw_sql_packages_done(&s->packages);
    hw_metatrace_free(s->metatrace);
    s->db = NULL;
    s->p = NULL;
    s->metatrace = NULL;
}

int hw_sql_session_write_metatrace(const struct hw_cli *cli, struct hw_metatrace *m,
                                   const char *path)
{
    struct hw_strbuf trace = {0};
    struct hw_error err = {0};
    int rc = hw_metatrace_take(m, &trace);
    struct hw_whole_file file;
    if (rc == HW_EINVAL) /* a client has taken it already */
        rc = HW_OK;
    else if (rc < 0)
        (void)hw_fail(&err, rc, 0, "metatrace");
    else if ((rc = hw_whole_file_open(path, 0666, &file, &err)) == HW_OK) {
        if (hw_fd_write_all(file.fd, trace.p, trace.n) < 0)
            rc = hw_fail_sys(&err, "cannot write '%s'", path);
        rc = hw_whole_file_close(&file, rc, &err);
    }
    hw_strbuf_done(&trace);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

int hw_sql_session_run(struct hw_sql_session *s, const char *sql, size_t n,
                       struct hw_query_out *out)
{
    struct hw_error err = {0};
    struct hw_sql_sink sink = hw_query_out_sink(out);
    size_t n_statements = 0;
    uint64_t start = hw_now_monotonic_ns();
    hw_metatrace_begin(s->metatrace, "query", hw_bytes_of(sql, n));
    int rc = hw_sql_run(s->db, sql, n, &sink, &n_statements, &err);
    hw_metatrace_end(s->metatrace);
    s->query_ns += (int64_t)(hw_now_monotonic_ns() - start);
    s->rc = rc < 0 ? rc : HW_OK;
    if (rc == HW_ESYS && ferror(stdout)) {
        hw_cli_output_failed(s->cli);
        return HW_EXIT_FAILED;
    }
    if (rc < 0) {
        hw_cli_error(s->cli, NULL, "%s", err.text[0] ? err.text : hw_errc_text(rc));
        if (rc == HW_ETIMEOUT && hw_opt_num(&s->cli->opts, HW_OPT_QUERY_TIMEOUT))
            hw_cli_hint("a longer --timeout; 0: no limit");
        else if (rc == HW_ENOMEM && hw_opt_num(&s->cli->opts, HW_OPT_QUERY_MEMORY))
            hw_cli_hint("a larger --max-memory; 0: no limit");
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
