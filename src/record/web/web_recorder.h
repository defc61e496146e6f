/*
 * web_recorder.h - recordings that the pages ask for
 *
 * Why:     the page that records takes the words of `heapwise record` and `heapwise attach`, so
 *          they are parsed, checked and carried out by the same code; nothing is decided by the
 *          page.
 * Shapes:  a recording has a recorder of its own (embedded, controller.h), a thread, and a file
 *          in the current directory, which is opened in the pages when it is complete. Its number
 *          counts from 1 and stays until the end.
 * Owns:    recordings, their threads and recorders. hw_web_recorder_free ends the recordings and
 *          waits for their files; programs that were started run on.
 * Errors:  HW_EINVAL (words), HW_EPERM (not from a page), HW_ELIMIT, those of controller.h.
 * Threads: the functions of hw_page_recorder from any; new, set_pages, free: one owner.
 * Trust:   words come over HTTP, behind the token: options that name files or programs of ours are
 *          not taken. Rights are those of this process.
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
/* Where traces are opened; before the first question. */
void hw_web_recorder_set_pages(struct hw_web_recorder *d, struct hw_pages *pages);
void hw_web_recorder_free(struct hw_web_recorder *d);
/* A recording only to look at: its file has no name and goes with it. Words as of a page. */
int hw_web_recorder_watch(struct hw_web_recorder *d, struct hw_bytes words, unsigned *id,
                          struct hw_error *err);
int hw_web_recorder_recorder_pid(struct hw_web_recorder *d, unsigned id); /* 0: it has ended */
/* True when it has ended, with the reason, if there is one. */
bool hw_web_recorder_is_over(struct hw_web_recorder *d, unsigned id, char *why, size_t max);
const struct hw_page_recorder *hw_web_recorder_recorder(const struct hw_web_recorder *d);
const struct hw_page_internals *hw_web_recorder_page_tracked(const struct hw_web_recorder *d);
struct hw_tracked *hw_web_tracked(struct hw_web_recorder *d); /* borrowed */

#endif
