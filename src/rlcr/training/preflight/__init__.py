"""What is asked before a model is loaded: the dry run, memory, the device, a model's shape."""
