/*
 * hprof_file.h - the records of a Java heap dump file, one at a time
 *
 * Why:     the file is read several times (names and classes, objects, contents); only this code
 *          knows where a record begins and how long it is.
 * Shapes:  big-endian. There are records of the file, and records inside heap dumps:
 *
 *              "JAVA PROFILE 1.0.2\0"  u4 size of ids  u8 ms since 1970
 *              { u1 tag  u4 time  u4 length  bytes }…        in tags 0c, 1c: { u1 tag  bytes }…
 *
 *          A dump of length 0 extends to the end of the file. A record inside a segment may extend
 *          beyond the segment's length, which then is not trusted.
 * Owns:    nothing: views into the file.
 * Errors:  none; damage ends a segment and is counted.
 * Source:  doc/design/heap-graphs.md, ".hprof files"
 */
#ifndef HW_IMPORT_HPROF_HPROF_FILE_H
#define HW_IMPORT_HPROF_HPROF_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum hw_hprof_tag {
    HW_HPROF_STRING = 0x01,
    HW_HPROF_LOAD_CLASS = 0x02,
    HW_HPROF_FRAME = 0x04,
    HW_HPROF_TRACE = 0x05,
    HW_HPROF_DUMP = 0x0c,
    HW_HPROF_SEGMENT = 0x1c,
    /* Inside dumps: the tag + HW_HPROF_IN_DUMP. */
    HW_HPROF_IN_DUMP = 0x100,
    HW_HPROF_CLASS = 0x120,
    HW_HPROF_INSTANCE = 0x121,
    HW_HPROF_OBJECT_ARRAY = 0x122,
    HW_HPROF_PRIMITIVE_ARRAY = 0x123,
    HW_HPROF_ARRAY_NO_DATA = 0x1c3,
    HW_HPROF_HEAP_INFO = 0x1fe
};

enum hw_hprof_type {
    HW_HPROF_OBJECT = 2,
    HW_HPROF_BOOLEAN = 4,
    HW_HPROF_CHAR = 5,
    HW_HPROF_FLOAT = 6,
    HW_HPROF_DOUBLE = 7,
    HW_HPROF_BYTE = 8,
    HW_HPROF_SHORT = 9,
    HW_HPROF_INT = 10,
    HW_HPROF_LONG = 11,
    HW_HPROF_TYPE_COUNT
};

struct hw_hprof_file {
    struct hw_bytes all;
    uint32_t id_bytes; /* 4 or 8 */
    bool is_art;       /* Android's: version 1.0.3 */
    uint64_t time_ms;
    size_t pos, segment_end; /* segment_end: 0 = between records */
    bool truncated;
    uint64_t n_damaged;
};

/* A position in a record; reading beyond its end gives 0 and sets bad. */
struct hw_hprof_cursor {
    const uint8_t *p, *end;
    uint32_t id_bytes;
    bool bad;
};

struct hw_hprof_record {
    uint32_t tag;                /* enum hw_hprof_tag, or another number */
    struct hw_hprof_cursor body; /* after the tag (and time, length) */
    size_t offset;
};

bool hw_hprof_open(struct hw_bytes file, struct hw_hprof_file *out); /* false: no header */
void hw_hprof_rewind(struct hw_hprof_file *f); /* resets the counts of damage */
bool hw_hprof_next(struct hw_hprof_file *f, struct hw_hprof_record *out); /* false at the end */

uint64_t hw_hprof_u(struct hw_hprof_cursor *c, unsigned n_bytes); /* 1..8 */
uint64_t hw_hprof_id(struct hw_hprof_cursor *c);
struct hw_bytes hw_hprof_bytes(struct hw_hprof_cursor *c, uint64_t n);
/* Bytes of a value in the file; 0 = no such type. */
unsigned hw_hprof_type_bytes(uint64_t type, uint32_t id_bytes);

#endif
