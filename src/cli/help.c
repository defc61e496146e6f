#include "cli/help.h"

#include <string.h>

#include "base/bytes.h"
#include "base/text/text_parts.h"
#include "cli/cli.h"
#include "config/command/units.h"

#include "base/banned.h"

static bool takes(const struct hw_command *cmd, const struct hw_option *def)
{
    return (def->commands & 1ull << cmd->id) && !(def->flags & HW_OF_HIDDEN);
}

static void synopsis(FILE *f, const struct hw_command *cmd)
{
    if (cmd->flags & HW_CF_CLASSIC)
        fprintf(f, "%s [OPTIONS] %s\n", cmd->name, cmd->args);
    else
        fprintf(f, "heapwise %s [OPTIONS] %s\n", cmd->name, cmd->args);
}

/* The text between an option's name and its value; for an optional value it ends with "]". */
static const char *joint_of(const struct hw_option *def)
{
    return !def->arg ? "" : def->flags & HW_OF_OPTIONAL ? "[=" : " ";
}

static void option_line(FILE *f, const struct hw_option *def)
{
    enum { HELP_COLUMN = 32, WIDTH = 100 };
    char left[96], text[400];
    int n = snprintf(left, sizeof left, "  %c%c%s --%s%s%s", def->short_name ? '-' : ' ',
                     def->short_name ? def->short_name : ' ', def->short_name ? "," : " ",
                     def->name, joint_of(def), def->arg ? def->arg : "");
    if (def->flags & HW_OF_OPTIONAL)
        n += snprintf(left + n, sizeof left - (size_t)n, "]");
    fputs(left, f);
    if (n >= HELP_COLUMN - 1) {
        fputc('\n', f);
        n = 0;
    }
    fprintf(f, "%*s", HELP_COLUMN - n, "");
    bool show_default = def->default_text && def->arg && strcmp(def->default_text, "0") != 0;
    (void)snprintf(text, sizeof text, "%s%s%s%s", def->help, show_default ? " (default " : "",
                   show_default ? def->default_text : "", show_default ? ")" : "");
    hw_print_folded(f, text, HELP_COLUMN, HELP_COLUMN, WIDTH);
}

