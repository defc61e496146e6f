#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/cli.h"
#include "config/command/explain.h"
#include "config/command/units.h"
#include "sql/sql.h"

#include "base/banned.h"

enum { COLUMN = 20, WIDTH = 100 };

static const struct {
    const char *name, *text, *advice;
} errors[] = {
#define X(name, value, text, advice) {#name, text, advice},
    HW_ERRORS(X)
#undef X
};

static int list_codes(void)
{
    printf("Codes in brackets after messages. `heapwise explain CODE` says what to do.\n\n");
    for (size_t i = 0; i < HW_EXPLAINED_COUNT; i++) {
        printf("%-*s", COLUMN, hw_explained[i].code);
        hw_print_folded(stdout, hw_explained[i].meaning, COLUMN, COLUMN, WIDTH);
    }
    putchar('\n');
    for (size_t i = 0; i < HW_ARRAY_LEN(errors); i++)
        printf("%-*s%s\n", COLUMN, errors[i].name, errors[i].text);
    return HW_EXIT_OK;
}

static void print_entry(size_t i)
{
    printf("%s\n\n", hw_explained[i].code);
    hw_print_folded(stdout, hw_explained[i].meaning, 0, 0, WIDTH);
    putchar('\n');
    hw_print_folded(stdout, hw_explained[i].remedy, 0, 0, WIDTH);
    printf("\nMore: doc/guide/%s\n", hw_explained[i].page);
}

/* A row of `stats`, as reports name it behind what it means. */
static bool print_statistic(const char *name)
{
    const char *meaning = hw_sql_stat_meaning(name);
    if (!meaning[0])
        return false;
    printf("%s\n\n", name);
    hw_print_folded(stdout, meaning, 0, 0, WIDTH);
    putchar('\n');
    hw_print_folded(
        stdout,
        "A statistic of a trace. Unless it is 0, figures may be incomplete. `heapwise stats FILE` "
        "lists "
        "all with their values, `heapwise check FILE` finds where a file breaks its rules.",
        0, 0, WIDTH);
    return true;
}

int hw_cmd_explain(struct hw_cli *cli)
{
    if (cli->opts.n_args == 0)
        return list_codes();
    const char *code = cli->opts.args[0];
    const char *known[HW_EXPLAINED_COUNT + HW_ARRAY_LEN(errors)];
    size_t n = 0;
    for (size_t i = 0; i < HW_EXPLAINED_COUNT; i++) {
        if (strcasecmp(hw_explained[i].code, code) == 0) {
            print_entry(i);
            return HW_EXIT_OK;
        }
        known[n++] = hw_explained[i].code;
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(errors); i++) {
        if (strcasecmp(errors[i].name, code) == 0) {
            printf("%s\n\n%s; the text of the message says of what, where and why.\n\n",
                   errors[i].name, errors[i].text);
            hw_print_folded(stdout, errors[i].advice, 0, 0, WIDTH);
            return HW_EXIT_OK;
        }
        known[n++] = errors[i].name;
    }
    if (print_statistic(code))
        return HW_EXIT_OK;
    hw_cli_error(cli, NULL, "unknown code '%s'", code);
    const char *near = hw_did_you_mean(code, known, n);
    if (near)
        hw_cli_hint("did you mean '%s'?", near);
    return HW_EXIT_USAGE;
}
