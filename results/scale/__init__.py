"""The numbers of docs/scale.md: memory by recipe and launch, and what a step would take, on paper.

python -m results.scale        writes the tables into the page; a test keeps them current
"""
