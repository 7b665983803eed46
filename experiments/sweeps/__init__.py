"""Sweeps of a double pendulum: how quick they are beside bare batches, and whether kills leave a trace."""
