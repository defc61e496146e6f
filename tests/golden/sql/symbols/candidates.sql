-- trace: ../../trace/native/candidates.txt
include perfetto module stacks.symbolization_candidates;
select upid, module, build_id, rel_pc, breakpad_module_id from _stacks_symbolization_candidates order by upid, module, rel_pc;
select _to_breakpad_module('/x/libchrome.so', '0102030405060708090a0b0c0d0e0f10') as short, _to_breakpad_module('libchrome.so', NULL) as none, _to_breakpad_module(NULL, '') as neither;
