"""A transformers model on packed sequences that share their beginnings: to sample, to learn, to embed."""
