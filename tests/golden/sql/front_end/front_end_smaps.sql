-- trace: ../../trace/native/system.txt
-- what a browser's page asks of memory mappings
select id, upid, ts, path, aggregate_count, is_deleted, size_kb, rss_kb, pss_kb, private_dirty_kb, private_clean_kb, shared_dirty_kb, shared_clean_kb, swap_kb, anonymous_kb, locked_kb, pss_dirty_kb, swap_pss_kb from process_memory_mappings;
select ts, upid, sum(pss_kb) as pss from process_memory_mappings group by 1, 2;
