/*
 * graph_scan.h - propagates values along the edges of a graph, step by step
 *
 * Why:     sums, paths and depths of a graph's nodes in SQL: a select says what becomes of the
 *          values at a node, the scan where they go next (module graphs.scan).
 * Shapes:  lists: edges (from, to); first rows (id, value, …). Text: the select of a step, which
 *          reads the rows that arrived from _hw_scan_rows(?1) and gives rows of the same width.
 *          Answers: the first rows and those of all steps, HW_SCAN_WIDTH cells each.
 * Errors:  HW_EINVAL (the select), HW_ELIMIT (rows), HW_ENOMEM, HW_ETIMEOUT. A plain scan of a
 *          graph with a cycle ends only if its select leaves rows out.
 */
#ifndef HW_SQL_GRAPHS_GRAPH_SCAN_H
#define HW_SQL_GRAPHS_GRAPH_SCAN_H

#include "sql/graphs/graph_functions.h"

enum { HW_SCAN_WIDTH = 8 };

/* All rows go on at once: those of a node with several edges that lead to it arrive one by one. */
int hw_graph_scan(const struct hw_graph_question *q, hw_graph_rows *out);
/* A node waits for all that can reach it. What comes back along a cycle is lost. */
int hw_graph_scan_aggregating(const struct hw_graph_question *q, hw_graph_rows *out);
/* The list's own rows. */
int hw_graph_scan_rows(const struct hw_row_list *l, hw_graph_rows *out);

#endif
