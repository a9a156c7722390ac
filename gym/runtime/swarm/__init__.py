"""The Swarm runtime: a plan becomes services of a Docker Swarm, which places them on its nodes and keeps them."""
