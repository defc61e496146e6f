/*
 * machine_memory.h - how much memory there is for us
 *
 * Why:     what comes from outside decides how much is remembered; limits on it are shares of this.
 * Shapes:  of the machine, or of the control groups (version 2) this process is in, or
 *          HEAPWISE_MEMORY_MB, whichever is least.
 * Units:   bytes.
 */
#ifndef HW_BASE_FILES_MACHINE_MEMORY_H
#define HW_BASE_FILES_MACHINE_MEMORY_H

#include <stdint.h>

uint64_t hw_machine_memory(void);

#endif
