/* system_facts.h - packets about processes, memory maps, and the recorder's statistics */
#ifndef HW_TRACE_CHECK_SYSTEM_FACTS_H
#define HW_TRACE_CHECK_SYSTEM_FACTS_H

struct hw_checker;
struct hw_packet;

int hw_check_system_packet(struct hw_checker *c, const struct hw_packet *p);
/* The end of the file: reports processes that have data but no name. */
void hw_check_pids_end(struct hw_checker *c);
void hw_check_pids_done(struct hw_checker *c);

#endif
