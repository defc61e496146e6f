/*
 * freestanding_libc.c - what the client uses of libc besides system calls
 *
 * Under libc's names, so that the same sources serve both builds; none of them is visible outside.
 * errno is the thread's own word in our table: the program's is never touched. Threads without an
 * entry there share one, but those make no calls.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "client/client.h"
#include "wire/attach.h"

extern struct hw_bare_block heapwise_bare_block;

char __libc_single_threaded = 0; /* we cannot know */
void *__libc_stack_end;

int *__errno_location(void)
{
    return &hw_here.err;
}

/* ---- memory ---- */

void *memmove(void *to, const void *from, size_t n)
{
    char *t = to;
    const char *f = from;
    if ((uintptr_t)t <= (uintptr_t)f)
        return memcpy(to, from, n);
    while (n--)
        t[n] = f[n];
    return to;
}

void *memcpy(void *to, const void *from, size_t n)
{
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

void *memset(void *to, int c, size_t n)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(c) : "memory");
    return to;
}

int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
    while (n && *a && *a == *b)
        a++, b++, n--;
    return n ? (unsigned char)*a - (unsigned char)*b : 0;
}

size_t strnlen(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i])
        i++;
    return i;
}

size_t strlen(const char *s)
{
    return strnlen(s, SIZE_MAX);
}
