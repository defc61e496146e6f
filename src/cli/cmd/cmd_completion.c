/* Completions for three shells, written from the tables: commands, then each command's options. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#include "base/banned.h"

static bool shown(const struct hw_command *c)
{
    return !(c->flags & HW_CF_HIDDEN);
}

static void option_words(const struct hw_command *c)
{
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!(def->commands & 1ull << c->id) || (def->flags & HW_OF_HIDDEN))
            continue;
        printf("--%s ", def->name);
        if (def->short_name)
            printf("-%c ", def->short_name);
    }
}

static void bash(void)
{
    printf("_heapwise()\n{\n    local cur cmd\n    cur=${COMP_WORDS[COMP_CWORD]}\n"
           "    cmd=${COMP_WORDS[0]##*/}\n    COMPREPLY=()\n"
           "    if [ \"$cmd\" = heapwise ]; then\n        cmd=${COMP_WORDS[1]}\n"
           "        if [ \"$COMP_CWORD\" -eq 1 ]; then\n            COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (shown(&hw_commands[i]))
            printf("%s ", hw_commands[i].name);
    printf("\" -- \"$cur\"))\n            return\n        fi\n    fi\n    local words=\n"
           "    case $cmd in\n");
    for (int i = 0; i < HW_CMD_COUNT; i++) {
        if (!shown(&hw_commands[i]))
            continue;
        printf("    %s) words=\"", hw_commands[i].name);
        option_words(&hw_commands[i]);
        printf("\" ;;\n");
    }
    printf(
        "    esac\n    case $cur in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
        "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\n"
        "complete -o default -o filenames -F _heapwise heapwise");
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (hw_commands[i].flags & HW_CF_CLASSIC)
            printf(" %s", hw_commands[i].name);
    printf("\n");
}

/* Single-quoted for sh, zsh and fish, without the brackets and colons special to zsh's specs. */
static void quoted(const char *text, bool zsh)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(zsh ? "'\\''" : "\\'", stdout);
        else if (zsh && strchr("[]:", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_options(const struct hw_command *c)
{
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!(def->commands & 1ull << c->id) || (def->flags & HW_OF_HIDDEN))
            continue;
        for (int s = 0; s < (def->short_name ? 2 : 1); s++) {
            if (s)
                printf(" '-%c[", def->short_name);
            else
                printf(" '--%s%s[", def->name,
                       !def->arg                     ? ""
                       : def->flags & HW_OF_OPTIONAL ? "=-"
                                                     : "=");
            quoted(def->help, true);
            fputs("]", stdout);
            if (def->arg) {
                putchar(':');
                quoted(def->arg, true);
                fputs(":_files", stdout);
            }
            putchar('\'');
        }
    }
}

static void zsh(void)
{
    printf("#compdef heapwise");
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (hw_commands[i].flags & HW_CF_CLASSIC)
            printf(" %s", hw_commands[i].name);
    printf("\n_heapwise() {\n  local cmd=${words[1]:t}\n  if [[ $cmd == heapwise ]]; then\n"
           "    if (( CURRENT == 2 )); then\n      local -a cmds=(");
    for (int i = 0; i < HW_CMD_COUNT; i++) {
        if (!shown(&hw_commands[i]))
            continue;
        printf("'%s:", hw_commands[i].name);
        quoted(hw_commands[i].summary, true);
        printf("' ");
    }
    printf(")\n      _describe command cmds\n      return\n    fi\n    cmd=$words[2]\n"
           "    shift words\n    (( CURRENT-- ))\n  fi\n  case $cmd in\n");
    for (int i = 0; i < HW_CMD_COUNT; i++) {
        if (!shown(&hw_commands[i]))
            continue;
        printf("  %s) _arguments", hw_commands[i].name);
        zsh_options(&hw_commands[i]);
        printf(" '*:file:_files' ;;\n");
    }
    printf("  esac\n}\n_heapwise \"$@\"\n");
}

static void fish_options(const struct hw_command *c)
{
    bool classic = (c->flags & HW_CF_CLASSIC) != 0;
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!(def->commands & 1ull << c->id) || (def->flags & HW_OF_HIDDEN))
            continue;
        if (classic)
            printf("complete -c %s", c->name);
        else
            printf("complete -c heapwise -n '__fish_seen_subcommand_from %s'", c->name);
        printf(" -l %s", def->name);
        if (def->short_name)
            printf(" -s %c", def->short_name);
        printf("%s -d '", def->arg ? " -r" : "");
        quoted(def->help, false);
        printf("'\n");
    }
}

static void fish(void)
{
    for (int i = 0; i < HW_CMD_COUNT; i++) {
        if (!shown(&hw_commands[i]))
            continue;
        printf("complete -c heapwise -n __fish_use_subcommand -a %s -d '", hw_commands[i].name);
        quoted(hw_commands[i].summary, false);
        printf("'\n");
        fish_options(&hw_commands[i]);
    }
}

int hw_cmd_completion(struct hw_cli *cli)
{
    static const struct {
        const char *name;
        void (*write)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const char *shell = cli->opts.n_args ? cli->opts.args[0] : "";
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].write();
            return HW_EXIT_OK;
        }
    hw_cli_error(cli, NULL, shell[0] ? "no completion for '%s'" : "which shell?%s", shell);
    hw_cli_hint("heapwise completion bash|zsh|fish");
    return HW_EXIT_USAGE;
}
