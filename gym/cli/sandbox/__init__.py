"""What `gym sandbox` is made of: a line to the broker of a stack, and a terminal at its other end."""
