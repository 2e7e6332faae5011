"""A run on disk: the type of a record, the files of a run, derived columns, versions."""
