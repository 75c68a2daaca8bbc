"""Backoff of stores that keep failing: after many failures in a row only some requests are tried. Pure."""

FAILURES_BEFORE_BACKOFF = 10  # in a row, after which a store is tried less often
PROBE_INTERVAL = 3  # during backoff one of so many requests is tried


class Backoff:
    """Consecutive failures per store, by `id(store)`."""

    def __init__(self) -> None:
        self.consecutive_failures: dict[int, int] = {}
        self._requests: dict[int, int] = {}  # since the backoff began

    def should_attempt(self, store: int) -> bool:
        """Return whether a request is tried now; during backoff each call counts as one request."""
        if self.consecutive_failures.get(store, 0) < FAILURES_BEFORE_BACKOFF:
            return True
        self._requests[store] = self._requests.get(store, 0) + 1
        return self._requests[store] % PROBE_INTERVAL == 0

    def record_success(self, store: int) -> None:
        """End the backoff of a store."""
        self.consecutive_failures[store] = 0
        self._requests.pop(store, None)

    def record_failure(self, store: int) -> int:
        """Count a failure and return how many there were in a row."""
        failures = self.consecutive_failures[store] = self.consecutive_failures.get(store, 0) + 1
        return failures
