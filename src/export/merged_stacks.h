/*
 * merged_stacks.h - the merged stacks that the text-like formats write
 *
 * Why:     folded, speedscope and json all want "each path of functions once, with its value".
 * Owns:    everything in struct hw_stacks; hw_stacks_done frees it.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_EXPORT_MERGED_STACKS_H
#define HW_EXPORT_MERGED_STACKS_H

#include <stdint.h>
#include <stdio.h>

#include "export/export.h"
#include "views/flame/flame.h"
#include "views/flame/functions.h"
#include "views/flame/program.h"

struct hw_error;
struct hw_json;

struct hw_stacks {
    struct hw_shown_program program; /* of in->upid */
    struct hw_functions *functions;
    struct hw_function_at *places; /* by function (places.h) */
    struct hw_flame tree;          /* top-down, sorted by in->metric */
};

int hw_stacks_init(struct hw_stacks *s, const struct hw_export_input *in);
void hw_stacks_done(struct hw_stacks *s);
/* Functions from the root to the node, written to path (at least the node's depth long). */
void hw_stacks_path(const struct hw_stacks *s, uint32_t node, uint32_t *path);
/* The common part of a format: merges the stacks, calls put, checks the stream. what: the format's
 * name in error texts. */
int hw_stacks_write(const struct hw_export_input *in, const char *what,
                    int (*put)(const struct hw_export_input *in, const struct hw_stacks *s,
                               FILE *out),
                    FILE *out, struct hw_error *err);
/* The same for one JSON object: put writes its members. path has room for hw_stacks_path. */
int hw_stacks_write_json(const struct hw_export_input *in, const char *what,
                         void (*put)(const struct hw_export_input *in, const struct hw_stacks *s,
                                     uint32_t *path, struct hw_json *j),
                         FILE *out, struct hw_error *err);
/* Deepest node: room needed by hw_stacks_path. */
uint32_t hw_stacks_depth(const struct hw_stacks *s);

#endif
