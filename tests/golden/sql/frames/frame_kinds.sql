-- trace: frame_kinds.txt
select id, name from stack_profile_mapping;
select id, rel_pc, type, symbol_set_id from stack_profile_frame;
select id, symbol_set_id, name, source_file, line_number from stack_profile_symbol;
select name, value from stats where name = 'stackprofile_invalid_string_id';
