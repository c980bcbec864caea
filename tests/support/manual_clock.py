"""A monotonic clock that stands still until a test moves it."""


class ManualClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now
