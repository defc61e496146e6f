-- trace: annotated_frames.txt
select a.depth, f.name, m.name as mapping, annotation from (select distinct callsite_id from heap_profile_allocation) s,
  experimental_annotated_callstack(s.callsite_id) a join stack_profile_frame f on f.id = a.frame_id join stack_profile_mapping m on m.id = f.mapping
  order by s.callsite_id, a.depth;
