"""The bundles that come with the library."""
