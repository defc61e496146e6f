/*
 * json_numbers.h - numbers of JSON that are beyond what can be read
 *
 * Why:     jansson refuses a whole text for one integer of more than 64 bits, or one number beyond
 *          a double; the other values of an event are worth keeping.
 */
#ifndef HW_IMPORT_MEMORY_INFRA_JSON_NUMBERS_H
#define HW_IMPORT_MEMORY_INFRA_JSON_NUMBERS_H

#include <stddef.h>

/* Puts null, and blanks behind it, in place of such numbers. Gives how many there were. */
size_t hw_json_drop_huge(char *text, size_t n);

#endif
