#include "cli/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/parts/loss_text.h"
#include "cli/parts/open_profile.h"
#include "cli/report/report_data.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"

#include "base/banned.h"

static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++) {
        const char *v = getenv(names[i]);
        if (v && v[0])
            return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
    }
    return false;
}

struct hw_report_options hw_report_defaults(const struct hw_cli *cli, int fd)
{
    const char *term = getenv("TERM");
    bool smart = isatty(fd) && !(term && strcmp(term, "dumb") == 0);
    return (struct hw_report_options){.metric = HW_METRIC_SPACE,
                                      .top = 20,
                                      .fold = true,
                                      .pid = -1,
                                      .wrappers = hw_open_profile_wrappers(cli),
                                      .color = hw_cli_color(cli, fd),
                                      .unicode = smart && locale_is_utf8(),
                                      .width = hw_cli_width(fd)};
}

/* No dump at all: prints the reasons the trace has. */
static int no_data(const struct hw_profile *p, struct hw_error *err)
{
    hw_losses losses = {0};
    struct hw_strbuf text = {0};
    fprintf(stderr, "heapwise: %s [no-data]\n", err && err->text[0] ? err->text : "no data");
    if (hw_losses_find(p, &losses) == 0) {
        for (size_t i = 0; i < losses.n; i++) {
            hw_strbuf_clear(&text);
            hw_loss_text(&text, p, &losses.v[i]);
            fprintf(stderr, "%s\n", text.p ? text.p : "");
        }
    }
    if (losses.n == 0)
        fputs("hint: heapwise explain no-data\n", stderr);
    hw_strbuf_done(&text);
    hw_vec_done(&losses);
    return HW_EXIT_NO_DATA;
}

int hw_report_print(const struct hw_profile *p, const struct hw_report_options *o, FILE *out,
                    struct hw_error *err)
{
    struct hw_report_data d;
    struct hw_error local = {0};
    int rc = hw_report_data_init(&d, p, o, err ? err : &local);
    if (rc == HW_ENOTFOUND)
        return no_data(p, err ? err : &local);
    if (rc < 0)
        return rc;
    rc = o->json ? hw_report_json(&d, out) : hw_report_text(&d, out);
    bool incomplete = d.incomplete;
    hw_report_data_done(&d);
    if (fflush(out) != 0 || ferror(out))
        return hw_fail_sys(err, "cannot write the report");
    if (rc < 0)
        return hw_fail(err, rc, 0, "report:");
    return incomplete ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

int hw_report_file(const struct hw_cli *cli, const char *path, const struct hw_report_options *o,
                   FILE *out)
{
    struct hw_error err = {0};
    struct hw_profile *p = NULL;
    int rc = hw_import_file(hw_input_path(path), &p, &err);
    if (rc == 0 && !o->named)
        hw_symbol_options_by_environment(cli, p);
    if (rc == 0)
        rc = hw_report_print(p, o, out, &err);
    hw_profile_free(p);
    return rc < 0 ? hw_cli_fail(cli, &err) : rc;
}
