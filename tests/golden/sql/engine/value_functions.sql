-- trace: ../../trace/native/profile.txt
-- functions that scripts for Perfetto's trace processor use
-- each
select 'com.example' regexp 'c.m' as a, 'abc' regexp '^b' as b, regexp('B$', 'ab') as c, regexp('', '') as d, regexp(null, 'a') as e, regexp('a', null) as f;
select regexp('(', 'a');
select regexp('((a{9}){9}){9}', 'a');
select regexp_extract('size=128 kB', '[0-9]+') as whole, regexp_extract('size=128 kB', 'size=([0-9]+)') as part, regexp_extract('x', 'y') as none, regexp_extract('ab', '(x)?b') as unset, regexp_extract(null, 'a') as n;
select regexp_replace_simple('a1b22c', '[0-9]+', '#') as digits, regexp_replace_simple('abc', 'x*', '-') as empty, regexp_replace_simple('abc', '^a', '') as start, regexp_replace_simple('aaa', '^a', 'b') as once, regexp_replace_simple('x', 'y', null) as n;
select reverse('abc') as a, reverse('äb€') as u, reverse('') as e, reverse(null) as n, reverse(120) as i;
select base64_encode('Man') as a, base64_encode('Ma') as b, base64_encode('M') as c, base64_encode('') as d, base64_encode(x'fbff') as e, base64_encode(null) as n;
select cast(base64_decode('TWFu') as text) as a, cast(base64_decode('TWE=') as text) as b, hex(base64_decode('+/8=')) as c, base64_decode('T!') as bad, base64_decode(null) as n;
select unhex('ff') as a, unhex('0xFF') as b, unhex('ffffffffffffffff') as c, unhex('') as d, unhex('xyz') as e, unhex('11112222333344445') as f, unhex(null) as n;
select hash('a', 1) = hash('a', 1) as same, hash('a', 1) = hash(1, 'a') as turned, hash(1) = hash('1') as type, hash(null) = hash() as no_value, hash(1.0) = hash(1) as real, typeof(hash('a')) as t;
select str_split('a,b,,c', ',', 0) as a, str_split('a,b,,c', ',', 2) as b, str_split('a,b,,c', ',', 3) as c, str_split('a,b,,c', ',', 4) as d, str_split('a--b', '--', 1) as e, str_split(null, ',', 0) as n;
select str_split('a', '', 0);
select str_split('a', ',', -1);
select to_timecode(0) as a, to_timecode(3723004005006) as b, to_timecode(null) as n, to_monotonic(5) as m, to_realtime(5) as r, abs_time_str(5) as s;
create perfetto table t as select 'a' as v union all select 'b' union all select 'c'; select _auto_id, v from t order by _auto_id desc; select * from t; select a._auto_id, b._auto_id as other from t a join t b on b._auto_id = a._auto_id + 1; with x as (select _auto_id as n, v from t) select * from x where n = 1; create perfetto table u as select _auto_id as id, v from t where v > 'a'; select u.*, u._auto_id from u; create view w as select _auto_id as i from t; select sum(i) from w; create perfetto table k as select 7 as _auto_id; select _auto_id from k;
select _auto_id from process;
include perfetto module android.oom_adjuster; select column1 as score, android_oom_adj_score_to_bucket_name(column1) as bucket from (values (1000), (900), (899), (250), (249), (201), (200), (199), (100), (99), (0), (-1), (null));
include perfetto module counters.intervals; select * from counter_leading_intervals!((select 1 as id, 1100 as ts, 0 as track_id, 5.0 as value union all select 2, 1110, 0, 5.0 union all select 3, 1150, 0, 7.0 union all select 4, 1120, 1, 1.0));
