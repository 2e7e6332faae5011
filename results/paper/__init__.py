"""The paper's own tables: typed in, checked for consistency, and recomputed where stored outputs exist.

`make paper` (`python -m results.paper`) prints what it finds and writes results/paper.json. Which file
answers what: `tables.yaml` what is printed, `tables` how it is read, `checks` what must hold between printed
numbers, `recompute` what the authors' stored outputs give, `__main__` the command.
"""
