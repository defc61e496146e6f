/*
 * banned.h - functions that have a safer sibling
 *
 * Why:     include it last in a .c file; using one of these is then a compile error.
 */
#ifndef HW_BASE_BANNED_H
#define HW_BASE_BANNED_H

#undef alloca
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atoll gmtime localtime alloca

#endif
