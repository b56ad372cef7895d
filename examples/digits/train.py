"""Make the digits example's two data files: `digits.npz` (images, labels) and `weights.npz` (a trained perceptron).

Run `python examples/digits/train.py` with the `train` extra installed. It is the only file that imports scikit-learn;
both outputs are kept in the repository, so nothing else needs to run it. A row whose index is a multiple of 5 is held
out and never seen in training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

FOLDER = Path(__file__).resolve().parent
PIXEL_MAX = 16  # a pixel counts the set bits of a 4x4 block: 0..16
HELD_OUT_EVERY = 5
SEED = 7


def main() -> None:
    """Write both files and print the held-out accuracy."""
    digits = load_digits()
    images = digits.data.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    np.savez_compressed(FOLDER / "digits.npz", images=images, labels=labels)

    rows = images.astype(np.float32) / PIXEL_MAX
    held_out = np.arange(len(rows)) % HELD_OUT_EVERY == 0
    classifier = MLPClassifier(
        hidden_layer_sizes=(256, 128), activation="relu", alpha=1e-2, max_iter=500, random_state=SEED
    )
    classifier.fit(rows[~held_out], labels[~held_out])

    parameters: dict[str, np.ndarray] = {}
    for layer, (weight, bias) in enumerate(zip(classifier.coefs_, classifier.intercepts_, strict=True), start=1):
        parameters[f"w{layer}"] = weight.astype(np.float32)
        parameters[f"b{layer}"] = bias.astype(np.float32)
    np.savez(FOLDER / "weights.npz", allow_pickle=False, **parameters)

    accuracy = classifier.score(rows[held_out], labels[held_out])
    print(f"held-out accuracy: {accuracy:.4f} on {held_out.sum()} rows")


if __name__ == "__main__":
    main()
