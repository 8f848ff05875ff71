"""The journal: all facts of the router, in segments that other programs read.

A turn puts its facts into the store's outbox, in the same transaction (`codec`). A process of its
own (`sealer`, started and watched by `sealer_process`) writes them into files (`segments`,
`columns`), which `reader` and the pipeline read. `snapshot` writes the contents of a store in this
form.
"""
