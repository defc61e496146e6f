/*
 * exec_reader.h - accounts for a process that reads the memory of starting programs
 *
 * Shapes:  one for the answerer and one for the finder, in the memory that they share with the
 *          supervisor: a successor knows what its predecessor knew. Begin and end enclose each
 *          reading.
 * Threads: one writer; the guard reads `at` when it has ended.
 * Source:  doc/design/security.md
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_READER_H
#define HW_DAEMON_EXECWATCH_EXEC_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HW_EXEC_WAITERS 64u

struct hw_exec_reader {
    _Atomic int32_t at;    /* whose memory is being read; 0 = nobody's */
    uint64_t any_until_ns; /* until then some user is left alone */
    struct hw_exec_waits {
        uint32_t uid;
        uint64_t since_ns; /* of the window; 0 = no entry */
        uint64_t waited_ns, alone_until_ns;
    } users[HW_EXEC_WAITERS];
};

struct hw_exec_reading {
    int32_t tid;
    long n_waits;
    uint64_t at_ns;
};

void hw_exec_reading_begin(struct hw_exec_reader *r, int32_t tid, struct hw_exec_reading *out);
void hw_exec_reading_end(struct hw_exec_reader *r, const struct hw_exec_reading *x);
/* The memory of its user's programs has recently kept the reader waiting too often. */
bool hw_exec_reader_avoids(const struct hw_exec_reader *r, int32_t tid);
/* As which user the process acts. For this one directory in /proc the kernel says so even if the
 * rest is closed. 0: root, or it is gone. */
uint32_t hw_exec_user_of(int32_t tid);

#endif
