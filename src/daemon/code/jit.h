/*
 * jit.h - the files in which a target describes its generated code
 *
 * Why:     an address in memory without a file has no symbol; the program that generated the code
 *          may have said what it is: /tmp/perf-PID.map (by its own number, in its own root), and
 *          jit-PID.dump, which it has mapped executable.
 * Shapes:  both grow while they are read. Records of a jitdump are applied in time order, up to the
 *          time the caller asks for: the file itself is the queue. A perf map has no times.
 * Owns:    descriptors of the files, and what was read, until done.
 * Errors:  none: unreadable files yield no names. `complaint` says why, once.
 * Threads: main thread; the blocking reader's thread reads the files.
 */
#ifndef HW_DAEMON_CODE_JIT_H
#define HW_DAEMON_CODE_JIT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/code/blocking_reader.h"
#include "proc/jit/jit_code.h"
#include "proc/jit/jitdump.h"
#include "proc/maps.h"

#define HW_JIT_MAX_DUMPS 4u
#define HW_JIT_END       UINT64_MAX /* as time: everything that is there */

struct hw_jit_file {
    int fd;          /* -1: not open (yet) */
    bool slow;       /* to be closed as modules.h says */
    uint64_t offset; /* read up to here */
    uint64_t dev, inode;
    uint64_t retry_ns; /* not opened before */
    uint64_t again_ns; /* it was read to its end: not again before */
    bool broken;       /* nothing more of it is read */
    bool pending;      /* it has records of a later time than requested */
    uint8_t tail[16];  /* the bytes before offset: if they differ, it is another file */
    uint32_t n_tail;
    struct hw_jitdump dump;
};

struct hw_jit {
    struct hw_jit_code code;
    struct hw_jit_file map;
    struct hw_jit_file dumps[HW_JIT_MAX_DUMPS];
    uint32_t n_dumps;
    uint64_t maps_ns;    /* of the list of mappings that was searched */
    uint64_t read_bytes; /* in all, and of its limit */
    uint8_t *buffer;     /* owned */
    size_t buffer_bytes;
    char complaint[160]; /* "" = none; the reader clears it */
};

void hw_jit_init(struct hw_jit *j);
void hw_jit_done(struct hw_jit *j);

struct hw_jit_request {
    struct hw_reading_who who;
    int32_t inner; /* number by which the target knows itself; 0 = it has ended */
    const struct hw_maps *maps;
    uint64_t maps_ns;  /* when they were read */
    uint64_t until_ns; /* CLOCK_MONOTONIC, or HW_JIT_END */
    uint64_t now;
    bool again; /* also what was read to its end a moment ago */
};
/* Takes over what the files say, a limited piece at a time. Of a target that has ended only
 * files that are open. True: everything that a jitdump says about the time up to then is known,
 * since it has more of a later one. */
bool hw_jit_read(struct hw_jit *j, struct hw_blocking_reader *l, const struct hw_jit_request *ask);

bool hw_jit_has_files(const struct hw_jit *j);
size_t hw_jit_bytes(const struct hw_jit *j); /* of memory */

#endif
