/*
 * packages.h - SQL modules from outside
 *
 * Why:     users keep their tables, functions and macros in files, and front ends send theirs.
 * Shapes:  a module has a dotted name (`a.b.c`) whose first word is its package. A directory is a
 *          package of its name; the files `x/y.sql` below it are modules.
 * Owns:    copies of names and texts.
 * Errors:  HW_EINVAL (a bad name, a package that exists already), HW_ESYS, HW_ENOMEM, HW_ELIMIT.
 */
#ifndef HW_SQL_PACKAGES_H
#define HW_SQL_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/memory/vec.h"

struct hw_error;

struct hw_sql_package_module {
    char *name, *sql; /* owned */
};

struct hw_sql_packages {
    HW_VEC(struct hw_sql_package_module) modules;
    bool without_own; /* hides our own modules */
};

void hw_sql_packages_done(struct hw_sql_packages *k);
int hw_sql_packages_add(struct hw_sql_packages *k, const char *name, struct hw_bytes sql,
                        bool override, struct hw_error *err);
/* spec: "DIR" or "DIR@NAME". Without override, an existing package (or one of ours) is an error. */
int hw_sql_packages_add_dir(struct hw_sql_packages *k, const char *spec, bool override,
                            struct hw_error *err);
/* The packages in dir replace all of ours. */
int hw_sql_packages_replace_own(struct hw_sql_packages *k, const char *dir, struct hw_error *err);
/* NULL = none of that name. */
const char *hw_sql_packages_find(const struct hw_sql_packages *k, struct hw_bytes name);

#endif
