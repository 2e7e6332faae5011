"""What all tasks share: sources of data, seeded draws, settings, files of built problems."""
