-- trace: marks.txt
select * from profiler_mark;
select name from profiler_mark where ts > 1300 order by ts desc;
