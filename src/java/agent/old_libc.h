/*
 * old_libc.h - versions of libc's symbols that older ones have, too
 *
 * Why:     the library goes into JVMs of other systems (containers), whose libc may be older than
 *          ours. glibc 2.34 moved these functions into libc.so.6 and gave them new versions; it
 *          keeps the old ones, and they are the same code. Put before each file of the library.
 * Source:  glibc's NEWS for 2.32 and 2.34; tools: nm -D libheapwise_java.so
 */
#ifndef HW_JAVA_AGENT_OLD_LIBC_H
#define HW_JAVA_AGENT_OLD_LIBC_H

#include <features.h>

#if defined(__x86_64__)
#define HW_OLD_LIBC(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define HW_OLD_LIBC(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#endif

#if defined(HW_OLD_LIBC) && defined(__GLIBC__)
HW_OLD_LIBC(dlopen);
HW_OLD_LIBC(dlsym);
HW_OLD_LIBC(pthread_create);
HW_OLD_LIBC(pthread_detach);
HW_OLD_LIBC(pthread_mutex_trylock);
HW_OLD_LIBC(pthread_sigmask);
#endif

#endif
