"""The expression language of subscriptions: text to tree, tree to predicate; no I/O."""

from headgate.expr.explain import Explanation, caret, drawn, explain, hint
from headgate.expr.index_keys import Equal, Key, Present, Range, keys_of
from headgate.expr.nodes import Tree, text_of
from headgate.expr.parser import ExpressionLimits, parse
from headgate.expr.predicate import Failure, Predicate, compile_expression
from headgate.expr.types import Properties, Value

__all__ = [
    "Equal",
    "Explanation",
    "ExpressionLimits",
    "Failure",
    "Key",
    "Predicate",
    "Present",
    "Properties",
    "Range",
    "Tree",
    "Value",
    "caret",
    "compile_expression",
    "drawn",
    "explain",
    "hint",
    "keys_of",
    "parse",
    "text_of",
]
