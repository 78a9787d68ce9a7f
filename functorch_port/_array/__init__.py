"""The one mutable cell (`storage.Storage`), and what holds, donates and replaces its arrays."""
