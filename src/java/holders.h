/*
 * holders.h - the names of the threads and frames that hold roots
 *
 * Shapes:  threads and frames are numbered from 1, as the walk's bytes call them (protocol.h).
 * Owns:    its text; names are views into it.
 * Errors:  HW_EFORMAT (the bytes are the target's), HW_ENOMEM.
 */
#ifndef HW_JAVA_HOLDERS_H
#define HW_JAVA_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "java/protocol.h"

struct hw_error;
struct hw_java_holders;

struct hw_java_thread {
    uint64_t id; /* as Java numbers threads; 0 = unknown */
    bool is_daemon;
    struct hw_bytes name;
};

struct hw_java_frame {
    struct hw_bytes function, file; /* file: empty = unknown */
    uint32_t line;                  /* 0 = unknown */
    enum hw_java_method method;
};

/* Takes text, malloc'ed, in any case. */
int hw_java_holders_parse(char *text, size_t n, struct hw_java_holders **out, struct hw_error *err);
void hw_java_holders_free(struct hw_java_holders *h);
size_t hw_java_holders_threads(const struct hw_java_holders *h); /* of NULL: none */
size_t hw_java_holders_frames(const struct hw_java_holders *h);
/* Roots on stacks whose frame did not fit in the library. */
uint64_t hw_java_holders_lost(const struct hw_java_holders *h);
const struct hw_java_thread *hw_java_holders_thread(const struct hw_java_holders *h, size_t number);
const struct hw_java_frame *hw_java_holders_frame(const struct hw_java_holders *h, size_t number);

#endif
