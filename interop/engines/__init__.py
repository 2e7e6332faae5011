"""One module for each engine: the real package on the stored completions."""
