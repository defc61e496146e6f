/*
 * site_text.h - how the rows of a report name who asked: "_sdsnewlen < hashTypeSet < hsetCommand"
 *
 * Owns:    callers and classes; the rest is borrowed from who filled it in.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_CLI_PARTS_SITE_TEXT_H
#define HW_CLI_PARTS_SITE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "views/flame/callers.h"
#include "views/flame/functions.h"
#include "views/flame/program.h"
#include "views/time/values.h"

struct hw_json;

/* Below a table with callers in it. */
#define HW_SITE_LEGEND                                                                             \
    "a < b 60%: b called a, directly or not, for 60% of the row; no share: for all.\n"

struct hw_site_class {
    uint32_t function; /* the class with most of the row's figure */
    double share;      /* that it has; 0 = these are no objects */
};

struct hw_site_names {
    const struct hw_callsites *cs;
    const struct hw_functions *fns;
    const struct hw_namer *namer;
    const char *process_name;        /* what it was started as, perhaps with a path; "" = unknown */
    struct hw_callers *callers;      /* by function */
    struct hw_site_class *classes;   /* by function, of objects that it asked for; owned */
    struct hw_shown_program program; /* found by the process's name */
};

/* Fills callers and program in; the rest is there. */
int hw_site_names_find(struct hw_site_names *s, const hw_values *values, enum hw_metric by);
void hw_site_names_done(struct hw_site_names *s);

/* The function's shown name. One without a name in the program's own file goes by what it was
 * started as: redis-server is a link to redis-check-rdb. */
void hw_site_label(const struct hw_site_names *s, const struct hw_function *fn,
                   struct hw_strbuf *out);
/* The module's last part; nothing for the program itself, and where the label names it. */
void hw_site_module(const struct hw_site_names *s, const struct hw_function *fn,
                    struct hw_strbuf *out);
/* Adds " < lookup < serve 38%", as many callers as `room` columns take; the share is left out when
 * it is all. True: there is one. */
bool hw_site_callers(const struct hw_site_names *s, uint32_t function, size_t room,
                     struct hw_strbuf *out);
/* Adds ": byte[] 80%", without the share when it is all. */
void hw_site_class(const struct hw_site_names *s, uint32_t function, struct hw_strbuf *out);
/* "class": {"name":, "share":}, of objects. */
void hw_json_put_class(struct hw_json *j, const struct hw_site_names *s, uint32_t function);
/* "callers": [{"function":, "share":}, …], nearest first. */
void hw_json_put_callers(struct hw_json *j, const struct hw_site_names *s, uint32_t function);

#endif
