/* check_graph.h - packets of heap graphs: their order, and whether all references are described */
#ifndef HW_TRACE_CHECK_CHECK_GRAPH_H
#define HW_TRACE_CHECK_CHECK_GRAPH_H

struct hw_check_graph;
struct hw_check_sequence;
struct hw_checker;
struct hw_packet;

int hw_check_graph_packet(struct hw_checker *c, struct hw_check_sequence *s,
                          const struct hw_packet *p);
/* The end of the file. */
int hw_check_graph_end(struct hw_checker *c, struct hw_check_sequence *s);
void hw_check_graph_free(struct hw_check_graph *g);

#endif
