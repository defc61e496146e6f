-- trace: ../../trace/native/profile.txt
-- each
attach 'x.db' as x
ATTACH DATABASE ':memory:' AS x
detach main
vacuum
vacuum into 'x.db'
select load_extension('x')
pragma writable_schema = 1
pragma temp_store_directory = '/tmp'
pragma journal_mode = wal
pragma database_list(1)
create virtual table x using fts5(a)
create table t(a); create trigger x after insert on t begin select 1; end
select writefile('x', 'y')
select readfile('/etc/passwd')
select * from pragma_table_info('counter')
pragma table_info(counter)
