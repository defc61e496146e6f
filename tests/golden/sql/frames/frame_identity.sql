-- trace: frame_identity.txt
select id, name, build_id, start, "end", load_bias from stack_profile_mapping;
select f.id, f.name, f.mapping, rel_pc, s.source_file, s.line_number from stack_profile_frame f left join stack_profile_symbol s using (symbol_set_id);
-- every frame has a mapping: none is lost on the way
select c.depth, f.name, m.name as mapping from stack_profile_callsite c join stack_profile_frame f on f.id = c.frame_id join stack_profile_mapping m on m.id = f.mapping order by c.depth;
include perfetto module callstacks.stack_profile;
select id, name, mapping_name, source_file, line_number from _callstacks_for_callsites!(heap_profile_allocation) order by id;
select count(*) as n, count(m.id) as placed from _callstack_spc_forest f left join stack_profile_mapping m on m.id = f.mapping_id;
