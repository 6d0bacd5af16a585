"""When a group evens itself out by its lag: the rule, the speeds that it learns, and the loop around both.

Nothing here has a clock, a thread or a client: moments come in with the samples, decisions go out with their reason.
So consumers, the replay of a recorded group and a simulation call the same code.
"""

from apportion.acting.rule import Acting, Decision

__all__ = ["Acting", "Decision"]
