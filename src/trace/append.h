/*
 * append.h - appends packets to a trace file
 *
 * Why:     symbols may follow what they name, so a trace with symbols is the trace's bytes followed
 *          by packets of symbols. The command appends in place, the web page writes a copy.
 * Shapes:  only uncompressed packets can be appended to; a gzip file can be copied.
 * Errors:  HW_EUNSUPPORTED (another format), HW_ESYS, HW_EFORMAT and HW_ETRUNCATED (damaged gzip).
 * Threads: no state but the descriptors'.
 */
#ifndef HW_TRACE_APPEND_H
#define HW_TRACE_APPEND_H

#include <stdbool.h>

#include "base/bytes.h"

struct hw_error;

/* Does the file begin with a packet? Does not move the file position. */
bool hw_trace_is_plain(int fd);
/* Writes the trace of `in`, unpacked, and the packets after it. name: for messages. The caller
 * removes the incomplete copy after an error. */
int hw_trace_copy_with(int in, const char *name, struct hw_bytes packets, int out,
                       struct hw_error *err);

#endif
