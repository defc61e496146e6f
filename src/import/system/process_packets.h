/*
 * process_packets.h - packets about whole processes → processes, counters, memory maps of the model
 *
 * Errors:  HW_ENOMEM; damage is counted in the profile.
 * Source:  doc/formats/trace.md, "Processes, counters, mappings of memory"
 */
#ifndef HW_IMPORT_SYSTEM_PROCESS_PACKETS_H
#define HW_IMPORT_SYSTEM_PROCESS_PACKETS_H

#include <stdint.h>

#include "base/bytes.h"
#include "model/profile.h"

/* The pid of a ProcessStats.Process, MallocInfo, MemoryAccount or SmapsPacket. */
uint64_t hw_import_pid(struct hw_bytes message);
int hw_import_process_tree(struct hw_profile *p, struct hw_bytes message);
int hw_import_packages(struct hw_profile *p, struct hw_bytes message);
int hw_import_users(struct hw_profile *p, struct hw_bytes message);
int hw_import_process_stats(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);
int hw_import_malloc_info(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);
int hw_import_memory_account(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);
extern const struct hw_smaps_row hw_import_no_smaps; /* nothing known of a mapping */
int hw_import_smaps(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);

#endif
