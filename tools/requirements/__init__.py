"""Which code and which tests stand for which rule: ``python -m tools.requirements``.

The pages in docs/requirements/ have a row for each rule. Its text and its remark are written by
hand. Its code is found by comments that begin with its number, its tests by docstrings that name
it. The pages show one test of each rule; ``requirements.json`` has them all.
"""
