/* config: settings and where they come from; a recording configuration checked or shown. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "config/command/settings.h"
#include "config/config.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum { MAX_CONFIG = 16 << 20 };

/* ---- settings of one command ---- */

static void value_text(const struct hw_option *def, const struct hw_optval *v, struct hw_strbuf *b)
{
    if (def->kind == HW_OK_FLAG)
        hw_strbuf_adds(b, v->num ? "true" : "false");
    else if (def->kind == HW_OK_LIST || def->kind == HW_OK_REPEAT)
        for (size_t i = 0; i < v->list.n; i++)
            hw_strbuf_addf(b, "%s%s", i ? "," : "", v->list.v[i]);
    else if (v->text)
        hw_strbuf_adds(b, v->text);
}

static bool is_setting(const struct hw_option *def, int id, const struct hw_command *cmd)
{
    return (def->commands & 1ull << cmd->id) && !(def->flags & HW_OF_HIDDEN) && id != HW_OPT_HELP;
}

static void print_settings(const struct hw_opts *o, const struct hw_command *cmd)
{
    printf("[%s]\n", cmd->name);
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!is_setting(def, i, cmd))
            continue;
        struct hw_strbuf value = {0};
        value_text(def, &o->v[i], &value);
        bool unset = !o->v[i].set && value.n == 0;
        printf("%s%s = %s", unset ? "# " : "", def->name, value.p ? value.p : "");
        printf("   # %s\n", o->v[i].set ? o->v[i].origin : unset ? "not set" : "default");
        hw_strbuf_done(&value);
    }
}

static int json_settings(const struct hw_opts *o, const struct hw_command *cmd)
{
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "settings", 0);
    hw_json_kv_str(&j, "command", cmd->name);
    hw_json_key(&j, "settings");
    hw_json_begin_array(&j);
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        if (!is_setting(&hw_options[i], i, cmd))
            continue;
        struct hw_strbuf value = {0};
        value_text(&hw_options[i], &o->v[i], &value);
        hw_json_begin_object(&j);
        hw_json_kv_str(&j, "name", hw_options[i].name);
        hw_json_kv_str(&j, "value", value.n ? value.p : NULL);
        hw_json_kv_str(&j, "origin", o->v[i].set ? o->v[i].origin : "default");
        hw_json_end_object(&j);
        hw_strbuf_done(&value);
    }
    hw_json_end_array(&j);
    int rc = hw_json_page_end(&j);
    return rc < 0 ? HW_EXIT_FAILED : HW_EXIT_OK;
}

static int settings(struct hw_cli *cli, const struct hw_command *cmd)
{
    struct hw_error err = {0};
    struct hw_opts *o = calloc(1, sizeof *o);
    if (!o) {
        hw_cli_error(cli, NULL, "out of memory");
        return HW_EXIT_FAILED;
    }
    int status = HW_EXIT_OK;
    if (hw_opts_init(o, cmd, &err) < 0 || hw_settings_apply(o, cmd, &err) < 0)
        status = hw_cli_fail(cli, &err);
    else if (hw_opt_flag(&cli->opts, HW_OPT_JSON))
        status = json_settings(o, cmd);
    else
        print_settings(o, cmd);
    hw_opts_done(o);
    free(o);
    return status;
}

/* ---- a recording configuration ---- */

static bool is_text(struct hw_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] < 0x20 && !(b.p[i] >= '\t' && b.p[i] <= '\r'))
            return false;
    return true;
}

static int to_binary(struct hw_cli *cli, const char *name, struct hw_strbuf *out)
{
    struct hw_error err = {0};
    hw_autofree char *text = NULL;
    size_t n;
    int rc = strcmp(name, "-") == 0 ? hw_fd_read_file(STDIN_FILENO, MAX_CONFIG, &text, &n, &err)
                                    : hw_file_read(AT_FDCWD, name, MAX_CONFIG, &text, &n, &err);
    if (rc < 0)
        return hw_cli_fail(cli, &err);
    struct hw_bytes raw = hw_bytes_of(text, n);
    if (!hw_opt_flag(&cli->opts, HW_OPT_TXT) && !is_text(raw)) {
        hw_strbuf_add(out, raw.p, raw.n);
        return HW_EXIT_OK;
    }
    if (hw_config_text_to_binary(name, raw, /* lossy = */ false, out, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return HW_EXIT_FAILED;
    }
    return HW_EXIT_OK;
}

static int check(struct hw_cli *cli, const char *name, const struct hw_strbuf *binary)
{
    struct hw_error err = {0};
    struct hw_trace_config c;
    if (binary->n == 0) {
        fprintf(stderr, "The TraceConfig is empty\n");
        return HW_EXIT_FAILED;
    }
    if (hw_config_read(hw_bytes_of(binary->p, binary->n), &c, &err) < 0) {
        hw_cli_error(cli, NULL, "'%s' is refused: %s", name, err.text);
        return HW_EXIT_FAILED;
    }
    if (c.warnings.n)
        fputs(c.warnings.p, stderr);
    printf("%s: good\n", name);
    hw_trace_config_done(&c);
    return HW_EXIT_OK;
}

static int show(struct hw_cli *cli, const struct hw_strbuf *binary)
{
    struct hw_error err = {0};
    struct hw_strbuf text = {0};
    int status = HW_EXIT_OK;
    if (hw_config_binary_to_text(hw_bytes_of(binary->p, binary->n), &text, &err) < 0)
        status = hw_cli_fail(cli, &err);
    else if (text.n)
        fwrite(text.p, 1, text.n, stdout); /* main checks ferror */
    hw_strbuf_done(&text);
    return status;
}

int hw_cmd_config(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    const char *name = o->n_args ? o->args[0] : NULL;
    const struct hw_command *cmd = hw_command_find(name ? name : "record");
    bool is_command = cmd && !(cmd->flags & HW_CF_HIDDEN) && (!name || access(name, F_OK) != 0);
    if (is_command && !hw_opt_flag(o, HW_OPT_CHECK))
        return settings(cli, cmd);
    if (!name) {
        hw_cli_error(cli, NULL, "which file is to be checked?");
        return HW_EXIT_USAGE;
    }
    struct hw_strbuf binary = {0};
    int status = to_binary(cli, name, &binary);
    if (status == HW_EXIT_OK)
        status = hw_opt_flag(o, HW_OPT_PRINT) ? show(cli, &binary) : check(cli, name, &binary);
    hw_strbuf_done(&binary);
    return status;
}
