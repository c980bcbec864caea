import numpy as np


def recaller(batch):
    """Remember the cue that is shown at first, and answer with it when asked."""
    seen = zip(batch.observation, batch.memory, strict=True)
    cues = [1 + int(one[:4].argmax()) if kept is None else kept for one, kept in seen]
    asked = batch.observation[:, 4] > 0
    return {"answer": np.where(asked, cues, 0)}, cues
