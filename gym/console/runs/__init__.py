"""Runs: every collection of the results folder, and the figures of one."""
