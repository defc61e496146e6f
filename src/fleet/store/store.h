/*
 * store.h - where a store is and how it is spoken to: clickhouse://user@host:8123/profiles
 *
 * Shapes:  FORM[+http|+https]://[USER[:PASSWORD]@]HOST[:PORT][/PATH][?NAME=VALUE&…]; FORM is one of
 *          stores.def. Without +https the request goes in the clear. USER, PASSWORD and the values
 *          may have %XX. `shown` is the same without the password, for messages.
 *          A password or token comes, in this order, from the URL, from
 *          HEAPWISE_STORE_PASSWORD / HEAPWISE_STORE_TOKEN; the environment is not seen by others,
 *          a command line is.
 * Owns:    its texts; hw_store_done frees them.
 * Errors:  HW_EINVAL with a text for the user, HW_ENOMEM.
 */
#ifndef HW_FLEET_STORE_STORE_H
#define HW_FLEET_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

struct hw_error;
struct hw_http_request;

enum hw_store_form {
#define X(ID, scheme, port, summary) HW_STORE_##ID,
#include "fleet/store/stores.def"
#undef X
    HW_STORE_FORM_COUNT
};

struct hw_store {
    enum hw_store_form form;
    char *base;     /* "https://host:8123", for requests; no slash behind */
    char *path;     /* "" or "/a/b": of the URL; ClickHouse's is the database */
    char *query;    /* "" or "a=b&c=d" as given */
    char *user;     /* NULL = none */
    char *password; /* NULL = none */
    char *token;    /* NULL = none */
    char *shown;    /* for people */
};

int hw_store_init(struct hw_store *s, const char *url, struct hw_error *err);
void hw_store_done(struct hw_store *s);
/* HW_EINVAL unless the store can be asked, not only pushed to. */
int hw_store_check_asked(const struct hw_store *s, struct hw_error *err);
const char *hw_store_scheme(enum hw_store_form f); /* "clickhouse" */
/* The database of a ClickHouse URL; "default" when it names none. */
const char *hw_store_database(const struct hw_store *s);

/* The header lines of user, password and token as the form wants them. */
#define HW_STORE_MAX_AUTH 4u
struct hw_store_auth {
    char *line[HW_STORE_MAX_AUTH]; /* owned */
    size_t n;
};
int hw_store_auth_init(struct hw_store_auth *a, const struct hw_store *s, struct hw_error *err);
void hw_store_auth_done(struct hw_store_auth *a);

#endif
