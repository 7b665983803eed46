"""jmbs against other multibody codes: the same mechanisms, methods and steps, measured side by side in one run."""
