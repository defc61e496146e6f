-- trace: deobfuscation_order.txt
select name, deobfuscated_name from stack_profile_frame;
