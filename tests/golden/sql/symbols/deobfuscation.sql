-- trace: ../../trace/native/deobfuscation.txt
select id, name, mapping, symbol_set_id, deobfuscated_name from stack_profile_frame;
select name, source_file, line_number, inlined from stack_profile_symbol;
select id, name, deobfuscated_name, location from heap_graph_class;
select field_name, deobfuscated_field_name from heap_graph_reference;
