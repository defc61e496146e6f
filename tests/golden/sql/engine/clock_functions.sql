-- trace: clock_functions.txt
select to_realtime(2000000000000) as at, to_realtime(2000000000001) as later, to_realtime(1999999999999) as before, to_realtime(null) as n;
select to_monotonic(2000000000000) as at, to_monotonic(2500000000000) as later;
select abs_time_str(2000000000000) as at, abs_time_str(2000123456789) as later;
select clock_id, clock_name, clock_value, ts, snapshot_id from clock_snapshot;
