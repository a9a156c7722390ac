"""What `gym sandbox` is made of: a connection to the broker of a stack, and a terminal."""
