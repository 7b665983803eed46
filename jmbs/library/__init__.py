"""Ready-made components and composites, by energy domain."""
