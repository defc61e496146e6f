-- trace: ../../trace/native/symbols.txt
select id, annotation from experimental_annotated_callstack(0);
select hex(cat_stacks('a', null, stack_from_stack_profile_callsite(0), 'b')) as stack;
select cat_stacks() is null as none, cat_stacks(null) is null as empty, stack_from_stack_profile_callsite(null) is null as no_callsite;
select experimental_profile(cat_stacks('a')) is not null as some from process;
select experimental_profile(cat_stacks('a')) is null as none from process where pid < 0;
include perfetto module stacks.symbolization_candidates;
select * from _stacks_symbolization_candidates;
