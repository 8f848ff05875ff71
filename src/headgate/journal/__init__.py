"""The journal: every fact the router makes, in segments that others read.

A turn leaves its facts in the store's outbox, in the same transaction (`codec`). A process of its
own (`sealer`, started and watched by `sealer_process`) writes them into files (`segments`,
`columns`), which `reader` and the pipeline read. `snapshot` writes what a store holds in this form.
"""
