/*
 * graph_scan.h - propagates values along the edges of a graph, step by step
 *
 * Why:     sums, paths and depths of a graph's nodes in SQL: a select computes the values at a
 *          node, the scan moves them along the edges (module graphs.scan).
 * Shapes:  lists: edges (from, to); first rows (id, value, …). Text: the select of a step, which
 *          reads the arrived rows from _hw_scan_rows(?1) and returns rows of the same width.
 *          Result: the first rows and those of all steps, HW_SCAN_WIDTH cells each.
 * Errors:  HW_EINVAL (the select), HW_ELIMIT (rows), HW_ENOMEM, HW_ETIMEOUT. A plain scan of a
 *          graph with a cycle ends only if its select drops rows.
 */
#ifndef HW_SQL_GRAPHS_GRAPH_SCAN_H
#define HW_SQL_GRAPHS_GRAPH_SCAN_H

#include "sql/graphs/graph_functions.h"

enum { HW_SCAN_WIDTH = 8 };

/* Rows move on at once: a node with several incoming edges is processed for each of them. */
int hw_graph_scan(const struct hw_graph_query *q, hw_graph_rows *out);
/* A node waits for the rows of all nodes that can reach it. Rows along back edges are dropped. */
int hw_graph_scan_aggregating(const struct hw_graph_query *q, hw_graph_rows *out);
/* The list's own rows. */
int hw_graph_scan_rows(const struct hw_row_list *l, hw_graph_rows *out);

#endif
