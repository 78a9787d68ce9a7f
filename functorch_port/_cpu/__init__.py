"""What a CPU has of its own, for speed alone. `FUNCTORCH_PORT_BACKEND=jax` leaves it out."""
