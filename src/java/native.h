/*
 * native.h - which objects of a JVM stand for memory outside of its heap
 *
 * Why:     both sides ask: the library reads two fields of such objects, the asker gives the memory
 *          to the object that owns it.
 * Shapes:  rows of natives.def, numbered from 0.
 */
#ifndef HW_JAVA_NATIVE_H
#define HW_JAVA_NATIVE_H

/* ManagedBlock.Kind in proto/heapwise.proto */
enum hw_java_native {
    HW_JAVA_NATIVE_NONE,
    HW_JAVA_NATIVE_BUFFER,   /* a direct buffer */
    HW_JAVA_NATIVE_DEFLATER, /* a stream of zlib that packs, */
    HW_JAVA_NATIVE_INFLATER, /* unpacks */
    HW_JAVA_NATIVE_SEGMENT,  /* memory of an arena */
    HW_JAVA_NATIVE_MAPPED,   /* a file, mapped: no memory of malloc's */
    HW_JAVA_NATIVE_COUNT
};

struct hw_java_native_row {
    enum hw_java_native kind;
    const char *signature, *address, *bytes;
};

static const struct hw_java_native_row hw_java_natives[] = {
#define X(kind, signature, address, bytes) {HW_JAVA_NATIVE_##kind, signature, address, bytes},
#include "java/natives.def"
#undef X
};

/* What is reported about such an object, see HW_JAVA_OP_VALUE. */
enum hw_java_value_role {
    HW_JAVA_VALUE_ADDRESS,
    HW_JAVA_VALUE_BYTES,
    HW_JAVA_VALUE_INNER,     /* address of another block that belongs to it; several */
    HW_JAVA_VALUE_INDEX = 16 /* and more: field number (role - this), of a walk by tags */
};

#endif
