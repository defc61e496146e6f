/*
 * web_request.h - a page's request to record: parsed, explained, checked
 *
 * Shapes:  JSON {"words": ["attach", "-i", "4K", "4211"]}: the command line without its first word.
 * Owns:    hw_web_request: everything; the texts of its options live in its argv.
 * Errors:  HW_EINVAL with a text for the user.
 */
#ifndef HW_RECORD_WEB_WEB_REQUEST_H
#define HW_RECORD_WEB_WEB_REQUEST_H

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "config/command/command.h"
#include "record/record_options.h"
#include "record/running.h"

struct hw_error;
struct hw_json;

struct hw_web_request {
    struct hw_cli cli; /* of its own: options and arguments */
    char **argv;
    int argc;
    bool attach;
    hw_running_pids pids; /* attach: all processes its words name */
    struct hw_strbuf config;
};

int hw_web_request_read(struct hw_bytes json, struct hw_web_request *out, struct hw_error *err);
void hw_web_request_done(struct hw_web_request *w);
struct hw_record_words hw_web_record_request(const struct hw_web_request *w);
/* As typed in a shell. */
void hw_web_request_shell(const struct hw_web_request *w, struct hw_strbuf *out);
/*
 * An array of checks {state, what, text, remedy, code}; returns whether the start is allowed. Keeps
 * the profilable ones of w->pids. commands: programs may be started.
 */
bool hw_web_recorder_check(struct hw_web_request *w, bool commands, struct hw_json *j);

#endif
