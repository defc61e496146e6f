-- trace: legacy_unplaced.txt
select id, name from stack_profile_mapping;
select name, mapping, rel_pc from stack_profile_frame;
select id, depth, parent_id, frame_id from stack_profile_callsite;
select count(*) from heap_profile_allocation;
