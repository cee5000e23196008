"""The HTTP endpoints, by what they are about. Each handler reads, asks the backend, and answers."""
