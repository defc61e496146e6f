/*
 * name.h - what a Java process is called
 *
 * Why:     the first word of every Java process is `java`. Users mean the main class or the
 *          archive.
 * Source:  the launcher's usage text: options that take the next word as their value
 */
#ifndef HW_JAVA_NAME_H
#define HW_JAVA_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* The main class, module or archive (without its folder) out of a process's arguments (NUL behind
 * each); "" when there is none. */
void hw_java_main_name(const char *cmdline, size_t n, char *out, size_t max);
/* Whether a user means it by this word: the whole name, a class without its package, an archive
 * without ".jar". */
bool hw_java_name_matches(const char *word, const char *main_name);

#endif
