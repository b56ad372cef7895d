"""The search space of a schedule: its knobs, and the constraints among them, found without taking a step."""
