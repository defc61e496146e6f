-- trace: smaps.txt
select ts, path, path_trimmed, is_deleted, size_kb, rss_kb, aggregate_count from profiler_smaps;
select start_address, module_timestamp, protection_flags, private_clean_resident_kb, shared_dirty_resident_kb, shared_clean_resident_kb, locked_kb, pss_dirty_kb, swap_pss_kb from profiler_smaps where id = 0;
select name, value from stats where name = 'smaps_parser_errors';
