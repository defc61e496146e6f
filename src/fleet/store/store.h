/*
 * store.h - a store's address, kind and credentials: clickhouse://user@host:8123/profiles
 *
 * Shapes:  FORM[+http|+https]://[USER[:PASSWORD]@]HOST[:PORT][/PATH][?NAME=VALUE&…]; FORM is one of
 *          stores.def. Without +https requests are not encrypted. USER, PASSWORD and the values may
 *          contain %XX. `shown` is the URL without the password, for messages.
 *          The password or token comes from the URL, else from HEAPWISE_STORE_PASSWORD /
 *          HEAPWISE_STORE_TOKEN; other users cannot see the environment, but the command line.
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
    char *base;     /* "https://host:8123", for requests; no trailing slash */
    char *path;     /* "" or "/a/b", from the URL; for ClickHouse the database */
    char *query;    /* "" or "a=b&c=d" as given */
    char *user;     /* NULL = none */
    char *password; /* NULL = none */
    char *token;    /* NULL = none */
    char *shown;    /* for messages */
};

int hw_store_init(struct hw_store *s, const char *url, struct hw_error *err);
void hw_store_done(struct hw_store *s);
/* HW_EINVAL unless the store supports queries, not only pushes. */
int hw_store_check_queries(const struct hw_store *s, struct hw_error *err);
const char *hw_store_scheme(enum hw_store_form f); /* "clickhouse" */
/* The database of a ClickHouse URL; "default" if it names none. */
const char *hw_store_database(const struct hw_store *s);

/* The header lines for user, password and token, by the store's form. */
#define HW_STORE_MAX_AUTH 4u
struct hw_store_auth {
    char *line[HW_STORE_MAX_AUTH]; /* owned */
    size_t n;
};
int hw_store_auth_init(struct hw_store_auth *a, const struct hw_store *s, struct hw_error *err);
void hw_store_auth_done(struct hw_store_auth *a);

#endif
