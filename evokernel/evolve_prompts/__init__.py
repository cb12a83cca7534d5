"""Evolution of the prompt of one operator: edited by a model, tried on tasks, decided by tasks held out."""
