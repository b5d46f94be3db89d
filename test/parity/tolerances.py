"""How near Maestro must be to PyTorch: the project's numbers, relative where nothing else is said."""

LOSS = 1e-5  # Of one step, and of --evaluate.
GRAD_NORM = 1e-4  # Of one step.
TRAINED_LOSS = 1e-3  # At every step of 50 with AdamW, and of the weights that they left.
SECOND_LOSS, SECOND_GRAD_NORM = 1e-4, 2e-3  # Of a step after an update.
BF16_LOSS = 0.02  # Of f32's, over 200 steps.


def gradient(largest: float, norm: float) -> float:
    """How far each element of a parameter's gradient may be off: by the parameter's largest and by the norm of all."""
    return 1e-4 * largest + 1e-6 * norm
