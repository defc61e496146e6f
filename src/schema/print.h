/*
 * print.h - any message as protobuf text
 *
 * Shapes:  one field per line, two spaces per level, fields in wire order, packed values one by
 *          one. Fields that are not in the schema become comments, so the text stays valid and
 *          nothing is hidden.
 * Errors:  HW_EFORMAT, HW_ETRUNCATED, HW_ELIMIT (nested too deep). If `damaged` is given, a broken
 *          message is cut there with a comment and counted, and the rest is printed.
 */
#ifndef HW_SCHEMA_PRINT_H
#define HW_SCHEMA_PRINT_H

#include <stddef.h>

#include "base/bytes.h"

struct hw_error;
struct hw_schema_message;
struct hw_strbuf;

/* indent: of the outermost level; damaged may be NULL. */
int hw_schema_print(const struct hw_schema_message *m, struct hw_bytes message, unsigned indent,
                    struct hw_strbuf *out, size_t *damaged, struct hw_error *err);

/* The message as a JSON object: repeated fields as arrays at their first value, 64-bit integers as
 * numbers, bytes as text, unknown fields left out. */
int hw_schema_print_json(const struct hw_schema_message *m, struct hw_bytes message,
                         struct hw_strbuf *out, struct hw_error *err);

#endif
