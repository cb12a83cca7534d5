"""The engine's side of the evaluator: devices, judge processes, builds."""
