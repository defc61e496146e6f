#include "cli/screen/tree_screen.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/screen/screen.h"
#include "config/command/units.h"

#include "base/banned.h"

static const char *const keys[][2] = {
    {"arrows, hjkl", "move, open, close"},
    {"Enter", "open or close"},
    {"*  -", "open, close all below"},
    {"PgUp PgDn Home End", "further"},
    {"/  n N", "search, next, previous"},
    {"m", "metric: space, objects, alloc_space, alloc_objects, temporary_space, temporary_objects"},
    {"i", "bottom-up and back"},
    {"a", "all frames, or your code only"},
    {"u", "leave this for the browser"},
    {"q", "quit"},
    {NULL, NULL},
};

bool hw_screen_prompt(struct hw_screen *s, const char *prompt, char *out, size_t max)
{
    size_t n = 0;
    out[0] = '\0';
    for (;;) {
        char line[300];
        (void)snprintf(line, sizeof line, "%s%s", prompt, out);
        /* On top of the current frame: only the last line is redrawn. */
        hw_strbuf_clear(&s->frame);
        hw_strbuf_addf(&s->frame, "\033[%d;1H", s->rows);
        s->row = s->rows - 1;
        s->col = 0;
        hw_screen_put(s, HW_STYLE_BOLD, line);
        hw_screen_line(s);
        hw_screen_show(s);
        int key = hw_screen_key(s, -1);
        if (key == HW_KEY_ENTER)
            return true;
        if (key == HW_KEY_ESCAPE || key == HW_KEY_GONE)
            return false;
        if (key == HW_KEY_BACK && n)
            do
                out[--n] = '\0'; /* a multi-byte character is deleted as one */
            while (n && ((unsigned char)out[n - 1] & 0xc0) == 0x80);
        else if (key >= 0x20 && key < 256 && key != 0x7f && n + 1 < max) {
            out[n++] = (char)key;
            out[n] = '\0';
        }
    }
}

void hw_screen_help(struct hw_screen *s, const char *const (*lines)[2])
{
    int key;
    do {
        hw_screen_frame(s);
        hw_screen_put(s, HW_STYLE_HEAD, "Keys");
        hw_screen_line(s);
        hw_screen_line(s);
        for (; (*lines)[0] && s->row < s->rows - 1; lines++) {
            hw_screen_put(s, HW_STYLE_PLAIN, "  ");
            hw_screen_field(s, HW_STYLE_BOLD, (*lines)[0], 22, false);
            hw_screen_put(s, HW_STYLE_PLAIN, (*lines)[1]);
            hw_screen_line(s);
        }
        hw_screen_show(s);
        key = hw_screen_key(s, -1);
    } while (key == HW_KEY_NONE);
}

static int rebuild(const struct hw_tree_screen *t, unsigned flags, struct hw_tree_view *v)
{
    struct hw_flame flame = {0};
    int rc = t->build(t->ctx, flags, &flame);
    v->places = t->places;
    if (rc == HW_OK)
        rc = hw_tree_view_set(v, &flame, t->functions, t->callsites, t->namer);
    hw_flame_done(&flame);
    return rc;
}

static void draw(const struct hw_tree_screen *t, struct hw_tree_view *v, struct hw_screen *s,
                 unsigned flags, const char *said)
{
    char state[120];
    hw_screen_frame(s);
    hw_screen_put(s, HW_STYLE_HEAD, t->title);
    (void)snprintf(state, sizeof state, "  %s%s%s", hw_metric_name(v->metric),
                   flags & HW_FLAME_INVERTED ? ", bottom-up" : "",
                   flags & HW_FLAME_SITES ? "" : ", all frames");
    hw_screen_put(s, HW_STYLE_DIM, state);
    hw_screen_line(s);
    hw_tree_view_draw(v, s, s->rows - 2);
    hw_screen_put(s, said[0] ? HW_STYLE_BOLD : HW_STYLE_DIM,
                  said[0]          ? said
                  : v->rows.n == 0 ? "nothing of this metric here; m: another one, q: quit"
                                   : "arrows: move, open  /: search  m: metric  i: bottom-up  "
                                     "?: keys  q: quit");
    hw_screen_line(s);
    hw_screen_show(s);
}

int hw_tree_screen_run(const struct hw_tree_screen *t, struct hw_error *err)
{
    struct hw_tree_view v = {.program = t->program, .metric = t->metric};
    struct hw_screen s;
    unsigned flags = t->flags;
    char said[200] = "";
    int rc = rebuild(t, flags, &v);
    if (rc == HW_OK)
        rc = hw_screen_begin(&s, t->cli, err);
    if (rc < 0) {
        hw_tree_view_done(&v);
        return rc;
    }
    for (bool go_on = true; go_on;) {
        draw(t, &v, &s, flags, said);
        int key = hw_screen_key(&s, -1);
        said[0] = '\0';
        switch (key) {
        case 'q':
        case HW_KEY_GONE:
            go_on = false;
            break;
        case 'u':
            rc = 1;
            go_on = false;
            break;
        case '?':
            hw_screen_help(&s, keys);
            break;
        case '/':
            if (hw_screen_prompt(&s, "/", v.search, sizeof v.search) && v.search[0] &&
                !hw_tree_view_find(&v, /* backwards = */ false))
                (void)snprintf(said, sizeof said, "no name contains '%s'", v.search);
            break;
        case 'i':
        case 'a':
            flags ^= key == 'i' ? HW_FLAME_INVERTED : HW_FLAME_SITES;
            if (rebuild(t, flags, &v) < 0)
                (void)snprintf(said, sizeof said, "out of memory");
            break;
        default:
            (void)hw_tree_view_key(&v, key, s.rows - 3); /* other keys are ignored */
            break;
        }
    }
    hw_screen_end(&s);
    hw_tree_view_done(&v);
    return rc;
}
