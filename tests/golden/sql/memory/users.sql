-- trace: ../../trace/native/users.txt
include perfetto module android.user_list;
select * from android_user_list;
select * from __intrinsic_android_user_list;
include perfetto module android.process_metadata;
select * from android_process_metadata;
