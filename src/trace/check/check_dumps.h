/* check_dumps.h - packets of heap samples: their order, counters and callstacks */
#ifndef HW_TRACE_CHECK_CHECK_DUMPS_H
#define HW_TRACE_CHECK_CHECK_DUMPS_H

struct hw_check_dumps;
struct hw_check_sequence;
struct hw_checker;
struct hw_packet;

int hw_check_profile_packet(struct hw_checker *c, struct hw_check_sequence *s,
                            const struct hw_packet *p);
/* The end of a generation of interned data: reports callstacks that other readers take for one. */
int hw_check_dumps_generation_end(struct hw_checker *c, struct hw_check_sequence *s);
/* The end of the file. */
void hw_check_dumps_end(struct hw_checker *c, struct hw_check_sequence *s);
void hw_check_dumps_free(struct hw_check_dumps *d);

#endif
