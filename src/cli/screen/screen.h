/*
 * screen.h - full-screen terminal for one command: frames out, keys in, restored at the end
 *
 * Why:     live and tree redraw rows of text. That takes an alternate screen, raw input and a size,
 *          no more, so it is done here with sequences that every current terminal understands; a
 *          library would add a dependency and its own idea of signals.
 * Shapes:  a frame is begun, filled line by line from the top, and shown in one write. Text is
 *          clipped at the end of the line. All text is untrusted: control bytes, directional marks
 *          and invalid UTF-8 become visible escapes.
 * Errors:  HW_EUNSUPPORTED: input or output is not a terminal, or a dumb one.
 * Signals: the terminal is restored before a signal ends or stops the process, even a crash, and
 *          taken again when it continues.
 * Threads: one owner; one screen per process.
 */
#ifndef HW_CLI_SCREEN_SCREEN_H
#define HW_CLI_SCREEN_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/strbuf.h"

struct hw_cli;
struct hw_error;

enum hw_key {
    HW_KEY_NONE = 0, /* nothing came in time */
    HW_KEY_RESIZE = 256,
    HW_KEY_GONE, /* the terminal was closed */
    HW_KEY_UP,
    HW_KEY_DOWN,
    HW_KEY_LEFT,
    HW_KEY_RIGHT,
    HW_KEY_PAGE_UP,
    HW_KEY_PAGE_DOWN,
    HW_KEY_HOME,
    HW_KEY_END,
    HW_KEY_ENTER,
    HW_KEY_BACK,
    HW_KEY_ESCAPE,
    HW_KEY_TAB
}; /* below 256: the character */

enum hw_style {
    HW_STYLE_PLAIN,
    HW_STYLE_DIM,
    HW_STYLE_BOLD,
    HW_STYLE_MARK, /* the selected row */
    HW_STYLE_UP,   /* grows */
    HW_STYLE_DOWN,
    HW_STYLE_HEAD,
    HW_STYLE_COUNT
};

struct hw_screen {
    int rows, cols;
    bool color, unicode;
    struct hw_strbuf frame;
    int row, col;
    bool marked; /* the whole line is selected */
};

/* Is a full screen possible? Not with --json, a pipe, or TERM=dumb. */
bool hw_screen_possible(const struct hw_cli *cli);
int hw_screen_begin(struct hw_screen *s, const struct hw_cli *cli, struct hw_error *err);
void hw_screen_end(struct hw_screen *s);
/* A key or another event, within timeout_ms. */
int hw_screen_key(struct hw_screen *s, int timeout_ms);

void hw_screen_frame(struct hw_screen *s); /* begins one */
void hw_screen_mark(struct hw_screen *s);  /* this line */
void hw_screen_put(struct hw_screen *s, enum hw_style style, const char *text);
/* "  (text)", dim; nothing if there is none. */
void hw_screen_put_aside(struct hw_screen *s, const struct hw_strbuf *text);
/* In a field of that many columns, clipped or padded; right: right-aligned. */
void hw_screen_field(struct hw_screen *s, enum hw_style style, const char *text, int width,
                     bool right);
void hw_screen_line(struct hw_screen *s); /* ends the line */
void hw_screen_show(struct hw_screen *s);
int hw_screen_left(const struct hw_screen *s); /* columns left on the line */

#endif
