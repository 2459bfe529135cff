"""Chapter 18's model on several ranks, counted and computed for walks, pictures and measurements.

counting.py   what a rank sends, if the ranks form a ring
one_step.py   one training step in three ways, with what each rank keeps and sends
one_block.py  a transformer block divided among ranks by tensor parallelism
pipeline.py   when each stage of a pipeline does what
"""
