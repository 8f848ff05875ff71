/* Messages that each subscription of each app loses, keeps and gains, of two results of
   `headgate pipeline route`: `routed` before a change of subscriptions, `rerouted` after it. */
select app, receiver,
    count_if(was and not becomes) loses, count_if(was and becomes) keeps,
    count_if(not was and becomes) gains
from (
    select app, receiver, number, bool_or(not is_new) was, bool_or(is_new) becomes
    from (
        select false is_new, app, number,
            explode(if(size(winners) = 0, array(outcome), winners)) receiver
        from parquet.routed
        union all
        select true, app, number, explode(if(size(winners) = 0, array(outcome), winners))
        from parquet.rerouted
    ) group by all
) group by app, receiver order by app, receiver
