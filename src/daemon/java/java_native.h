/*
 * java_native.h - memory outside a JVM's heap → the objects that own it
 *
 * Why:     what a program holds through a buffer or zlib stream is not in the sizes of objects. The
 *          JDK records it in auxiliary objects, several references away from the one that users
 *          know.
 * Shapes:  give all objects of a walk, then end: a list of (owner, kind, bytes, addresses).
 *
 *              DirectByteBuffer <-referent- Cleaner -thunk-> Deallocator {address, size}
 *              Deflater -zsRef-> DeflaterZStreamRef {address}
 *              session -resourceList-> list -fst-> node -next-> node {address, size}
 *
 *          A Cleaner that has run, or an object that was closed, has no address any more, or a
 *          Cleaner that follows itself.
 * Owns:    its lists. classes and graph are borrowed.
 * Errors:  HW_ENOMEM.
 * Source:  doc/design/java.md, "Native sizes"
 */
#ifndef HW_DAEMON_JAVA_JAVA_NATIVE_H
#define HW_DAEMON_JAVA_JAVA_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "java/native.h"

struct hw_java_classes;
struct hw_java_graph;
struct hw_java_natives;
struct hw_java_object;

#define HW_NATIVE_ADDRESSES 6

struct hw_native_block {
    uint64_t owner; /* object */
    enum hw_java_native kind;
    uint64_t bytes;
    uint64_t
        address[HW_NATIVE_ADDRESSES]; /* of what was allocated for it; the first ones are set */
    uint32_t n_addresses;
};

typedef HW_VEC(struct hw_native_block) hw_native_blocks;

int hw_java_natives_new(struct hw_java_natives **out);
void hw_java_natives_free(struct hw_java_natives *n);
/* Forgets everything. */
int hw_java_natives_begin(struct hw_java_natives *n, const struct hw_java_classes *classes,
                          const struct hw_java_graph *graph);
int hw_java_natives_object(struct hw_java_natives *n, const struct hw_java_object *o);
int hw_java_natives_end(struct hw_java_natives *n);
const hw_native_blocks *hw_java_natives_blocks(const struct hw_java_natives *n);

#endif
