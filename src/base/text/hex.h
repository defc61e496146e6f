/*
 * hex.h - the value of a hexadecimal digit
 */
#ifndef HW_BASE_TEXT_HEX_H
#define HW_BASE_TEXT_HEX_H

/* Upper and lower case; -1: no such digit. */
static inline int hw_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
