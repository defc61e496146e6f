-- trace: ../../trace/native/profile.txt
-- each
select foo from process
select * from missing
selec 1
select 'open
select 1;; select 2; select (
create perfetto thing x as select 1
create perfetto table process_x(a LONG) as select 1 as b
create perfetto table x(a LONG, b LONG) as select 1 as a
create perfetto function f(x LONG) as select 1
create perfetto function f(x LONG) returns LONG as select 1, 2
create perfetto function f(x LONG) returns LONG as select pid from process; select f(1)
create perfetto function f(x LONG) returns LONG as select f($x + 1); select f(1)
create perfetto function f(x LONG) returns table(a LONG) as select 1 as a; select * from f
create perfetto macro m(a Expr) returns Expr as m!($a); select m!(1)
create perfetto macro a(x Expr) returns Expr as $x $x $x $x $x $x $x $x; select a!(a!(a!(a!(a!(a!(a!(a!(a!(a!(1))))))))))
create perfetto macro m(a Expr) returns Expr as $a; select m!(1, 2)
select m!(1)
select m!(1
include perfetto module android.memory.no_such_module
select * from experimental_flamegraph
select * from experimental_flamegraph(1200, 1, 'other')
select * from experimental_flamegraph(1200, NULL, 'native')
select * from experimental_flamegraph where upid = 1 and profile_type = 'native'
select * from experimental_flamegraph('native', NULL, NULL, 1, NULL, NULL)
select * from experimental_flamegraph(1200, 1, 'graph')
select count(*) from experimental_flamegraph(0, 1, 'native')
select count(*) from experimental_flamegraph(1200, 99, 'native')
insert into process(pid) values(1)
delete from stats
