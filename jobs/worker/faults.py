"""Places at which a drill or a test freezes or kills this process; AGENTQ_FAULTS must name them (D1)."""

import os
import signal

_SIGNALS = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL}


def reach(name: str, fence: int) -> None:
    """This place was reached in the attempt with this fence. AGENTQ_FAULTS holds words such as
    `effect_intended@1:stop`, with blanks between: that place, in that attempt, freezes the process."""
    for word in os.environ.get("AGENTQ_FAULTS", "").split():
        place, _, how = word.partition(":")
        if place == f"{name}@{fence}" and how in _SIGNALS:
            os.kill(os.getpid(), _SIGNALS[how])
