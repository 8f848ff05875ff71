/* Messages accepted and confirmed in each minute, and the times to confirm of the slowest queue. */
select minute, sum(accepted) accepted, sum(confirmed) confirmed,
    max(p50) p50, max(p95) p95, max(p99) p99
from minutes group by minute order by minute
