-- trace: legacy_dumps.txt
select a.ts, a.size, a.count, f.name, m.name, m.build_id from heap_profile_allocation a
  join stack_profile_callsite c on c.id = a.callsite_id join stack_profile_frame f on f.id = c.frame_id
  join stack_profile_mapping m on m.id = f.mapping order by a.id;
select name, mapping, rel_pc from stack_profile_frame;
select id, depth, parent_id, frame_id from stack_profile_callsite;
select name, idx, value from stats where value and source != 'analysis' order by name;
select name, value from stats where value and name glob 'stackprofile*';
