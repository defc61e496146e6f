#include "cli/screen/screen.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "cli/report/report.h"

#include "base/banned.h"

/* Alternate screen, no wrapping, no cursor; and back. */
#define ENTER "\033[?1049h\033[?7l\033[?25l"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

/* What signal handlers need: one screen per process. */
static struct {
    volatile sig_atomic_t is_on, resized;
    struct termios before, raw;
} terminal;

static void take(void)
{
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal.raw); /* else keys would wait for Enter */
    (void)!write(STDOUT_FILENO, ENTER, sizeof ENTER - 1);    /* a closed terminal shows as a key */
    terminal.is_on = 1;
}

/* Async-signal-safe. */
static void give_back(void)
{
    if (!terminal.is_on)
        return;
    terminal.is_on = 0;
    (void)!write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.before); /* nothing can be done about it */
}

static void on_end(int sig)
{
    give_back();
    (void)signal(sig, SIG_DFL);
    (void)raise(sig); /* blocked here, so it comes when the handler returns */
}

static void on_stop(int sig)
{
    int saved = errno;
    sigset_t one;
    give_back();
    (void)signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    (void)raise(sig);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL); /* stops here */
    struct sigaction again = {.sa_handler = on_stop};
    (void)sigaction(sig, &again, NULL);
    take();
    terminal.resized = 1;
    errno = saved;
}

static void on_resize(int sig)
{
    (void)sig;
    terminal.resized = 1;
}

static const int ends[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGABRT,
                           SIGSEGV, SIGBUS,  SIGFPE, SIGILL};

static void handle_signals(bool on)
{
    struct sigaction end = {.sa_handler = on ? on_end : SIG_DFL};
    struct sigaction stop = {.sa_handler = on ? on_stop : SIG_DFL};
    struct sigaction resize = {.sa_handler = on ? on_resize : SIG_DFL};
    for (size_t i = 0; i < HW_ARRAY_LEN(ends); i++)
        (void)sigaction(ends[i], &end, NULL);
    (void)sigaction(SIGTSTP, &stop, NULL);
    (void)sigaction(SIGWINCH, &resize, NULL);
}

static void measure(struct hw_screen *s)
{
    struct winsize w;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col;
    s->rows = known ? w.ws_row : 24;
    s->cols = known ? w.ws_col : 80;
}

bool hw_screen_possible(const struct hw_cli *cli)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && term[0] &&
           strcmp(term, "dumb") != 0 && !hw_opt_flag(&cli->opts, HW_OPT_JSON);
}

int hw_screen_begin(struct hw_screen *s, const struct hw_cli *cli, struct hw_error *err)
{
    *s = (struct hw_screen){.color = hw_cli_color(cli, STDOUT_FILENO),
                            .unicode = hw_report_defaults(cli, STDOUT_FILENO).unicode};
    if (!hw_screen_possible(cli) || tcgetattr(STDIN_FILENO, &terminal.before) < 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "no terminal to draw on");
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* for character widths; else all count as one */
    terminal.raw = terminal.before;
    terminal.raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    terminal.raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
    terminal.raw.c_cc[VINTR] = _POSIX_VDISABLE; /* Ctrl-C is a key: it quits */
    terminal.raw.c_cc[VMIN] = 1;
    terminal.raw.c_cc[VTIME] = 0;
    (void)fflush(stdout);
    measure(s);
    handle_signals(true);
    (void)atexit(give_back);
    take();
    return HW_OK;
}

void hw_screen_end(struct hw_screen *s)
{
    give_back();
    handle_signals(false);
    hw_strbuf_done(&s->frame);
}

/* ---- keys ---- */

/* A byte, -1 if none comes in time, or -2 at the end of input. */
static int next_byte(int timeout_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char c;
    int n = poll(&p, 1, timeout_ms);
    if (n == 0 || (n < 0 && errno == EINTR))
        return -1;
    ssize_t got = n < 0 ? -1 : read(STDIN_FILENO, &c, 1);
    if (got == 1)
        return c;
    return got < 0 && errno == EINTR ? -1 : -2;
}

/* Reads what follows ESC [ or ESC O. */
static int special(void)
{
    static const struct {
        const char *text;
        int key;
    } keys[] = {{"A", HW_KEY_UP},    {"B", HW_KEY_DOWN},     {"C", HW_KEY_RIGHT},
                {"D", HW_KEY_LEFT},  {"H", HW_KEY_HOME},     {"F", HW_KEY_END},
                {"1~", HW_KEY_HOME}, {"7~", HW_KEY_HOME},    {"4~", HW_KEY_END},
                {"8~", HW_KEY_END},  {"5~", HW_KEY_PAGE_UP}, {"6~", HW_KEY_PAGE_DOWN},
                {"M", HW_KEY_ENTER}};
    char text[16];
    size_t n = 0;
    for (;;) {
        int c = next_byte(50);
        if (c < 0)
            return HW_KEY_NONE;
        if (n + 1 < sizeof text)
            text[n++] = (char)c;
        if (c >= 0x40 && c <= 0x7e)
            break;
    }
    text[n] = '\0';
    for (size_t i = 0; i < HW_ARRAY_LEN(keys); i++)
        if (strcmp(text, keys[i].text) == 0)
            return keys[i].key;
    return HW_KEY_NONE;
}

int hw_screen_key(struct hw_screen *s, int timeout_ms)
{
    int c = terminal.resized ? -1 : next_byte(timeout_ms);
    if (terminal.resized) {
        terminal.resized = 0;
        measure(s);
        return HW_KEY_RESIZE;
    }
    switch (c) {
    case -1:
        return HW_KEY_NONE;
    case -2:
        return HW_KEY_GONE;
    case '\r':
    case '\n':
        return HW_KEY_ENTER;
    case 0x03:
        return 'q';
    case '\t':
        return HW_KEY_TAB;
    case 0x7f:
    case 0x08:
        return HW_KEY_BACK;
    case 0x1b:
        c = next_byte(50);
        return c == '[' || c == 'O' ? special() : HW_KEY_ESCAPE;
    default:
        return c;
    }
}

