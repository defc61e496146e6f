/*
 * memory.h - how much memory the recorder may take
 *
 * Why:     what a target sends decides how much the recorder stores: a hostile one invents a new
 *          callstack with every record. That may end its own profile, but must not exhaust the
 *          machine's memory.
 * Shapes:  one target's books and names: a quarter of the machine's memory
 *          (base/files/machine_memory.h). The whole recorder: half; beyond that, the largest target
 *          is ended.
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
