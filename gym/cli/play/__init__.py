"""`gym play`: a person in the place of the model."""