/* ---- frames ---- */

static const char *sequence(const struct hw_screen *s, enum hw_style style)
{
    switch (style) {
    case HW_STYLE_DIM:
        return s->color ? "\033[2m" : "";
    case HW_STYLE_BOLD:
        return "\033[1m";
    case HW_STYLE_UP:
        return s->color ? "\033[31m" : "";
    case HW_STYLE_DOWN:
        return s->color ? "\033[32m" : "";
    case HW_STYLE_HEAD:
        return s->color ? "\033[1;36m" : "\033[1m";
    case HW_STYLE_PLAIN:
    case HW_STYLE_MARK:
    case HW_STYLE_COUNT:
        break;
    }
    return "";
}

void hw_screen_frame(struct hw_screen *s)
{
    hw_strbuf_clear(&s->frame);
    hw_strbuf_adds(&s->frame, "\033[H");
    s->row = s->col = 0;
    s->marked = false;
}

void hw_screen_mark(struct hw_screen *s)
{
    s->marked = true;
    hw_strbuf_adds(&s->frame, "\033[7m");
}

int hw_screen_left(const struct hw_screen *s)
{
    return s->cols - s->col;
}

/* Directional marks and zero-width characters could hide or reorder text next to them. */
static bool is_unseen(wchar_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x2069) || c == 0xfeff;
}

/* The next character as displayed: writes its bytes to out, returns its columns. */
static int shown(const struct hw_screen *s, const char **p, mbstate_t *state, char out[16])
{
    wchar_t c;
    size_t n = mbrtowc(&c, *p, strlen(*p), state);
    if (n == (size_t)-1 || n == (size_t)-2) {
        *state = (mbstate_t){0};
        return snprintf(out, 16, "\\x%02x", (unsigned char)*(*p)++);
    }
    const char *from = *p;
    *p += n;
    if (is_unseen(c))
        return snprintf(out, 16, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    int width = wcwidth(c);
    if (width < 0 || (c >= 0x80 && !s->unicode))
        return snprintf(out, 16, "?");
    memcpy(out, from, n);
    out[n] = '\0';
    return width;
}

/* At most `room` columns of it; returns how many it took. */
static int put_text(struct hw_screen *s, const char *text, int room)
{
    mbstate_t state = {0};
    char out[16];
    int used = 0;
    while (*text) {
        int width = shown(s, &text, &state, out);
        if (used + width > room)
            break;
        hw_strbuf_adds(&s->frame, out);
        used += width;
    }
    return used;
}

static int width_of(const struct hw_screen *s, const char *text, int most)
{
    mbstate_t state = {0};
    char out[16];
    int used = 0;
    while (*text && used <= most)
        used += shown(s, &text, &state, out);
    return used;
}

static void begin_style(struct hw_screen *s, enum hw_style style)
{
    if (!s->marked)
        hw_strbuf_adds(&s->frame, sequence(s, style));
}

static void end_style(struct hw_screen *s, enum hw_style style)
{
    if (!s->marked && sequence(s, style)[0])
        hw_strbuf_adds(&s->frame, "\033[0m");
}

void hw_screen_put(struct hw_screen *s, enum hw_style style, const char *text)
{
    if (s->row >= s->rows)
        return;
    begin_style(s, style);
    s->col += put_text(s, text, s->cols - s->col);
    end_style(s, style);
}

void hw_screen_put_aside(struct hw_screen *s, const struct hw_strbuf *text)
{
    if (text->n == 0)
        return;
    hw_screen_put(s, HW_STYLE_DIM, "  (");
    hw_screen_put(s, HW_STYLE_DIM, text->p);
    hw_screen_put(s, HW_STYLE_DIM, ")");
}

void hw_screen_field(struct hw_screen *s, enum hw_style style, const char *text, int width,
                     bool right)
{
    if (s->row >= s->rows || width <= 0)
        return;
    width = width < s->cols - s->col ? width : s->cols - s->col;
    int used = width_of(s, text, width);
    used = used < width ? used : width;
    begin_style(s, style);
    for (int i = used; right && i < width; i++)
        hw_strbuf_addc(&s->frame, ' ');
    int put = put_text(s, text, width);
    for (int i = right ? width - used + put : put; i < width; i++)
        hw_strbuf_addc(&s->frame, ' ');
    end_style(s, style);
    s->col += width;
}

void hw_screen_line(struct hw_screen *s)
{
    if (s->row >= s->rows)
        return;
    for (; s->marked && s->col < s->cols; s->col++)
        hw_strbuf_addc(&s->frame, ' ');
    if (s->marked)
        hw_strbuf_adds(&s->frame, "\033[0m");
    if (s->col < s->cols) /* beyond the last column it would erase that one's character */
        hw_strbuf_adds(&s->frame, "\033[K");
    s->marked = false;
    s->col = 0;
    if (++s->row < s->rows)
        hw_strbuf_adds(&s->frame, "\r\n");
}

void hw_screen_show(struct hw_screen *s)
{
    if (s->row < s->rows)
        hw_strbuf_adds(&s->frame, "\033[J");
    if (!s->frame.failed && terminal.is_on)
        (void)hw_fd_write_all(STDOUT_FILENO, s->frame.p,
                              s->frame.n); /* a closed one: HW_KEY_GONE */
    if (s->frame.failed) {
        hw_strbuf_done(&s->frame);
        s->frame = (struct hw_strbuf){0};
    }
}
