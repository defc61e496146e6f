-- trace: ../trace/profile.txt
-- each
select name, map_name, self_space, space, self_alloc_space, alloc_space, samples, space_error from heapwise_top(1) order by space desc, name;
select name, space from heapwise_top(1, 1100) order by space desc, name;
select sum(self_space) = (select sum(size) from heap_profile_allocation where upid = 1) as same from heapwise_top(1);
select id, parent_id, depth, name, space, alloc_space from heapwise_callers(1, null, '/foo/') order by id;
select id, parent_id, depth, name, self_space, space from heapwise_callees(1, null, 'main') order by id;
select verdict, name, grown, space, is_rest from heapwise_leaks(1);
select name, a, b, change, error, significant from heapwise_diff(1, 1100, 1, null) order by abs(change) desc, name;
select name, a, b from heapwise_diff(1, 1100, 1, 1200, 'alloc_objects') order by name;
select * from heapwise_sizes(1) order by heap_name, name, up_to;
select sum(alloc_space), sum(space) from heapwise_sizes(1, 1100);
select h.id, t.name, t.space from heap_profile h, heapwise_top(h.upid, h.ts_end) t where t.name = 'main' order by h.id;
select count(*) from heapwise_top(99);
select * from heapwise_top;
select * from heapwise_callers(1, 2);
select * from heapwise_callers(1, null, '/(/');
select * from heapwise_top(1, 'soon');
select * from heapwise_diff(1, null, 1, null, 'bytes');
