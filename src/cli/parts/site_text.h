/*
 * site_text.h - allocation sites in the rows of a report: "_sdsnewlen < hashTypeSet < hsetCommand"
 *
 * Owns:    callers and classes; the rest is borrowed from whoever set it.
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

/* The footer of a table with callers in it. */
#define HW_SITE_LEGEND                                                                             \
    "a < b 60%: b called a, directly or not, for 60% of the row; no share: for all.\n"

struct hw_site_class {
    uint32_t function; /* the class with the largest part of the row */
    double share;      /* its part; 0 = these are not objects */
};

struct hw_site_names {
    const struct hw_callsites *cs;
    const struct hw_functions *fns;
    const struct hw_namer *namer;
    const char *process_name;        /* as started, perhaps with a path; "" = unknown */
    struct hw_callers *callers;      /* by function */
    struct hw_site_class *classes;   /* by function, of objects it allocated; owned */
    struct hw_function_at *places;   /* by function; owned */
    struct hw_shown_program program; /* found by the process's name */
};

/* Fills in callers, classes, places and program; the rest must be set. */
int hw_site_names_find(struct hw_site_names *s, const hw_values *values, enum hw_metric by);
void hw_site_names_done(struct hw_site_names *s);

/*
 * The function's name to show. An unnamed one in the program's own file is shown under the name the
 * program was started as: redis-server is a link to redis-check-rdb.
 */
void hw_site_label(const struct hw_site_names *s, const struct hw_function *fn,
                   struct hw_strbuf *out);
/* Its file and line where that says whose it is (hw_function_where), else the module's base name;
 * nothing for the program itself, or if the label already names it. */
void hw_site_where(const struct hw_site_names *s, uint32_t function, struct hw_strbuf *out);
/*
 * Adds " < lookup < serve 38%", as many callers as fit `room` columns; a share of 100% is left out.
 * True: there is one.
 */
bool hw_site_callers(const struct hw_site_names *s, uint32_t function, size_t room,
                     struct hw_strbuf *out);
/* Adds ": byte[] 80%"; a share of 100% is left out. */
void hw_site_class(const struct hw_site_names *s, uint32_t function, struct hw_strbuf *out);
/* "class": {"name":, "share":}, of objects. */
void hw_json_put_class(struct hw_json *j, const struct hw_site_names *s, uint32_t function);
/* "callers": [{"function":, "share":}, …], nearest first. */
void hw_json_put_callers(struct hw_json *j, const struct hw_site_names *s, uint32_t function);
/* "function": its label; "callers". */
void hw_json_put_site(struct hw_json *j, const struct hw_site_names *s, uint32_t function);

#endif
