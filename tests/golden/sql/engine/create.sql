-- trace: ../../trace/native/profile.txt
create perfetto table live(site LONG, bytes LONG) as
  select callsite_id as site, sum(size) as bytes from heap_profile_allocation group by 1;
create perfetto index live_site on live(site);
select * from live order by site;
create or replace perfetto table live as select 1 as one;
select * from live;
create perfetto view big as select * from heap_profile_allocation where size > 500;
select id, size from big;
create perfetto function twice(x LONG) returns LONG as select $x * 2;
create perfetto function factorial(n LONG) returns LONG as
  select case when $n <= 1 then 1 else $n * factorial($n - 1) end;
select twice(21), factorial(10);
create perfetto function rows_of(least LONG) returns table(site LONG, bytes LONG) as
  select callsite_id, size from heap_profile_allocation where size >= $least;
select * from rows_of(100);
select p.pid, r.bytes from process p, rows_of(p.pid) r where p.upid = 3 and r.bytes < 50;
create perfetto macro total(rows TableOrSubquery, what ColumnName) returns Expr as (select sum($what) from $rows);
create perfetto macro both(rows TableOrSubquery) returns Expr as total!($rows, size) || '/' || total!($rows, count);
select both!(heap_profile_allocation) as bytes_and_count, total!((select 1 as a, 'x,)' as b), a) as one;
create or replace perfetto macro total(rows TableOrSubquery) returns Expr as (select 'a;b -- no comment /*' from $rows limit 1);
select total!(process) as text; select 1 /* ; */ as one -- end