static void examples(FILE *f, const struct hw_command *cmd, size_t max)
{
    if (!cmd->examples[0])
        return;
    fputs("\nExamples:\n", f);
    for (const char *p = cmd->examples; *p && max > 0; max--) {
        size_t n = strcspn(p, "\n");
        fprintf(f, "  %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

/* Options by group, each under its title. */
static void put_groups(FILE *f, const struct hw_command *cmd, const char *before, const char *after,
                       void (*put)(FILE *f, const struct hw_option *def))
{
    for (int g = 0; g < HW_OG_COUNT; g++) {
        bool titled = false;
        for (int i = 0; i < HW_OPT_COUNT; i++) {
            const struct hw_option *def = &hw_options[i];
            if (!takes(cmd, def) || def->group != (enum hw_option_group)g)
                continue;
            if (!titled)
                fprintf(f, "%s%s%s\n", before, hw_option_group_title(def->group), after);
            titled = true;
            put(f, def);
        }
    }
}

void hw_help_command(FILE *f, const struct hw_command *cmd, bool all)
{
    fputs("usage: ", f);
    synopsis(f, cmd);
    fprintf(f, "\n%c%s.\n",
            cmd->summary[0] - ('a' <= cmd->summary[0] && cmd->summary[0] <= 'z' ? 32 : 0),
            cmd->summary + 1);
    if (all) {
        put_groups(f, cmd, "\n", ":", option_line);
        fputs("\nSizes take K M G (1024) and KB MB GB (1000), times ms s m h d (a bare number: "
              "ms).\n",
              f);
    } else {
        fputs("\nCommon options:\n", f);
        for (int i = 0; i < HW_OPT_COUNT; i++)
            if (takes(cmd, &hw_options[i]) && (hw_options[i].flags & HW_OF_COMMON))
                option_line(f, &hw_options[i]);
    }
    examples(f, cmd, all ? 100 : 3);
}

bool hw_help_wants_all(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            break;
        if (strncmp(argv[i], "--h", 3) == 0 && hw_starts_with("--help", argv[i]))
            return true;
    }
    return false;
}

void hw_help_front(FILE *f)
{
    fputs("usage: heapwise COMMAND [OPTIONS] [ARGUMENTS]\n\n"
          "A native heap profiler for Linux.\n\nCommands:\n",
          f);
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (!(hw_commands[i].flags & (HW_CF_HIDDEN | HW_CF_CLASSIC)))
            fprintf(f, "  %-12s %s\n", hw_commands[i].name, hw_commands[i].summary);
    bool titled = false;
    for (int i = 0; i < HW_CMD_COUNT; i++) {
        if (!(hw_commands[i].flags & HW_CF_CLASSIC))
            continue;
        if (!titled)
            fputs("\nClassic names (commands of their own, too):\n", f);
        titled = true;
        fprintf(f, "  %-12s %s\n", hw_commands[i].name, hw_commands[i].summary);
    }
    fputs("\nTopics of `heapwise help TOPIC`:\n  ", f);
    for (const struct hw_help_topic *t = hw_help_topics; t->name; t++)
        fprintf(f, "%s%s", t == hw_help_topics ? "" : ", ", t->name);
    fputs("\n\n`heapwise COMMAND -h` shows a command's common options, `--help` all of them.\n", f);
}

/* ---- manual pages ---- */

/* Text with roff's control characters escaped. */
static void roff(FILE *f, const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", f);
        else if (*text == '-')
            fputs("\\-", f);
        else if (line_start && (*text == '.' || *text == '\''))
            fprintf(f, "\\&%c", *text);
        else
            fputc(*text, f);
        line_start = *text == '\n';
    }
}

static void roff_option(FILE *f, const struct hw_option *def)
{
    fputs(".TP\n", f);
    if (def->short_name)
        fprintf(f, "\\fB\\-%c\\fR, ", def->short_name);
    fputs("\\fB\\-\\-", f);
    roff(f, def->name);
    fputs("\\fR", f);
    if (def->arg) {
        bool optional = def->flags & HW_OF_OPTIONAL;
        fputs(joint_of(def), f);
        fputs("\\fI", f);
        roff(f, def->arg);
        fputs(optional ? "\\fR]" : "\\fR", f);
    }
    fputc('\n', f);
    roff(f, def->help);
    if (def->default_text && def->arg) {
        fputs(". Default: ", f);
        roff(f, def->default_text);
        fputc('.', f);
    }
    if (def->field) {
        fputs("\n.br\nConfiguration field: ", f);
        roff(f, def->field);
    }
    fputc('\n', f);
}

static void man_options(FILE *f, const struct hw_command *cmd)
{
    fputs(".SH OPTIONS\n", f);
    put_groups(f, cmd, ".SS ", "", roff_option);
}

static void man_front(FILE *f)
{
    fprintf(f,
            ".TH HEAPWISE 1 \"\" \"heapwise %s\"\n.SH NAME\nheapwise \\- native heap profiler\n"
            ".SH SYNOPSIS\n.B heapwise\n.I COMMAND\n[OPTIONS] [ARGUMENTS]\n.SH COMMANDS\n",
            HW_VERSION);
    for (int i = 0; i < HW_CMD_COUNT; i++) {
        if (hw_commands[i].flags & HW_CF_HIDDEN)
            continue;
        fprintf(f, ".TP\n\\fB%s\\fR\n", hw_commands[i].name);
        roff(f, hw_commands[i].summary);
        fputc('\n', f);
    }
    for (const struct hw_help_topic *t = hw_help_topics; t->name; t++) {
        fprintf(f, ".SH %s\n.nf\n", t->title);
        roff(f, t->text);
        fputs(".fi\n", f);
    }
}

void hw_help_man(FILE *f, const struct hw_command *cmd)
{
    if (!cmd) {
        man_front(f);
        return;
    }
    bool classic = (cmd->flags & HW_CF_CLASSIC) != 0;
    const char *front = classic ? "" : "heapwise-";
    fprintf(f, ".TH %s%s 1 \"\" \"heapwise %s\"\n.SH NAME\n%s%s \\- ", front, cmd->name, HW_VERSION,
            front, cmd->name);
    roff(f, cmd->summary);
    fprintf(f, "\n.SH SYNOPSIS\n.B %s%s\n[OPTIONS] ", classic ? "" : "heapwise ", cmd->name);
    roff(f, cmd->args);
    fputc('\n', f);
    man_options(f, cmd);
    if (cmd->examples[0]) {
        fputs(".SH EXAMPLES\n.nf\n", f);
        roff(f, cmd->examples);
        fputs(".fi\n", f);
    }
    fputs(".SH SEE ALSO\nheapwise(1)\n", f);
}
