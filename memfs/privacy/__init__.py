"""Keep secrets out of files and logs: redaction policy, detectors and encryption."""
