"""Helpers for the tests of tinker-episodes' users."""
