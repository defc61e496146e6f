/*
 * tree_screen.h - `heapwise tree` full-screen, and what live shares with it
 *
 * Errors:  HW_EUNSUPPORTED (no screen: print instead), HW_ENOMEM.
 */
#ifndef HW_CLI_SCREEN_TREE_SCREEN_H
#define HW_CLI_SCREEN_TREE_SCREEN_H

#include "cli/screen/tree_view.h"

struct hw_cli;
struct hw_error;
struct hw_screen;

struct hw_tree_screen {
    const struct hw_cli *cli;
    const char *title; /* borrowed; untrusted */
    const struct hw_functions *functions;
    struct hw_shown_program program;
    const struct hw_callsites *callsites;
    const struct hw_function_at *places; /* by function (places.h) */
    const struct hw_namer *namer;
    enum hw_metric metric;
    unsigned flags; /* enum hw_flame_flags: initial */
    int (*build)(void *ctx, unsigned flags, struct hw_flame *out);
    void *ctx;
};

/* 0 = quit, 1 = the user wants the browser, < 0 an error before anything was drawn. */
int hw_tree_screen_run(const struct hw_tree_screen *t, struct hw_error *err);

/* A line of input at the bottom, for /: true = Enter, with the text in out. */
bool hw_screen_prompt(struct hw_screen *s, const char *prompt, char *out, size_t max);
/* Shows lines {keys, meaning}, NULL-terminated, until a key is pressed. */
void hw_screen_help(struct hw_screen *s, const char *const (*lines)[2]);

#endif
