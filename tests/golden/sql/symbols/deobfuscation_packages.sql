-- trace: deobfuscation_packages.txt
select f.id, f.name, m.name as mapping, symbol_set_id, deobfuscated_name from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping;
select name, source_file, line_number, inlined from stack_profile_symbol;
select c.id, c.name, deobfuscated_name, location from heap_graph_class c;
select owner_id, field_name, deobfuscated_field_name from heap_graph_reference;
select name, value from stats where name = 'deobfuscate_location_parse_error';
