-- trace: ../../trace/native/profile.txt
-- names under which scripts ask for what is always there
include perfetto module prelude.after_eof.tables_views; include perfetto module prelude.before_eof.trace_bounds; include perfetto module prelude.slices;
include perfetto module prelude.*;
select count(*) as modules from heapwise_modules where name glob 'prelude.*';
select trace_end() - trace_start() as still_there, (select count(*) from slices) as slices;
