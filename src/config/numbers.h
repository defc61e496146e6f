/*
 * numbers.h - sizes, times and counts as people write them
 *
 * Shapes:  digits with an optional fraction and a unit: 64K, 1.5G (1024), 2MB (1000), 250ms, 5m.
 * Units:   sizes in bytes, times in milliseconds (also without a unit).
 * Errors:  HW_EINVAL with the text quoted.
 */
#ifndef HW_CONFIG_NUMBERS_H
#define HW_CONFIG_NUMBERS_H

#include <stdint.h>

struct hw_error;

int hw_parse_size(const char *text, uint64_t *out, struct hw_error *err);
int hw_parse_time_ms(const char *text, uint64_t *out, struct hw_error *err);
int hw_parse_uint(const char *text, uint64_t *out, struct hw_error *err);

#endif
