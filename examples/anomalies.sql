/* Queues with minutes that are unusual: all minutes of each, with what is usual and how far from it is still
   nothing strange. A minute is compared with the same half hour of all days, or with all minutes while a queue
   is younger than three days; "usual" is the median, so that what is strange does not change it. A minute
   without a row is one in which nothing happened. The last minute is not over. */
with queues as (
    select address, min(minute) first, (select max(minute) from minutes) - interval 1 minute last
    from minutes group by address
),
whole as (
    select address, explode(sequence(first, last, interval 1 minute)) minute,
        last - first >= interval 3 days is_known
    from queues where first <= last
),
measured as (
    select address, minute, if(is_known, unix_seconds(minute) % 86400 div 1800, -1) slot,
        cast(coalesce(accepted, 0) as double) accepted, cast(coalesce(confirmed, 0) as double) confirmed, p95
    from whole left join minutes using (address, minute)
),
compared as (
    select *, median(value) over (partition by address, measure, slot) usual
    from measured unpivot (value for measure in (accepted, confirmed, p95))
),
judged as (
    select address, measure, minute, value, usual,
        6 * greatest(
            1.4826 * median(abs(value - usual)) over (partition by address, measure, slot),
            if(measure = 'p95', 0.05 + usual / 4, 1 + sqrt(usual))
        ) far
    from compared
)
select address, measure, minute, value, usual, far, abs(value - usual) > far is_strange
from judged
qualify bool_or(abs(value - usual) > far) over (partition by address, measure)
order by address, measure, minute
