/*
 * allocation_tree.h - the callstacks of allocations as a tree of functions with sums
 *
 * Why:     every flamegraph of a native profile starts from this tree. As SQL joins it took two
 *          thirds of the time to the first picture.
 * Shapes:  _hw_allocation_tree(list): the list has sums by callsite, from _hw_sum_by(callsite_id,
 *          size, count, alloc_size, alloc_count) or from the function below. One row for each
 *          function between a callsite of the list and its root (callstack_rows.h), in their order;
 *          a callsite's sums are at its innermost function, all other rows have 0.
 *          _hw_sums_of_allocations(upid, first_ts, last_ts, heap_name): these sums over
 *          heap_profile_allocation; alloc_size and alloc_count add up positive rows only. NULL =
 *          any; times are inclusive.
 * Owns:    a cursor its copy of the sums; SQLite owns the function's result.
 * Errors:  SQLite's.
 */
#ifndef HW_SQL_FLAME_ALLOCATION_TREE_H
#define HW_SQL_FLAME_ALLOCATION_TREE_H

struct hw_sql;

int hw_sql_add_allocation_tree(struct hw_sql *s);

#endif
