/*
 * allocation_tree.h - the callstacks of allocations as a tree of functions with sums
 *
 * Why:     every flamegraph of a native profile begins with this tree. As SQL joins it took two
 *          thirds of the time to the first picture.
 * Shapes:  _hw_allocation_tree(list): list are sums by callsite, of _hw_sum_by(callsite_id, size,
 *          count, alloc_size, alloc_count) or of the function below. A row for each function on the
 *          way from a callsite of the list to its root (callstack_rows.h), in their order; a
 *          callsite's sums stand at its innermost function, elsewhere is 0.
 *          _hw_sums_of_allocations(upid, first_ts, last_ts, heap_name): these sums over
 *          heap_profile_allocation, alloc_size and alloc_count being those of positive rows. NULL =
 *          any; times are inclusive.
 * Owns:    a cursor its copy of the sums; what the function gives belongs to SQLite.
 * Errors:  SQLite's.
 */
#ifndef HW_SQL_FLAME_ALLOCATION_TREE_H
#define HW_SQL_FLAME_ALLOCATION_TREE_H

struct hw_sql;

int hw_sql_add_allocation_tree(struct hw_sql *s);

#endif
