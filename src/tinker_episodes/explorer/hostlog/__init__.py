"""What the trainer itself writes at a log path, read as the run index is read: for runs that no
bundle filed.
"""
