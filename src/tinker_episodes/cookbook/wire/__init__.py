"""What the model wrote, read from its sampled tokens: reasoning, text, calls, and what meant to be
a call. One module a wire format; `formats` says which renderer writes which.
"""

from tinker_episodes.cookbook.wire.formats import check_names
from tinker_episodes.cookbook.wire.reply import Reply, read_reply

__all__ = ["Reply", "check_names", "read_reply"]
