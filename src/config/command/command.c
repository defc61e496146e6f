/* The commands and what they share: messages, exit codes, "did you mean". */
#include "config/command/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/helper.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define CLASSIC   HW_CF_CLASSIC
#define WORD_ENDS HW_CF_WORD_ENDS
#define USAGE1    HW_CF_USAGE1
#define HIDDEN    HW_CF_HIDDEN
const struct hw_command hw_commands[HW_CMD_COUNT] = {
#define X(ID, name, fn, flags, args, summary, examples)                                            \
    [HW_CMD_##ID] = {HW_CMD_##ID, name, flags, args, summary, examples},
#include "config/command/commands.def"
#undef X
};
#undef CLASSIC
#undef WORD_ENDS
#undef USAGE1
#undef HIDDEN

const struct hw_command *hw_command_find(const char *name)
{
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (strcmp(hw_commands[i].name, name) == 0)
            return &hw_commands[i];
    return NULL;
}

/* Edit distance of two words (one of them short); swapping two neighbours is one edit. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { MAX = 48 };
    size_t na = strlen(a), nb = strlen(b);
    if (na >= MAX || nb >= MAX)
        return MAX;
    size_t row[3][MAX];
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

const char *hw_did_you_mean(const char *word, const char *const *known, size_t n)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t d = edit_distance(word, known[i]);
        if (strlen(word) >= 3 && hw_starts_with(known[i], word))
            d = 0; /* a prefix counts as the whole word */
        if (d < best_distance) {
            best_distance = d;
            best = known[i];
        }
    }
    return best;
}

/* Names of files and processes are untrusted: control bytes in them must not reach the terminal.
 */
static void format(char *out, size_t max, const char *fmt, va_list ap)
{
    char raw[1024];
    (void)vsnprintf(raw, sizeof raw, fmt, ap); /* a truncated message is still a message */
    (void)hw_utf8_escape(out, max, raw, "\n\t");
}

void hw_cli_error(const struct hw_cli *cli, const char *code, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    format(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)fflush(stdout); /* keeps stdout and stderr in order */
    fprintf(stderr, code ? "%s: %s [%s]\n" : "%s: %s\n", cli->program, text, code);
}

void hw_cli_hint(const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    format(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "hint: %s\n", text);
}

void hw_cli_hint_path(const char *command, const char *path)
{
    struct hw_strbuf word = {0};
    hw_strbuf_add_shell_word(&word, path);
    hw_cli_hint("%s %s", command, word.p ? word.p : path);
    hw_strbuf_done(&word);
}

static bool told_of_output; /* that it cannot be written */

/* errno may be of another call by now. */
static bool is_of_a_write(int e)
{
    return e == ENOSPC || e == EDQUOT || e == EFBIG || e == EIO || e == EPIPE || e == EBADF;
}

void hw_cli_output_failed(const struct hw_cli *cli)
{
    const char *reason = is_of_a_write(errno) ? strerror(errno) : NULL;
    if (!told_of_output)
        hw_cli_error(cli, NULL, "cannot write to standard output%s%s", reason ? ": " : "",
                     reason ? reason : "");
    told_of_output = true;
}

int hw_cli_written(const struct hw_cli *cli, int rc)
{
    if (rc >= 0 && fflush(stdout) == 0)
        return HW_EXIT_OK;
    if (rc == HW_ENOMEM)
        hw_cli_error(cli, NULL, "%s", hw_errc_text(rc));
    else
        hw_cli_output_failed(cli);
    return HW_EXIT_FAILED;
}

int hw_cli_fail(const struct hw_cli *cli, const struct hw_error *err)
{
    hw_cli_error(cli, hw_errc_name(err->code), "%s",
                 err->text[0] ? err->text : hw_errc_text(err->code));
    told_of_output |= err->code == HW_ESYS && ferror(stdout);
    switch (err->code) {
    case HW_EPERM:
    case HW_EUNSUPPORTED:
        return HW_EXIT_UNSUPPORTED;
    case HW_ESYS:
        return err->sys_errno == EPERM || err->sys_errno == EACCES || err->sys_errno == EROFS
                   ? HW_EXIT_UNSUPPORTED
                   : HW_EXIT_FAILED;
    default:
        return HW_EXIT_FAILED;
    }
}

int hw_cli_usage_exit(const struct hw_cli *cli)
{
    return cli->command && (cli->command->flags & HW_CF_USAGE1) ? HW_EXIT_FAILED : HW_EXIT_USAGE;
}

bool hw_cli_color(const struct hw_cli *cli, int fd)
{
    const char *when = hw_opt_text(&cli->opts, HW_OPT_COLOR);
    if (when && strcmp(when, "always") == 0)
        return true;
    if (when && strcmp(when, "never") == 0)
        return false;
    const char *force = getenv("CLICOLOR_FORCE"), *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no && no[0])
        return false;
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

unsigned hw_cli_width(int fd)
{
    struct winsize ws;
    if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 20)
        return ws.ws_col;
    const char *columns = getenv("COLUMNS");
    uint64_t n;
    if (columns && hw_parse_uint(columns, &n, NULL) == 0 && n >= 20 && n < 1000)
        return (unsigned)n;
    return 100;
}
