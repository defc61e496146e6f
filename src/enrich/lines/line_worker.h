/*
 * line_worker.h - the process that reads debug info for us, seen from inside
 *
 * Why:     debug info is foreign bytes, and libdw was not made to distrust them. Whatever a damaged
 *          file does to libdw stays in this process.
 * Shapes:  one stream socket. A request is one struct hw_line_request with the file as a descriptor
 *          and, but for HW_LINE_LOOK, a second one whose bytes are n ascending addresses. Answers
 *          are words of 32 bits in the machine's order, each record begun by one of
 *          enum hw_line_record:
 *              FACTS   has_debug_info
 *              STRING  n_bytes, the bytes          the next number from 0, per request
 *              CHAIN   folded, n, n x { function + 1, file + 1, line }      0 = unknown; the answer
 *                                                  of the next address
 *              END     error: 0 or -HW_E...        the request is done
 * Units:   memory_bytes: the address space the process may have for this request; 0 = any.
 */
#ifndef HW_ENRICH_LINES_LINE_WORKER_H
#define HW_ENRICH_LINES_LINE_WORKER_H

#include <stdint.h>

enum hw_line_request_type { HW_LINE_LOOK = 1, HW_LINE_RESOLVE = 2, HW_LINE_NEW_TYPES = 3 };
enum hw_line_record {
    HW_LINE_FACTS = 1,
    HW_LINE_STRING = 2,
    HW_LINE_CHAIN = 3,
    HW_LINE_END = 4,
};

struct hw_line_request {
    uint32_t type;
    uint32_t file; /* the same number: the same file as in the request before */
    uint64_t n;    /* addresses */
    uint64_t memory_bytes;
};

/* A program that symbolizes is its own worker: started with HW_LINE_WORKER_VERB as its only
 * argument it returns what this returns. Serves requests on standard input, which is the socket,
 * until it is closed. Gives an exit code. */
int hw_line_worker_main(void);

#endif
