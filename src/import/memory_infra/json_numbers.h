/*
 * json_numbers.h - JSON numbers that are too large to be read
 *
 * Why:     jansson rejects a whole text for one integer of more than 64 bits, or one number beyond
 *          a double; the other values of an event are worth keeping.
 */
#ifndef HW_IMPORT_MEMORY_INFRA_JSON_NUMBERS_H
#define HW_IMPORT_MEMORY_INFRA_JSON_NUMBERS_H

#include <stddef.h>

/* Replaces such numbers by null and blanks. Gives their count. */
size_t hw_json_drop_huge(char *text, size_t n);

#endif
