/*
 * exec_id.h - which execution of which program a process is
 *
 * Why:     what was found out while the process ran (where its functions are, who it is) must not
 *          be applied to what it has executed since. Pid, pidfd and start time survive an exec.
 * Shapes:  the program's file, the vector that the kernel gave it (AT_BASE, AT_ENTRY, AT_RANDOM
 *          ...) and the 16 random bytes that AT_RANDOM points to, which differ at every exec.
 * Errors:  HW_EGONE, HW_EPERM, HW_EFORMAT.
 */
#ifndef HW_INJECT_EXEC_ID_H
#define HW_INJECT_EXEC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_EXEC_AUXV_BYTES 1024u

struct hw_exec_id {
    uint64_t dev, inode; /* of the program */
    size_t n;
    uint8_t auxv[HW_EXEC_AUXV_BYTES];
    uint8_t random[16];
};

/* dir: /proc/PID. mem: its memory, open; -1 = found by its pid. */
int hw_exec_id_read(int32_t pid, int dir, int mem, struct hw_exec_id *out);
bool hw_exec_id_same(const struct hw_exec_id *a, const struct hw_exec_id *b);

#endif
