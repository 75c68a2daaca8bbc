"""The text of one memory file: parse its header and body, and edit it in place. Pure."""
