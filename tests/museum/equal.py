"""An operator that only makes equals: the parent's kernel with another constant that nothing reads."""

import re

from evokernel.records.step import Context, Draft

_MARK = re.compile(r'\nextern "C" const int mark = \d+;\n\Z')


class Equal:
    """Proposes the same machine code again and again, each time as another program."""

    name = "equal"
    parents = 1
    tuner = False

    async def propose(self, context: Context) -> Draft | None:
        parent = context.parents[0].candidate
        source = _MARK.sub("", parent.source) + f'\nextern "C" const int mark = {context.step};\n'
        return Draft(source=source, parents=(parent.id,), rationale=f"equal: number {context.step}")
