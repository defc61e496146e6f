/*
 * samples.h - small embedded traces, to try the pages without recording anything
 *
 * Shapes:  a list in the order of display; recorded by samples/make, embedded by the build.
 * Owns:    nothing: the bytes are the program's.
 */
#ifndef HW_SERVER_API_SAMPLES_H
#define HW_SERVER_API_SAMPLES_H

#include <stddef.h>

#include "base/bytes.h"

struct hw_error;

struct hw_sample {
    const char *name, *about; /* name: used in requests; about: shown */
    struct hw_bytes packed;   /* gzip */
};
extern const struct hw_sample hw_samples[];
extern const size_t hw_n_samples;

const struct hw_sample *hw_sample_find(const char *name); /* NULL: unknown name */
/* A new unnamed file for a reader; -1 on error, with *err. */
int hw_sample_open(const struct hw_sample *s, struct hw_error *err);

#endif
