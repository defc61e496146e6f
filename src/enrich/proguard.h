/*
 * proguard.h - name maps of ProGuard and R8
 *
 * Why:     Java code is shipped under short names; the map that was written then has the original
 *          ones.
 * Shapes:  one map = classes in file order, each with fields and methods. A method's short name may
 *          stand for several: overloads, and chains of inlined methods that share one range of
 *          lines, of which the last in the file is the outermost.
 * Owns:    a copy of the file's text; all names are views of it.
 * Errors:  HW_EFORMAT with the line's number as offset, HW_ENOMEM.
 * Source:  doc/design/symbolization.md, "Formats of names"
 */
#ifndef HW_ENRICH_PROGUARD_H
#define HW_ENRICH_PROGUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_pb;
struct hw_proguard;

int hw_proguard_parse(struct hw_bytes text, struct hw_proguard **out, struct hw_error *err);
int hw_proguard_read(const char *path, struct hw_proguard **out, struct hw_error *err);
void hw_proguard_free(struct hw_proguard *m);

/* Appends DeobfuscationMapping packets (Trace bytes); a large map makes several. */
int hw_proguard_write(const struct hw_proguard *m, struct hw_bytes package, struct hw_pb *out);

/* "pkg=file[:pkg=file…]": reads each and appends its packets. */
int hw_proguard_write_all(const char *list, struct hw_pb *out, struct hw_error *err);

#endif
