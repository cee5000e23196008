"""The number_search bundle, shipped as a package so that its files are found after an install."""
