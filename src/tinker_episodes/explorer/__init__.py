"""The explorer: a web page over the run index, and over what any run of the trainer logged."""
