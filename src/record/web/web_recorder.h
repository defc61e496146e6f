/*
 * web_recorder.h - recordings started from the pages
 *
 * Why:     the Record page takes the words of `heapwise record` and `heapwise attach`, so the same
 *          code parses, checks and runs them; the page decides nothing.
 * Shapes:  a recording has its own embedded recorder (controller.h), a thread, and a file in the
 *          current directory, which the pages open when it is complete. Recordings are numbered
 *          from 1.
 * Owns:    recordings, their threads and recorders. hw_web_recorder_free ends the recordings and
 *          waits for their files; started programs run on.
 * Errors:  HW_EINVAL (words), HW_EPERM (not from a page), HW_ELIMIT, those of controller.h.
 * Threads: the functions of hw_page_recorder from any; new, set_pages, free: one owner.
 * Trust:   words come over HTTP, with the token: options that name our files or programs are
 *          refused. They run with this process's rights.
 */
#ifndef HW_RECORD_WEB_WEB_RECORDER_H
#define HW_RECORD_WEB_WEB_RECORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

struct hw_cli;
struct hw_web_recorder;
struct hw_error;
struct hw_tracked;
struct hw_page_internals;
struct hw_page_recorder;
struct hw_pages;

/* commands: whether a page may start programs. */
int hw_web_recorder_new(const struct hw_cli *cli, bool commands, struct hw_web_recorder **out,
                        struct hw_error *err);
/* Where traces are opened; call before the first request. */
void hw_web_recorder_set_pages(struct hw_web_recorder *d, struct hw_pages *pages);
void hw_web_recorder_free(struct hw_web_recorder *d);
/* A recording only for viewing: its file is unnamed and vanishes with it. Words as from a page. */
int hw_web_recorder_watch(struct hw_web_recorder *d, struct hw_bytes words, unsigned *id,
                          struct hw_error *err);
int hw_web_recorder_recorder_pid(struct hw_web_recorder *d, unsigned id); /* 0: it has ended */
/* True if it has ended, with the reason, if any. */
bool hw_web_recorder_is_over(struct hw_web_recorder *d, unsigned id, char *why, size_t max);
const struct hw_page_recorder *hw_web_recorder_recorder(const struct hw_web_recorder *d);
const struct hw_page_internals *hw_web_recorder_page_tracked(const struct hw_web_recorder *d);
struct hw_tracked *hw_web_tracked(struct hw_web_recorder *d); /* borrowed */

#endif
