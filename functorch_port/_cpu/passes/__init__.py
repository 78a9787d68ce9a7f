"""What is made of a program before XLA for a CPU gets it."""
