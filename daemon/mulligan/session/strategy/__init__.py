"""The four strategies: when a session's events are worth a checkpoint.

Each module has one function, `decide(event, state)`: the condition under which a checkpoint follows the event, or None.
The end of a turn is the same for all but `manual` and is the machine's.
"""
