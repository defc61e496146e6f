-- trace: account_lies.txt
select part, rss, pss, swap from heapwise_account((select upid from process where pid = 7)) where name is null;
select min(rss) >= 0 as none_below_zero from heapwise_account((select upid from process where pid = 7)) where part != 'moved meanwhile';
select part, rss, swap from heapwise_account((select upid from process where pid = 8)) where name is null and swap != 0;
