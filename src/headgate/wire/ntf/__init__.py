"""The protocol of notification servers, versions 2 and 3: apps hand over their devices and the
notifiers of their queues, in blocks of 512 bytes.

Both directions are here: a server reads commands and writes replies, an app the other way round.
Fields, transmissions and proofs are those of SMP, so this wire reads them with SMP's codec.
"""
