"""Doctests as the site shows them: code to copy, without prompts, and what it prints below."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator

FENCED = re.compile(r"^```(?:pycon|python)\n(>>> .*?)^```$", flags=re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"[ \t]*# doctest: .*$", flags=re.MULTILINE)
_BLANK = re.compile(r"^<BLANKLINE>$", flags=re.MULTILINE)


def without_prompts(markdown: str) -> str:
    """A page whose fenced doctests are code and results."""
    return FENCED.sub(lambda found: "\n\n".join(blocks_of(found[1])), markdown)


def blocks_of(examples: str) -> Iterator[str]:
    """Fenced blocks: the code up to a result, the result, the code after it, and so on.

    >>> [block.splitlines()[1] for block in blocks_of(">>> 1 + 1")]
    ['1 + 1']
    """
    code = ""
    for example in doctest.DocTestParser().get_examples(examples):
        code += _DIRECTIVE.sub("", example.source).rstrip() + "\n"
        if example.want:
            yield f"```python\n{code}```"
            yield f"``` {{.text .result}}\n{_BLANK.sub('', example.want)}```"
            code = ""
    if code:
        yield f"```python\n{code}```"
