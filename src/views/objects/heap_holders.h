/*
 * heap_holders.h - who holds a root, as text
 *
 * Shapes:  "a variable of Foo.run (Foo.java:12) in thread "main"", "JNI code of Foo.read in thread
 *          "main"", "a constant in compiled code of Foo.run in thread "main"", "thread "main"".
 *          Of several holders, the text names one that matches the object's root type and has the
 *          most details. Nothing is added if there is none.
 * Errors:  only those of the buffer.
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_HOLDERS_H
#define HW_VIEWS_OBJECTS_HEAP_HOLDERS_H

#include <stdint.h>

#include "model/profile.h"

struct hw_strbuf;

/* object: a root. */
void hw_heap_root_text(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t object,
                       struct hw_strbuf *out);
/* "Foo.run (Foo.java:12)" */
void hw_heap_frame_text(const struct hw_profile *p, hw_frame_id id, struct hw_strbuf *out);
/* "thread "main"", "thread #3", "a thread" */
void hw_heap_thread_text(const struct hw_profile *p, const struct hw_heap_thread *t,
                         struct hw_strbuf *out);

#endif
