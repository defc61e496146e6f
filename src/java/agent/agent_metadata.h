/*
 * agent_metadata.h - names of methods, read from the JVM's own memory
 *
 * Why:     hooks may not call the JVM, so a thread of ours asks it for names later. By then the
 *          class may be unloaded, and nobody knows the name any more. A method that is on the stack
 *          is alive: the hook reads its name where the JVM keeps it.
 * Shapes:  where that is comes from the tables that libjvm exports for debuggers. It is used only
 *          if what it gives for methods of java.lang.Thread is what JVMTI says.
 * Errors:  none: without proof there is no name.
 * Threads: begin first; then agent_metadata_name in any hook (no lock, no call).
 * Source:  doc/design/java.md, "Java frames in native stacks"
 */
#ifndef HW_JAVA_AGENT_AGENT_METADATA_H
#define HW_JAVA_AGENT_AGENT_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "java/jvm_abi.h"

/* A field of the JVM's own classes: its place in an object, or the value of a static one. jvm: of
 * dlopen. */
bool agent_metadata_field(void *jvm, const char *type, const char *field, bool is_static,
                          uint64_t *out);

/* On a thread that the JVM knows. */
void agent_metadata_begin(void *jvm, hw_jvm_env ti, hw_jvm_env jni);
/* "com.x.Y$Z.method" of a method that is on the stack now; "" = not known. A longer name ends
 * in "...". */
void agent_metadata_name(void *method, char *out, size_t size);

#endif
