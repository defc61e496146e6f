#include "cli/classic/forward.h"

#include <string.h>

#include "base/bytes.h"
#include "cli/cli.h"

#include "base/banned.h"

static const struct forward {
    const char *word, *second; /* second NULL = none */
    const char *mode;          /* of traceconv; NULL: the next word */
} forwards[] = {
    {"convert", NULL, NULL},
    {"bundle", NULL, "bundle"},
    {"util", "symbolize", "symbolize"},
    {"util", "deobfuscate", "deobfuscate"},
    {"util", "decompress_packets", "decompress_packets"},
    {"util", "text_to_binary", "binary"},
};

static int refuse_util(const struct hw_cli *cli, const char *word)
{
    if (strcmp(word, "merge") == 0) {
        hw_cli_error(cli, NULL,
                     "util merge: packets of several traces cannot be woven together here");
        hw_cli_hint("traces of one machine may simply be joined: cat A B > OUT");
        return HW_EXIT_FAILED;
    }
    hw_cli_error(cli, NULL, "unknown tool 'util %s'", word);
    hw_cli_hint("util symbolize, deobfuscate, decompress_packets or text_to_binary");
    return HW_EXIT_FAILED;
}

int hw_cli_forward(struct hw_cli *cli, int *argc, char ***argv)
{
    char **words = *argv;
    int n = *argc;
    if (cli->command->id != HW_CMD_TRACE_PROCESSOR || n < 2)
        return 0;
    bool util = strcmp(words[1], "util") == 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(forwards); i++) {
        const struct forward *f = &forwards[i];
        if (strcmp(words[1], f->word) != 0 ||
            (f->second && (n < 3 || strcmp(words[2], f->second) != 0)))
            continue;
        cli->command = hw_command_find("traceconv");
        /* `util NAME` and `convert` make room for argv[0]; `bundle` is the mode's own name. */
        int used = f->second || !f->mode ? 1 : 0;
        if (f->second)
            words[2] = (char *)(uintptr_t)f->mode;
        words[used] = words[0];
        *argv = words + used;
        *argc = n - used;
        return 0;
    }
    return util ? refuse_util(cli, n < 3 ? "" : words[2]) : 0;
}
