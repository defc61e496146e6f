#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/diagnose.h"

#include "base/banned.h"

static const struct {
    const char *code, *meaning, *remedy;
} explained[] = {
#define X(code, meaning, remedy) {code, meaning, remedy},
#include "cli/explain.def"
#undef X
};

static const struct {
    const char *name, *text;
} errors[] = {
#define X(name, value, text) {#name, text},
    HW_ERRORS(X)
#undef X
};

const char *hw_explain_remedy(const char *code)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(explained); i++)
        if (strcmp(explained[i].code, code) == 0)
            return explained[i].remedy;
    return NULL;
}

static int list_codes(void)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(explained); i++)
        printf("%-22s %s\n", explained[i].code, explained[i].meaning);
    for (size_t i = 0; i < HW_ARRAY_LEN(errors); i++)
        printf("%-22s %s\n", errors[i].name, errors[i].text);
    return HW_EXIT_OK;
}

int hw_cmd_explain(struct hw_cli *cli)
{
    if (cli->opts.n_args == 0)
        return list_codes();
    const char *code = cli->opts.args[0];
    const char *known[HW_ARRAY_LEN(explained) + HW_ARRAY_LEN(errors)];
    size_t n = 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(explained); i++) {
        if (strcasecmp(explained[i].code, code) == 0) {
            printf("%s\n\n%s\n\n%s\n", explained[i].code, explained[i].meaning,
                   explained[i].remedy);
            return HW_EXIT_OK;
        }
        known[n++] = explained[i].code;
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(errors); i++) {
        if (strcasecmp(errors[i].name, code) == 0) {
            printf("%s\n\n%s. The text of the message says where and why.\n", errors[i].name,
                   errors[i].text);
            return HW_EXIT_OK;
        }
        known[n++] = errors[i].name;
    }
    hw_cli_error(cli, NULL, "unknown code '%s'", code);
    const char *near = hw_did_you_mean(code, known, n);
    if (near)
        hw_cli_hint("did you mean '%s'?", near);
    return HW_EXIT_USAGE;
}
