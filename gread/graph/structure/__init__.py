"""What a model wants to know of a graph before training: one file for each idea."""
