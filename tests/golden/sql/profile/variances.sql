-- trace: variances.txt
select name, space, space_error, objects_error, alloc_space_error, alloc_objects_error from heapwise_top(2) order by name;
select name, change, error, significant from heapwise_diff(2, 30, 2, 60, 'space') order by name;
select name, change, error, significant from heapwise_diff(2, 30, 2, 60, 'alloc_objects') order by name;
select name, idx, value, severity from stats where name = 'heapprofd_bad_variance';
