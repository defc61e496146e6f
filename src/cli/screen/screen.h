/*
 * screen.h - the whole terminal for one command: frames out, keys in, everything as it was at the
 * end
 *
 * Why:     live and tree draw rows of text again and again. That needs an alternate screen, raw
 *          input and a size, no more, so it is done here with the sequences every terminal of today
 *          understands; a library would add a dependency and its own idea of signals.
 * Shapes:  a frame is begun, filled line by line from the top, and shown in one write. Text is cut
 *          at the line's end. All text is taken for a stranger's: control bytes, marks of direction
 *          and bytes that are no UTF-8 become visible escapes.
 * Errors:  HW_EUNSUPPORTED: no terminal on both sides, or a dumb one.
 * Signals: the terminal is put back before the process ends or stops by a signal, also by a crash,
 *          and taken again when it goes on.
 * Threads: one owner; one screen a process.
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
    HW_STYLE_MARK, /* the row one is at */
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
    bool marked; /* the whole line is the one that one is at */
};

/* Could a screen be had? Not with --json, a pipe, or TERM=dumb. */
bool hw_screen_possible(const struct hw_cli *cli);
int hw_screen_begin(struct hw_screen *s, const struct hw_cli *cli, struct hw_error *err);
void hw_screen_end(struct hw_screen *s);
/* A key, or what happened in place of one, within timeout_ms. */
int hw_screen_key(struct hw_screen *s, int timeout_ms);

void hw_screen_frame(struct hw_screen *s); /* begins one */
void hw_screen_mark(struct hw_screen *s);  /* this line */
void hw_screen_put(struct hw_screen *s, enum hw_style style, const char *text);
/* In a field of that many columns, cut or filled up; right: at its right end. */
void hw_screen_field(struct hw_screen *s, enum hw_style style, const char *text, int width,
                     bool right);
void hw_screen_line(struct hw_screen *s); /* ends the line */
void hw_screen_show(struct hw_screen *s);
int hw_screen_left(const struct hw_screen *s); /* columns to the line's end */

#endif
