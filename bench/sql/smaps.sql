# name: SQL; memory maps
maps by path: select path, sum(pss_kb), sum(private_dirty_kb) from process_memory_mappings group by 1 order by 2 desc
maps of a moment: select upid, path, size_kb, pss_kb from process_memory_mappings where ts = (select max(ts) from profiler_smaps) order by pss_kb desc
