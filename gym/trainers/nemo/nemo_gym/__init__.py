"""What NeMo RL and verl import from NeMo Gym, for a stack that is already running: `compose-gym-nemo`."""
