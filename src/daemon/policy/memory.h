/*
 * memory.h - how much memory the recorder may take
 *
 * Why:     what a target sends decides how much the recorder remembers: a hostile one invents a
 *          callstack a record. It may end its own profile that way, not the machine's memory.
 * Shapes:  one target's books and names: a quarter of the memory there is
 *          (base/files/machine_memory.h). All of the recorder: a half; then the target with the
 *          most ends.
 * Units:   bytes.
 */
#ifndef HW_DAEMON_POLICY_MEMORY_H
#define HW_DAEMON_POLICY_MEMORY_H

#include <stdint.h>

uint64_t hw_memory_of_one_target(void);
uint64_t hw_memory_of_recorder(void);

/* What this process holds now: anonymous pages, swapped ones too, no buffers; 0 = unreadable. */
uint64_t hw_memory_own(void);

#endif
