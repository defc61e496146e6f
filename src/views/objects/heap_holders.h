/*
 * heap_holders.h - who holds a root, as text
 *
 * Shapes:  "a variable of Foo.run (Foo.java:12) in thread "main"", "JNI code of Foo.read in thread
 *          "main"", "a constant in compiled code of Foo.run in thread "main"", "thread "main"".
 *          Of several holders the one is named whose kind is the object's root type and that knows
 *          most. Nothing is added where nothing is known.
 * Errors:  none but the buffer's.
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_HOLDERS_H
#define HW_VIEWS_OBJECTS_HEAP_HOLDERS_H

#include <stdint.h>

#include "model/profile.h"

struct hw_strbuf;

/* Of a root. */
void hw_heap_root_text(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t object,
                       struct hw_strbuf *out);

#endif
